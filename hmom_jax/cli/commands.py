"""What each command does. Results go to standard output, everything else to standard error."""

import importlib.util
import json
import re
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

from hmom_jax import datasets
from hmom_jax.cli.bench import measure, report
from hmom_jax.cli.distributed import PeerLostError, all_devices, join, leave, own_part, watch_peers
from hmom_jax.cli.machine import device_line, memory_needed, memory_there, watch_compilation
from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.files import write_text
from hmom_jax.io import load_tree, read_corpus, write_counts, write_shards
from hmom_jax.io.lines import Problems
from hmom_jax.io.read import is_text, settings_of
from hmom_jax.io.vocabulary import read_vocabulary
from hmom_jax.parallel.shards import ENDING
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.report.contents import EXCERPT_SOURCE
from hmom_jax.stop_words import STOP_WORDS
from hmom_jax.text import is_text_settings, tokenise
from hmom_jax.tree import Tree, grow_tree
from hmom_jax.tree.robust import AUTO_LEAVES

__all__ = ["PeerLostError", "assign", "bench", "convert", "demo", "show", "tree"]
_LARGE = 2**30  # runs that need more than this say so beforehand


def demo(options) -> None:
    """Grow the tree of the documentation of NumPy, SciPy and JAX."""
    work = _Work(options)
    for path in (options.json, options.html):
        _check_folder(path)
    data = datasets.docstrings()
    corpus = Corpus.from_counts(data.counts, data.vocabulary)
    work.read(corpus)
    grown = work.grow(corpus, **_size(options))
    grown.to_html(
        options.html,
        documents=data.documents,
        corpus=corpus,
        labels=data.label_names[data.labels],
        title="Documentation of NumPy, SciPy and JAX",
    )
    _output(grown, options.json)
    work.finish(grown, f"tree written to {options.json}; open {options.html} in a browser")


def tree(options) -> None:
    """Grow a tree of the input."""
    if options.method == "paper" and options.depth is None:
        raise InputError("--method paper needs --depth N, the number of successive splits (and no --leaves).")
    if options.resume and options.checkpoint is None:
        raise InputError("--resume needs --checkpoint FOLDER, where the rounds were kept.")
    how_many = join(options.distributed, options.checkpoint)
    work = _Work(options)
    for path in (options.save, options.json, options.html, options.checkpoint):
        _check_folder(path)
    how = {"stop_words": _stop_words(options.stop_words, options.skip_bad), "ngrams": options.ngrams}
    excerpts = _Excerpts()
    tokeniser = excerpts if options.html else tokenise
    corpus = _read(options, work, **how, **_limits(options), vocabulary=options.vocab, tokeniser=tokeniser)
    text = settings_of(options.input, options.format, **how)
    if options.scratch is not None:
        if not isinstance(corpus, StreamedCorpus):
            raise InputError("--scratch is for counts that stay on disk: hmom convert INPUT NAME.shards writes them.")
        if not Path(options.scratch).is_dir():
            raise InputError(f"--scratch: there is no folder {options.scratch}.")
        corpus.scratch = Path(options.scratch)
    if how_many > 1:
        corpus = own_part(corpus, how_many)
    elif options.method == "paper" or (options.method is None and options.depth is not None):
        corpus = _in_memory(corpus)
    work.read(corpus)
    with watch_peers(how_many, options.checkpoint):
        grown = work.grow(
            corpus, **_size(options), method=options.method, key=jax.random.key(options.seed),
            checkpoint=options.checkpoint, resume=options.resume, mesh=all_devices() if how_many > 1 else None,
        )  # fmt: skip
        if leave(how_many):
            return
    if how_many == 1:
        work.tell_empty(corpus, grown, grown.labels())
    if text is not None:
        grown.metadata["text"] = text
    if options.save:
        grown.save(options.save)
    if options.html:
        documents = excerpts.texts or None  # counts have no text
        shown = None if isinstance(corpus, StreamedCorpus) or how_many > 1 else corpus
        grown.to_html(options.html, documents=documents, corpus=shown, title=_title(options.input))
    _output(grown, options.json, options.words)
    outcome = f"saved as {options.save}" if options.save else "not saved (--save FILE)"
    work.finish(grown, outcome + (f"; open {options.html} in a browser" if options.html else ""))


def assign(options) -> None:
    """Print the leaf of each document of the input."""
    work = _Work(options)
    model = load_tree(options.model)
    corpus = _read(options, work, vocabulary=model.vocabulary, **_text_settings(options, model))
    work.read(corpus)
    labels = model.assign(corpus, options.level)
    work.tell_empty(corpus, model, labels, options.level)
    if not options.json:
        sys.stdout.write("".join(f"{label}\n" for label in labels.tolist()))
    else:
        best = model.probabilities(corpus).max(1)
        words = [model.keywords(leaf, 5) for leaf in model.leaves]
        for number, label in enumerate(labels.tolist()):
            record = {"document": number, "label": label}
            if options.level is None:
                record |= {"probability": round(float(best[number]), 6), "keywords": words[label]}
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
    work.say(f"{corpus.n_docs} documents assigned in {work.seconds():.1f} s")


def bench(options) -> None:
    """Time trees on this machine, beside other tools."""
    work = _Work(options)
    _check_folder(options.json)
    labels = None
    if options.input is None:
        data = datasets.docstrings()
        corpus, labels = Corpus.from_counts(data.counts, data.vocabulary), data.labels
    else:
        corpus = _in_memory(_read(options, work))
    work.read(corpus)
    found = measure(corpus, labels, options.leaves, options.repeats, work.say)
    if options.json == "-":
        print(json.dumps(found), flush=True)
        return
    if options.json:
        write_text(options.json, json.dumps(found, indent=1) + "\n")
    print(report(found), flush=True)


def show(options) -> None:
    """Print a saved tree."""
    _check_folder(options.html)
    model = load_tree(options.model)
    if options.leaves is not None:
        model = model.cut(options.leaves)
    if options.html:
        model.to_html(options.html, title=_title(options.model))
    _output(model, options.json, options.words)


def convert(options) -> None:
    """Write counts, or a tree, in another format."""
    work = _Work(options)
    _check_folder(options.output)
    if options.input.endswith(".hmom"):
        model, ending = load_tree(options.input), Path(options.output).suffix.lower()
        if ending == ".json":
            model.to_json(options.output)
        elif ending in (".nwk", ".newick"):
            write_text(options.output, model.to_newick() + "\n")
        else:
            raise InputError(f"A tree is written as .json or .nwk; got {options.output!r}.")
        return
    how = {"stop_words": _stop_words(options.stop_words, options.skip_bad), "ngrams": options.ngrams}
    how |= {**_limits(options), "vocabulary": options.vocab}
    if options.output.endswith(ENDING):
        how |= {"n_nonzeros": options.shard_size}
        corpus = write_shards(options.input, options.output, **_reading(options, work), **how)
    else:
        corpus = _read(options, work, **how)
        write_counts(_in_memory(corpus), options.output)
    work.say(f"{corpus.n_docs} documents, {corpus.n_words} words, {corpus.nnz} counts written to {options.output}")


class _Excerpts:
    """Keeps the beginning of each text that it splits into words: what the page shows, and no more than that."""

    def __init__(self):
        self.texts = []

    def __call__(self, text: str) -> list[str]:
        self.texts.append(text[:EXCERPT_SOURCE])
        return tokenise(text)


class _Work:
    """Tells, on standard error, what goes on and how long it took."""

    def __init__(self, options):
        self.quiet = options.quiet
        self.progress = not options.quiet and sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
        self.begin = time.perf_counter()
        self.compiled = watch_compilation()

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)

    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def read(self, corpus: Corpus) -> None:
        """Say what has been read and where it goes."""
        self.reading = self.seconds()
        self.say(f"{corpus.n_docs} documents, {corpus.n_words} words, {corpus.nnz} nonzeros; on {device_line()}")

    def tell_empty(self, corpus: Corpus, tree: Tree, labels: np.ndarray, level: int | None = None) -> None:
        """Say where documents go that have no words of the vocabulary: all to one place."""
        empty = np.flatnonzero(corpus.length == 0)
        if not len(empty):
            return
        label, kind = int(labels[empty[0]]), "leaf" if level is None else "group"
        sizes = np.bincount(tree.labels(level), minlength=label + 1)
        place = f"the largest {kind}, {label}" if sizes[label] == sizes.max() else f"{kind} {label}"
        who, go = ("1 document has", "it goes") if len(empty) == 1 else (f"{len(empty)} documents have", "they go")
        self.say(f"{who} no words of the vocabulary; {go} to {place}")

    def grow(self, corpus: Corpus, **options) -> Tree:
        """Grow a tree, after a word about memory where much is needed."""
        depth, leaves = options.get("depth"), options.get("n_leaves")
        wanted = 2**depth if depth else leaves if isinstance(leaves, int) else AUTO_LEAVES
        need, there = memory_needed(corpus, wanted), memory_there()
        if isinstance(corpus, StreamedCorpus):
            self.say("the counts stay on disk")
        elif need > _LARGE or (there is not None and need > there // 2):
            known = "" if there is None else f" of {there / 1e9:.1f} GB"
            self.say(f"this takes about {need / 1e9:.1f} GB{known} memory")
        return grow_tree(corpus, **options, progress=self.progress)

    def finish(self, tree: Tree, outcome: str) -> None:
        """Say how long it took, compilation apart."""
        compiled = self.compiled()
        run = self.seconds() - self.reading - compiled
        self.say(
            f"\n{tree.n_leaves} leaves; read {self.reading:.1f} s, compile {compiled:.1f} s, run {run:.1f} s; {outcome}"
        )


def _output(tree: Tree, json_path: str | None, n_words: int = 8) -> None:
    """Write JSON where it is wanted, then print the tree, unless JSON has taken its place."""
    if json_path == "-":
        print(json.dumps(tree.to_dict(), allow_nan=False), flush=True)
        return
    if json_path:
        tree.to_json(json_path)
    text = tree.format(n_words)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # a terminal without line drawing
        text = tree.format(n_words, ascii_only=True).encode("ascii", "replace").decode("ascii")
    print(text, flush=True)  # a closed pipe shows here, not when the process ends


def _title(path: str) -> str:
    """Return a heading: the name of the file without its endings."""
    name = "standard input" if path == "-" else Path(path).absolute().name
    return re.sub(r"(\.(gz|[a-z]+))+$", "", name) or name


def _size(options) -> dict:
    return {"n_leaves": options.leaves} if options.depth is None else {"depth": options.depth}


def _read(options, work: _Work, **how) -> Corpus:
    return read_corpus(options.input, **_reading(options, work), **how)


def _in_memory(corpus: Corpus) -> Corpus:
    """Return a corpus for what cannot be done on disk."""
    return corpus.load() if isinstance(corpus, StreamedCorpus) else corpus


def _reading(options, work: _Work) -> dict:
    how = {"format": options.format, "field": options.field, "encoding": options.encoding}
    return how | {"skip_bad": options.skip_bad, "progress": work.progress}


def _limits(options) -> dict:
    return {"min_df": options.min_df, "max_df": options.max_df, "max_words": options.max_words}


def _stop_words(given: str, skip_bad: bool):
    """Return names of languages as they are, the words of a file, or None for none."""
    if given == "none":
        return None
    if all(name.strip().lower() in STOP_WORDS for name in given.split("+")):
        return given
    if Path(given).is_file():
        problems = Problems(skip_bad)
        words = frozenset(read_vocabulary(given, problems))
        problems.finish()
        return words
    raise InputError(f"--stop-words is {', '.join(STOP_WORDS)}, none, or a file of words; got {given!r}.")


def _text_settings(options, model: Tree) -> dict:
    """Return how the tree's own text was read; the file may come from anywhere, so this is checked."""
    settings = model.metadata.get("text", {"stop_words": None, "ngrams": 1})
    if not is_text_settings(settings):
        raise InputError(f"{options.model}: the settings for reading text are not as expected.")
    if "text" not in model.metadata and is_text(options.input, options.format):
        warnings.warn(
            f"{options.model} was grown from counts and does not say how text is counted: here by single words, none "
            "left out.",
            stacklevel=2,
        )
    return settings


def _check_folder(path: str | None) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if path and path != "-" and not Path(path).absolute().parent.is_dir():
        raise InputError(f"There is no folder {Path(path).absolute().parent} to write {Path(path).name} to.")
