"""Writing files so that a reader never sees half of one."""

import os
import tempfile
from pathlib import Path


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write UTF-8 text atomically: aside first, then moved into place."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write bytes atomically: aside first, then moved into place."""
    path = Path(path)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, _default_mode())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _default_mode() -> int:
    """Permissions an ordinary new file would have (mkstemp makes private ones)."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
