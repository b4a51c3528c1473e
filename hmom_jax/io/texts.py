"""Readers of text: each yields one string per document and never holds more than a batch."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hmom_jax.errors import InputError
from hmom_jax.io.lines import MAX_LINE, Problems, read_lines

_BATCH = 1000


def read_jsonl(path, problems: Problems, *, field: str = "text", encoding="utf-8", watch=None) -> Iterator[str]:
    """Yield a field of each JSON object, one object a line."""
    for number, line in read_lines(path, problems, encoding, watch):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.report(path, number, f"not JSON: {error}")
            continue
        if not isinstance(record, dict):
            problems.report(path, number, f"a JSON object was expected; got {type(record).__name__}")
        elif not isinstance(record.get(field), str):
            known = ", ".join(sorted(map(str, record))[:8])
            problems.report(path, number, f"no text in field {field!r} (fields: {known})")
        else:
            yield record[field]


def read_table(
    path, problems: Problems, *, field: str = "text", delimiter: str = ",", encoding="utf-8", watch=None
) -> Iterator[str]:
    """Yield a column of a CSV or TSV file whose first line names the columns."""
    lines = (line + "\n" for _, line in read_lines(path, problems, encoding, watch))
    before = csv.field_size_limit(MAX_LINE)  # the default of 128 KiB is shorter than many an article
    try:
        rows = csv.reader(lines, delimiter=delimiter, strict=True)
        names = None
        while True:
            try:
                row = next(rows)
            except StopIteration:
                break
            except csv.Error as error:
                problems.report(path, rows.line_num, f"not a table row: {error}")
                continue
            if names is None:
                names = [name.strip() for name in row]
                if field not in names:
                    raise InputError(f"{path}, line 1: no column {field!r}; the columns are {', '.join(names[:20])}.")
                column = names.index(field)
            elif len(row) > column:
                yield row[column]
            elif row:
                problems.report(path, rows.line_num, f"{len(names)} columns were expected; got {len(row)}")
    finally:
        csv.field_size_limit(before)


def read_plain(path, problems: Problems, *, encoding="utf-8", watch=None) -> Iterator[str]:
    """Yield the lines that are not blank: one document a line."""
    for _, line in read_lines(path, problems, encoding, watch):
        if line.strip():
            yield line


def read_folder(
    path, problems: Problems, *, encoding="utf-8", watch: Callable[[int], None] | None = None
) -> Iterator[str]:
    """Yield the text of every ``.txt`` file below a folder, in the order of their paths."""
    files = sorted(Path(path).rglob("*.txt"))
    if not files:
        raise InputError(f"{path}: no .txt files in this folder.")
    done = 0
    for file in files:
        n_bytes = file.stat().st_size
        if n_bytes > MAX_LINE:
            problems.report(file, None, f"longer than {MAX_LINE >> 20} MB; is this one document?")
            continue
        bad = problems.count, len(problems.notes)
        lines = [line for _, line in read_lines(file, problems, encoding)]
        done += n_bytes
        if watch is not None:
            watch(done)
        if (problems.count, len(problems.notes)) == bad:
            yield "\n".join(lines)


def read_parquet(path, problems: Problems, *, field: str = "text") -> Iterator[str]:
    """Yield a column of a Parquet file, a batch of rows at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'hmom-jax[parquet]'.") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if field not in names:
                raise InputError(f"{path}: no column {field!r}; the columns are {', '.join(names[:20])}.")
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=[field]):
                for value in batch.column(0).to_pylist():
                    row += 1
                    if isinstance(value, str):
                        yield value
                    else:
                        problems.report(path, row, f"no text in column {field!r}; got {type(value).__name__}")
    except (pyarrow.ArrowException, UnicodeError) as error:
        raise InputError(f"{path}: not a Parquet file that can be read: {error}") from error
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise InputError(f"{path}: not a Parquet file that can be read: {error}") from error


def read_dataset(dataset, problems: Problems, *, field: str = "text") -> Iterator[str]:
    """Yield a column of a Hugging Face ``datasets`` object (in memory or streamed), batch by batch."""
    if isinstance(dataset, Mapping):
        raise InputError(f"This is a dictionary of splits ({', '.join(map(str, dataset))}): give one of them.")
    row = 0
    for batch in dataset.iter(batch_size=_BATCH):
        if field not in batch:
            raise InputError(f"The dataset has no column {field!r}; the columns are {', '.join(map(str, batch))}.")
        for value in batch[field]:
            row += 1
            if isinstance(value, str):
                yield value
            else:
                problems.report("dataset", row, f"no text in column {field!r}; got {type(value).__name__}")


def is_dataset(source) -> bool:
    """Tell whether an object looks like a Hugging Face dataset."""
    return hasattr(source, "iter") and hasattr(source, "column_names")


def read_mallet(path, problems: Problems, *, encoding="utf-8", watch=None) -> Iterator[str]:
    """Yield the words of MALLET's one-line format: name, label, then the words."""
    for number, line in read_lines(path, problems, encoding, watch):
        if not line.strip():
            continue
        parts = line.split(None, 2)
        if len(parts) < 2:
            problems.report(path, number, "a name, a label and words were expected")
        else:
            yield parts[2] if len(parts) == 3 else ""


def read_list(texts: Iterable[str]) -> Iterable[str]:
    """Return the texts as they are; one string alone is taken for a mistake."""
    if isinstance(texts, str | bytes):
        raise InputError("A list of strings was expected, one per document; got one string.")
    return texts
