"""The command line, ``hmom``: topic trees without writing Python."""

import argparse
import os
import sys
import time

from hmom_jax.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code (0 done, 2 wrong input)."""
    parser = argparse.ArgumentParser(
        prog="hmom",
        description="Topic trees by the hierarchical method of moments.",
        epilog="Example: hmom demo --depth 2",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="grow the tree of the built-in docstring corpus",
        description="Grow a topic tree of the documentation of the installed NumPy, SciPy and JAX, print it and "
        "write it as JSON.",
    )
    demo.add_argument("--depth", type=int, default=3, help="number of successive splits (default: 3, 8 leaves)")
    demo.add_argument(
        "--json", default="tree.json", metavar="FILE", help="where to write the tree (default: tree.json)"
    )
    demo.add_argument("--quiet", action="store_true", help="no progress bar and no timings")
    demo.set_defaults(run=_demo)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except BrokenPipeError:  # the reader of a pipe has gone away: nothing to say, and nobody to say it to
        _silence_output()
        return 0
    except (InputError, OSError, ImportError) as error:
        print(f"hmom: {error}", file=sys.stderr)
        return 2


def _silence_output() -> None:
    """Point standard output nowhere, so that flushing it at exit does not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _demo(options) -> int:
    clock = time.perf_counter
    begin = clock()
    import jax

    from hmom_jax import Corpus, datasets, grow_tree

    imported = clock()
    say = (lambda text: None) if options.quiet else (lambda text: print(text, file=sys.stderr))
    compiled = _watch_compilation(jax)
    data = datasets.docstrings()
    corpus = Corpus.from_counts(data.counts, data.vocabulary)
    read = clock()
    say(f"{corpus.n_docs} docstrings, {corpus.n_words} words, {corpus.nnz} nonzeros, on {jax.devices()[0].device_kind}")
    tree = grow_tree(corpus, depth=options.depth, progress=not options.quiet)
    grown = clock()
    tree.to_json(options.json)
    _print_tree(tree)
    say(
        f"\nimport {imported - begin:.1f} s, corpus {read - imported:.1f} s, compile {compiled():.1f} s, "
        f"run {grown - read - compiled():.1f} s; tree written to {options.json}"
    )
    return 0


def _watch_compilation(jax):
    """Return a function that tells how many seconds JAX has spent tracing and compiling since now."""
    seconds = []

    def listen(event: str, duration: float, **_) -> None:
        if event.startswith("/jax/core/compile/"):
            seconds.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return lambda: sum(seconds)


def _print_tree(tree) -> None:
    """Print the tree with line drawing where the terminal can show it."""
    text = tree.format()
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = tree.format(ascii_only=True).encode("ascii", "replace").decode("ascii")
    print(text, flush=True)  # a closed pipe shows here, not when the process ends
