"""The command line, ``hmom``: topic trees without writing Python."""

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from hmom_jax.cli import commands
from hmom_jax.cli.machine import is_out_of_memory, use_compilation_cache
from hmom_jax.errors import BrokenLineError, InputError
from hmom_jax.io.read import FORMATS
from hmom_jax.io.write import WRITABLE
from hmom_jax.parallel.scratch import remove_own
from hmom_jax.parallel.shards import DEFAULT_NONZEROS
from hmom_jax.stop_words import STOP_WORDS

# Seconds until a terminated command ends even if the exception was lost, as in a callback of compiled code.
_GRACE = 5
DONE, WRONG_INPUT, OUT_OF_MEMORY, PEER_LOST, INTERRUPTED, TERMINATED = 0, 2, 3, 4, 130, 143

# Run by a test, in this order.
EXAMPLES = {
    "demo": ["hmom demo", "hmom demo --leaves auto --json docs.json --html docs.html"],
    "tree": [
        "hmom tree articles.jsonl.gz --leaves 32 --save articles.hmom --html articles.html",
        "hmom tree articles.csv --field body --stop-words english+german --max-words 5000",
        "hmom tree docword.kos.txt --depth 3 --json kos.json",
        "cat articles.jsonl | hmom tree - --leaves auto --json > tree.json",
        "hmom tree articles.csv --field body --checkpoint articles.rounds",
        "hmom tree articles.csv --field body --checkpoint articles.rounds --resume",
    ],
    "assign": [
        "hmom assign articles.hmom new.jsonl > leaves.txt",
        "hmom assign articles.hmom new.jsonl --json | head -n 2",
    ],
    "show": [
        "hmom show articles.hmom --leaves 8 --words 5",
        "hmom show articles.hmom --json > tree.json",
        "hmom show articles.hmom --html articles.html",
    ],
    "convert": [
        "hmom convert articles.jsonl.gz articles.npz",
        "hmom convert docword.kos.txt kos.mtx",
        "hmom convert articles.jsonl.gz articles.shards --shard-size 500000",
        "hmom convert articles.hmom articles.nwk",
    ],
    "bench": ["hmom bench articles.jsonl.gz --leaves 4 --repeats 1 --json speed.json"],
}
_ASSIGN_JSON = "one JSON object a line: document, label and, without --level, probability and keywords of the leaf"
_EXIT_CODES = (
    "Exit codes: 0 done, 2 wrong input, 3 out of memory, 4 another process was lost, 130 interrupted, 143 terminated."
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.cache:
        use_compilation_cache()
    try:
        with _clean_end(options), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"hmom: warning: {message}", file=sys.stderr)
            warnings.simplefilter("always", UserWarning)
            options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has gone away: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (InputError, OSError, ImportError) as error:
        print(f"hmom: {_explain(error)}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        kept = getattr(options, "checkpoint", None)
        done = "nothing was written" if kept is None else f"go on with --checkpoint {kept} --resume"
        print(f"hmom: interrupted; {done}", file=sys.stderr)
        return INTERRUPTED
    except commands.PeerLostError as error:
        print(f"hmom: {error}", file=sys.stderr, flush=True)
        os._exit(PEER_LOST)  # a plain exit would wait for the lost process
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(
            "hmom: out of memory. Try fewer words (--max-words 5000) or fewer leaves; on a GPU also "
            "JAX_PLATFORMS=cpu, or XLA_CLIENT_MEM_FRACTION=0.9 in the environment.",
            file=sys.stderr,
        )
        return OUT_OF_MEMORY
    return DONE


@contextmanager
def _clean_end(options) -> Iterator[None]:
    """Let SIGTERM end the command as an error does: temporary files are removed."""
    possible = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGTERM")
    # One of several processes ends at once: a clean end waits for the others, and it has no such files.
    alone = getattr(options, "distributed", None) is None
    if not possible or not alone or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    timers = []

    def end(number, frame):
        if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
            # What is raised in JAX's hook of the garbage collector is printed and lost: once more in a moment.
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
            return
        timers.append(threading.Timer(_GRACE, _leave))
        timers[-1].daemon = True
        timers[-1].start()
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
        if timers:
            raise SystemExit(TERMINATED)
    except SystemExit:
        if timers:
            _leave()
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave() -> None:
    """End now, without scratch. Programs may still run on memory that a plain exit would unmap under them."""
    remove_own()
    os._exit(TERMINATED)


def _explain(error: Exception) -> str:
    """Return what to say about wrong input."""
    if isinstance(error, BrokenLineError):
        return f"{error} (--skip-bad leaves out broken lines)"
    if isinstance(error, OSError) and error.filename is not None:
        reason = "there is no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror
        return f"{error.filename}: {reason}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hmom",
        description="Topic trees by the hierarchical method of moments.",
        epilog=_epilog([lines[0] for lines in EXAMPLES.values()]) + f"\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = _Commands(parser.add_subparsers(dest="command", required=True, metavar="COMMAND"))

    demo = add("demo", commands.demo, "grow the tree of the built-in docstring corpus")
    demo.description = "Grow a topic tree of the documentation of the installed NumPy, SciPy and JAX."
    size = demo.add_mutually_exclusive_group()
    size.add_argument("--leaves", type=_leaves, default=16, metavar="N|auto", help="number of leaves (default: 16)")
    size.add_argument("--depth", type=_positive, metavar="N", help="the paper's tree: N successive splits")
    _add_json(demo, "where to write the tree (default: tree.json)", default="tree.json", metavar="FILE")
    _add_html(demo, "where to write the page to look at (default: tree.html)", default="tree.html")

    tree = add("tree", commands.tree, "grow a tree of your documents")
    tree.description = "Grow a topic tree of text or counts, print it, and save it."
    _add_input(tree)
    size = tree.add_mutually_exclusive_group()
    size.add_argument(
        "--leaves", type=_leaves, metavar="N|auto", help="number of leaves; auto (the default) lets the data decide"
    )
    size.add_argument(
        "--depth", type=_positive, metavar="N", help="the paper's tree: N successive splits, up to 2^N leaves"
    )
    tree.add_argument("--method", choices=("robust", "paper"), help="default: robust, or paper with --depth")
    tree.add_argument("--seed", type=_seed, default=0, metavar="N", help="same seed, same tree (default: 0)")
    tree.add_argument("--save", metavar="FILE", help="save the tree, for assign and show")
    tree.add_argument("--checkpoint", metavar="FOLDER", help="keep what each round found (not with --depth)")
    tree.add_argument(
        "--scratch",
        metavar="FOLDER",
        help="where large temporary files go while a tree of NAME.shards grows on disk (default: inside it)",
    )
    tree.add_argument("--resume", action="store_true", help="go on after the last complete round in --checkpoint")
    tree.add_argument(
        "--distributed",
        nargs="?",
        const="auto",
        metavar="HOST:PORT,COUNT,NUMBER",
        help="be one of several processes, each with its own shards of INPUT; found by JAX (SLURM, Open MPI, "
        "Kubernetes) unless process 0's address, how many there are and which this is are given",
    )
    _add_words(tree)
    _add_json(tree, "write the tree as JSON, to FILE or instead of the drawing")
    _add_html(tree, "write the tree as a page to look at, with excerpts of the documents where INPUT is text")
    _add_text(tree)

    assign = add("assign", commands.assign, "sort documents into the leaves of a saved tree")
    assign.description = "Print the leaf of each document, one number a line, in the order of the input."
    assign.add_argument("model", metavar="MODEL", help="a tree saved by hmom tree --save")
    _add_input(assign)
    assign.add_argument("--level", type=int, metavar="N", help="print ancestors at this depth instead of leaves")
    assign.add_argument("--json", action="store_true", help=_ASSIGN_JSON)

    show = add("show", commands.show, "print a saved tree")
    show.add_argument("model", metavar="MODEL", help="a tree saved by hmom tree --save")
    show.add_argument("--leaves", type=_positive, metavar="N", help="cut the tree back to N leaves")
    _add_words(show)
    _add_json(show, "write the tree as JSON, to FILE or instead of the drawing")
    _add_html(show, "write the tree as a page to look at; a saved tree has no documents")

    convert = add("convert", commands.convert, "turn text or counts into other counts, or a tree into JSON or Newick")
    convert.description = (
        f"Counts are written as {', '.join(WRITABLE)}, by the ending of OUT (docword.NAME.txt for uci), or as a folder "
        "NAME.shards, from which trees grow in less memory than the counts take; a saved tree (.hmom) as .json or .nwk."
    )
    _add_input(convert)
    convert.add_argument("output", metavar="OUT", help="where to write")
    convert.add_argument(
        "--shard-size",
        type=_positive,
        default=DEFAULT_NONZEROS,
        metavar="N",
        help=f"counts in a shard of NAME.shards; several processes need a shard each (default: {DEFAULT_NONZEROS})",
    )
    _add_text(convert)

    bench = add("bench", commands.bench, "time trees on this machine, beside other tools")
    bench.description = (
        "Grow trees of the built-in corpus, or of INPUT, again and again; beside them scikit-learn and tomotopy, where "
        "they are installed. Nothing compiled is kept, so that the first tree tells what a first tree takes."
    )
    _add_input(bench, nargs="?")
    bench.add_argument("--leaves", type=_positive, default=16, metavar="N", help="number of leaves (default: 16)")
    bench.add_argument("--repeats", type=_positive, default=5, metavar="N", help="rounds; the best counts (default: 5)")
    _add_json(bench, "write the figures as JSON, to FILE or instead of the table")
    bench.set_defaults(cache=False)
    return parser


class _Commands:
    """Adds commands that share their common options."""

    def __init__(self, subparsers):
        self.subparsers = subparsers

    def __call__(self, name: str, run, summary: str) -> argparse.ArgumentParser:
        command = self.subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=_epilog(EXAMPLES[name]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--quiet", action="store_true", help="no progress, no timings; warnings and errors stay")
        command.add_argument(
            "--no-cache", dest="cache", action="store_false", help="do not keep compiled code for the next run"
        )
        command.set_defaults(run=run)
        return command


def _epilog(lines: list[str]) -> str:
    return "Examples:\n" + "\n".join(f"  {line}" for line in lines)


def _leaves(text: str) -> int | str:
    return text if text == "auto" else _whole(text, 1, or_else=" or auto")


def _positive(text: str) -> int:
    return _whole(text, 1)


def _phrase(text: str) -> int:
    return _whole(text, 1, 10)


def _natural(text: str) -> int:
    return _whole(text, 0)


def _seed(text: str) -> int:
    return _whole(text, 0, 2**32 - 1)


def _whole(text: str, least: int, most: int | None = None, or_else: str = "") -> int:
    """Parse a whole number; argparse puts the name of the option before what is said here."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    wrong = argparse.ArgumentTypeError(f"a whole number {bounds}{or_else} was expected; got {text!r}")
    try:
        number = int(text)
    except ValueError:
        raise wrong from None
    if number < least or (most is not None and number > most):
        raise wrong
    return number


def _add_input(command, **how) -> None:
    command.add_argument(
        "input", metavar="INPUT", help="a file, a folder of .txt files, or - for standard input", **how
    )
    group = command.add_argument_group("reading")
    group.add_argument("--format", choices=FORMATS, help="where the name does not tell (- is jsonl by default)")
    group.add_argument("--field", default="text", metavar="NAME", help="field or column of the text (default: text)")
    group.add_argument("--encoding", default="utf-8", metavar="NAME", help="of text files (default: utf-8)")
    group.add_argument("--skip-bad", action="store_true", help="leave out broken lines instead of stopping")


def _add_text(command) -> None:
    group = command.add_argument_group("counting words")
    group.add_argument(
        "--vocab", metavar="FILE", help="count these words alone, one a line; or the names of the columns"
    )
    group.add_argument(
        "--stop-words",
        default="english",
        metavar="LANG|FILE|none",
        help=f"{', '.join(STOP_WORDS)}, several joined by +, or a file of words (default: english)",
    )
    group.add_argument(
        "--min-df", type=_number, default=5, metavar="N", help="least documents a word is in (default: 5)"
    )
    group.add_argument(
        "--max-df", type=_number, default=1.0, metavar="SHARE", help="largest share of documents a word is in"
    )
    group.add_argument("--max-words", type=_positive, metavar="N", help="keep the N most frequent words")
    group.add_argument("--ngrams", type=_phrase, default=1, metavar="N", help="also count phrases of up to N words")


def _number(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"a number of documents, as 5, or a share of them, as 0.5, was expected; got {text!r}"
        ) from None


def _add_words(command) -> None:
    command.add_argument("--words", type=_natural, default=8, metavar="N", help="keywords per node (default: 8)")


def _add_json(command, what: str, default=None, metavar="FILE") -> None:
    command.add_argument("--json", nargs="?", const="-", default=default, metavar=metavar, help=what)


def _add_html(command, what: str, default=None) -> None:
    command.add_argument("--html", default=default, metavar="FILE", help=what)
