"""Writing files so that a reader never sees half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write UTF-8 text atomically: aside first, then moved into place."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yield a binary file that is moved to ``path`` once it is complete, and removed where writing fails."""
    path = Path(path)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, _default_mode())
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)  # an interrupt can come when it has been moved already
        raise


def is_aside(path: Path) -> bool:
    """Tell whether a file is one that :func:`atomic_file` began and a killed process left."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _default_mode() -> int:
    """Permissions an ordinary new file would have (mkstemp makes private ones)."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
