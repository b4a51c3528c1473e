"""Hidden folders for large temporary files, which know who made them: what a killed process left can be removed."""

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

SCRATCH = ".scratch-"  # what their names begin with
OWNER = "owner.json"
_made: set[Path] = set()


def make_scratch(parent) -> Path:
    """Make a folder of our own in another; siblings of processes of this machine that are no more are removed."""
    for sibling in Path(parent).glob(f"{SCRATCH}*"):
        if is_abandoned(sibling):
            shutil.rmtree(sibling, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=SCRATCH))
    _made.add(folder.absolute())
    (folder / OWNER).write_text(json.dumps({"pid": os.getpid(), **_machine()}), encoding="utf-8")
    return folder


def remove_own() -> None:
    """Remove all folders that this process has made: it is about to end."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)


def has_owner(folder: Path) -> bool:
    """Tell whether a folder says who made it."""
    return _owner(folder) is not None


def is_abandoned(folder: Path) -> bool:
    """Tell whether the process that made a folder is known to have ended; no, where that cannot be found out."""
    owner = _owner(folder)
    if owner is None or os.name != "posix":  # elsewhere signal 0 is not a question
        return False
    if any(owner.get(name) != value for name, value in _machine().items()):
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's
        return False
    return False


def _owner(folder: Path) -> dict | None:
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    sound = isinstance(owner, dict) and type(owner.get("pid")) is int and owner["pid"] > 0
    return owner if sound else None


def _machine() -> dict:
    """Return where a process number means something: containers may share the name of the host, but not its numbers."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = None
    return {"host": socket.gethostname(), "space": space}
