"""Readers of text: golden files, broken files with their line, and skipping."""

import csv
import gzip
import json

import pytest

import hmom_jax as hm
from hmom_jax.io import texts
from hmom_jax.io.lines import Problems

TEXTS = ["red apple pie", 'a "green" apple, too', "line one\nline two apple", "blue ångström sky"]


def write_jsonl(path, values, opener=open):
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": value, "id": i}) + "\n" for i, value in enumerate(values))


def write_table(path, values, delimiter):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow(["id", "text"])
        rows.writerows([i, value] for i, value in enumerate(values))


def write_folder(path, values):
    for i, value in enumerate(values):
        (path / f"part{i % 2}").mkdir(parents=True, exist_ok=True)
        (path / f"part{i % 2}" / f"{i}.txt").write_text(value, encoding="utf-8")


def write_parquet(path, values):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"text": values}), path)


WRITERS = {
    "texts.jsonl": write_jsonl,
    "texts.jsonl.gz": lambda path, values: write_jsonl(path, values, gzip.open),
    "texts.csv": lambda path, values: write_table(path, values, ","),
    "texts.tsv": lambda path, values: write_table(path, values, "\t"),
    "texts.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_text_format_gives_the_same_counts(name, tmp_path):
    WRITERS[name](tmp_path / name, TEXTS)
    corpus = hm.read_corpus(tmp_path / name, min_df=1)
    expected = hm.read_corpus(TEXTS, min_df=1)
    assert corpus.vocabulary.tolist() == expected.vocabulary.tolist()
    assert "ångström" in corpus.vocabulary.tolist()
    assert (corpus.counts != expected.counts).nnz == 0


def test_a_folder_of_texts_is_read_in_the_order_of_paths(tmp_path):
    write_folder(tmp_path / "texts", TEXTS)
    corpus = hm.read_corpus(tmp_path / "texts", min_df=1)
    expected = hm.read_corpus([TEXTS[i] for i in (0, 2, 1, 3)], min_df=1)
    assert (corpus.counts != expected.counts).nnz == 0


def test_a_text_file_has_a_document_a_line(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("\ufeffred apple\r\n\r\ngreen apple\n".encode())
    assert hm.read_corpus(path, min_df=1).counts.shape == (2, 3)


def test_a_hugging_face_dataset_is_read_by_batch():
    class Dataset:
        column_names = ["text"]  # noqa: RUF012

        def __init__(self, values):
            self.values = values

        def iter(self, batch_size):
            assert batch_size > 1
            for start in range(0, len(self.values), 2):
                yield {"text": self.values[start : start + 2]}

    assert hm.read_corpus(Dataset(TEXTS), min_df=1).n_docs == 4
    with pytest.raises(hm.InputError, match="no column 'body'"):
        hm.read_corpus(Dataset(TEXTS), field="body")
    with pytest.raises(hm.InputError, match="dataset, line 2"):
        hm.read_corpus(Dataset(["a", None]))
    with pytest.raises(hm.InputError, match="splits"):
        list(texts.read_dataset({"train": Dataset(TEXTS)}, Problems()))


BROKEN = {
    "a.jsonl": (b'{"text": "red apple"}\n{"text": \n{"text": "green apple"}\n', 2, "not JSON"),
    "b.jsonl": (b'{"text": "red apple"}\n\n["list"]\n', 3, "a JSON object was expected"),
    "c.jsonl": (b'{"text": "red apple"}\n{"body": "green", "n": 1}\n', 2, "fields: body, n"),
    "d.jsonl": (b'{"text": "red apple"}\n{"text": "caf\xe9"}\n', 2, "not utf-8"),
    "e.csv": (b"id,text\n1,red apple\n2\n3,green apple\n", 3, "2 columns were expected"),
    "f.csv": (b'id,text\n1,red apple\n2,"green" apple\n3,kiwi\n', 3, "not a table row"),
    "g.jsonl": (b'{"text": "red apple"}\n' + b"[" * 100_000 + b"\n", 2, "not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_lines_are_named_and_can_be_skipped(name, tmp_path):
    content, line, message = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(hm.InputError, match=message) as caught:
        hm.read_corpus(path, min_df=1)
    assert f"{name}, line {line}:" in str(caught.value)
    with pytest.warns(UserWarning, match=f"1 broken line.*line {line}"):
        corpus = hm.read_corpus(path, min_df=1, skip_bad=True)
    assert corpus.vocabulary.tolist()[0] == "apple"


def test_a_cut_off_archive_is_an_error_of_ours(tmp_path):
    path = tmp_path / "texts.jsonl.gz"
    write_jsonl(path, TEXTS * 500, gzip.open)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(hm.InputError, match=r"damaged or cut off at line \d+, and the rest is missing"):
        hm.read_corpus(path)
    with pytest.warns(UserWarning, match="incomplete or damaged input") as caught:
        n_docs = hm.read_corpus(path, skip_bad=True).n_docs
    assert 0 < n_docs < 2000
    (warning,) = caught
    assert (
        f"incomplete or damaged input: {path}: the compressed file is damaged or cut off at line {n_docs + 1},"
        in str(warning.message)
    )


def test_a_wrong_checksum_puts_all_lines_in_doubt(tmp_path):
    path = tmp_path / "texts.jsonl.gz"
    write_jsonl(path, TEXTS, gzip.open)
    path.write_bytes(path.read_bytes()[:-8] + bytes(4) + path.read_bytes()[-4:])
    with pytest.raises(hm.InputError, match="checksum is wrong, and any of 4 lines may be"):
        hm.read_corpus(path, min_df=1)


def test_a_cut_off_file_of_a_folder_is_left_out(tmp_path):
    write_folder(tmp_path / "texts", TEXTS)
    for number in range(5):
        (tmp_path / f"texts/cut{number}.txt").write_bytes(gzip.compress(b"kiwi " * 1000)[:-10])
    with pytest.warns(UserWarning, match="incomplete or damaged input") as caught:
        assert hm.read_corpus(tmp_path / "texts", min_df=1, skip_bad=True).n_docs == 4
    assert len(caught) == 4
    assert "2 more file(s)" in str(caught[-1].message)


def test_missing_columns_and_unknown_endings_are_told(tmp_path):
    (tmp_path / "a.csv").write_text("id,body\n1,red\n")
    with pytest.raises(hm.InputError, match="the columns are id, body"):
        hm.read_corpus(tmp_path / "a.csv")
    (tmp_path / "a.docx").write_text("")
    with pytest.raises(hm.InputError, match="known endings"):
        hm.read_corpus(tmp_path / "a.docx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(hm.InputError, match=r"no \.txt files"):
        hm.read_corpus(tmp_path / "empty")
    with pytest.raises(hm.InputError, match="encoding"):
        hm.read_corpus(tmp_path / "a.csv", encoding="klingon")
    with pytest.raises(FileNotFoundError):
        hm.read_corpus(tmp_path / "nothing.jsonl")


def test_the_csv_field_limit_is_left_as_it_was(tmp_path):
    before = csv.field_size_limit()
    long = "apple " * 50_000
    write_table(tmp_path / "long.csv", [long], ",")
    assert hm.read_corpus(tmp_path / "long.csv", min_df=1).counts.sum() == 50_000
    assert csv.field_size_limit() == before
