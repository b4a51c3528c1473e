"""Lines of a file, decoded one by one, with the place of whatever is wrong."""

import gzip
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from hmom_jax.errors import BrokenLineError, InputError

# One line is one document in most formats: longer ones are a sign of a binary file, or of an attack.
MAX_LINE = 64 * 2**20
# Rows and columns that a small file may announce; larger files may announce as many more as they have bytes.
_FREE_SIZE = 2**20
_NOTES = 3  # warnings about whole files; more are only counted


class Problems:
    """What to do about broken lines: stop at the first, or count them and go on.

    Parameters
    ----------
    skip_bad
        Go on; :meth:`finish` then warns how many were left out.
    """

    def __init__(self, skip_bad: bool = False):
        self.skip_bad = skip_bad
        self.count = 0
        self.notes: list[str] = []  # what is wrong with whole files
        self._first = ""

    def report(self, path, line: int | None, what: str) -> None:
        """Raise, naming file and line; or take note where bad lines are skipped. No line: it is about the file."""
        if line is None:
            if not self.skip_bad:
                raise InputError(f"{path}: {what}")
            self.notes.append(f"{path}: {what}")
            return
        message = f"{path}, line {line}: {what}"
        if not self.skip_bad:
            raise BrokenLineError(message)
        self.count += 1
        self._first = self._first or message

    def finish(self) -> None:
        """Warn of what was left out."""
        if self.count:
            warnings.warn(f"{self.count} broken line(s) were left out; the first: {self._first}", stacklevel=3)
        for note in self.notes[:_NOTES]:
            warnings.warn(f"incomplete or damaged input: {note}", stacklevel=3)
        if self.notes[_NOTES:]:
            warnings.warn(
                f"incomplete or damaged input: {len(self.notes) - _NOTES} more file(s) like these", stacklevel=3
            )


@contextmanager
def open_bytes(path: str | os.PathLike) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file (``-`` is standard input), unpacked if it is gzipped; also yield the file as stored, for progress."""
    if str(path) == "-":
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    with open(path, "rb") as stored:
        packed = stored.read(2) == b"\x1f\x8b"
        stored.seek(0)
        if not packed:
            yield stored, stored
            return
        with gzip.GzipFile(fileobj=stored) as unpacked:
            yield unpacked, stored


def read_lines(
    path, problems: Problems, encoding: str = "utf-8", watch: Callable[[int], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) without the line end; lines that cannot be decoded are problems.

    ``watch`` is told now and then how many bytes of the stored file have been read.
    """
    try:
        "".encode(encoding)
    except LookupError:
        raise InputError(f"There is no encoding {encoding!r}.") from None
    with open_bytes(path) as (file, stored):
        number = 0
        while True:
            try:
                raw = file.readline(MAX_LINE + 1)
                number += 1
                too_long = len(raw) > MAX_LINE
                while too_long and raw and not raw.endswith(b"\n"):
                    raw = file.readline(MAX_LINE)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                what = f"the compressed file is damaged or cut off at line {number + 1}, and the rest is missing"
                if str(error).startswith(("CRC", "Incorrect length")):  # found at the very end
                    what = f"the compressed file is damaged: its checksum is wrong, and any of {number} lines may be"
                problems.report(path, None, f"{what}; get a sound copy ({str(error).rstrip('.')})")
                return
            if not raw:
                return
            if watch is not None and number % 256 == 0 and stored.seekable():
                watch(stored.tell())
            if too_long:
                problems.report(path, number, f"longer than {MAX_LINE >> 20} MB; is this a text file?")
                continue
            if number == 1 and raw.startswith(b"\xef\xbb\xbf"):  # a byte order mark, as Windows programs write
                raw = raw[3:]
            try:
                text = raw.decode(encoding)
            except UnicodeError as error:
                problems.report(path, number, f"not {encoding}: {error}")
                continue
            yield number, text.rstrip("\r\n")


def stored_size(path) -> int:
    """Return the size of the stored file; a pipe has none."""
    return 0 if str(path) == "-" else os.stat(path).st_size


def check_size(path, what: str, size: int, n_bytes: int) -> int:
    """Refuse sizes that the file cannot mean: a few bytes must not make us allocate a hundred gigabytes."""
    if not 0 <= size <= _FREE_SIZE + n_bytes:
        raise InputError(f"{path}: {size} {what} in a file of {n_bytes} bytes cannot be meant.")
    return size
