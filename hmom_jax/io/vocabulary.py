"""The words that belong to a file of counts, one a line."""

from pathlib import Path

from hmom_jax.io.lines import Problems, read_lines


def vocabulary_beside(path) -> Path | None:
    """Return the vocabulary file that belongs to a file of counts, if it is there.

    ``vocab.NAME.txt`` for ``docword.NAME.txt(.gz)``, else the name with ``.vocab.txt`` in place of its ending.
    """
    path = Path(path)
    name = path.name.removesuffix(".gz")
    beside = [path.with_name(path.name + ".vocab.txt"), path.with_name(f"{name.rsplit('.', 1)[0]}.vocab.txt")]
    if name.startswith("docword"):
        beside.insert(0, path.with_name("vocab" + name.removeprefix("docword")))
    return next((file for file in beside if file.is_file()), None)


def read_vocabulary(path, problems: Problems) -> list[str]:
    """Read words, one a line."""
    words = [line.strip() for _, line in read_lines(path, problems)]
    while words and not words[-1]:
        words.pop()
    return words
