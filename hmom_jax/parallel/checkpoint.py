"""Checkpoints of a tree that grows: what each round found, so that a run that was cut short goes on from there.

A folder holds ``checkpoint.json``, which says what is being grown (corpus, options, release), and for each round that
is complete some ``.npy`` files and, written last, ``ROUND.json`` with their checksums. All files are written aside,
flushed and moved into place. With several processes each one has a folder of its own inside.
"""

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import hmom_jax
from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.files import atomic_file, is_aside, write_text
from hmom_jax.parallel.shards import checksum
from hmom_jax.parallel.stream import StreamedCorpus

_ABOUT = "checkpoint.json"
FORMAT, VERSION = "hmom_jax checkpoint", 2
STAGES = ("embedding", "cells", "plan", "polish")
_OURS = re.compile(rf"({'|'.join(STAGES)})(\.json|\.\w+\.npy)")


class NoCheckpoint:
    """Keeps nothing."""

    def run(self, stage: str, compute: Callable, save: Callable, load: Callable):
        """Compute a round."""
        del stage, save, load
        return compute()


class Checkpoint(NoCheckpoint):
    """Keeps what every round found.

    Parameters
    ----------
    folder
        Where to; made where it is not there.
    corpus
        The documents.
    options
        All else that the tree depends on, as plain values.
    resume
        Go on from what is there. Otherwise the rounds of an earlier tree are cleared; other files are refused.

    Raises
    ------
    InputError
        What is there is of another corpus or of other options, or damaged, or no checkpoint at all.
    """

    def __init__(self, folder, corpus: Corpus, options: dict, resume: bool):
        self.corpus, self.folder = corpus, Path(folder)
        self.folder.mkdir(exist_ok=True)
        if jax.process_count() > 1:
            self.folder = self.folder / f"process-{jax.process_index()}"
            self.folder.mkdir(exist_ok=True)
        about = {"format": FORMAT, "version": VERSION, "processes": jax.process_count()}
        about |= {"hmom_jax": hmom_jax.__version__, "corpus": fingerprint(corpus), "dtype": np.dtype(corpus.dtype).name}
        about |= options
        about = json.loads(json.dumps(about))  # as it will be read
        path = self.folder / _ABOUT
        if resume:
            self._check(path, about)
            return
        inside = [file for file in sorted(self.folder.iterdir()) if _is_process_folder(file)]
        old = _old_files(self.folder, inside)
        if jax.process_count() == 1:  # several processes clear their own
            for inner in inside:
                old += [*_old_files(inner), inner / _ABOUT, inner]
        for file in old:
            file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)
        write_text(path, json.dumps(about, indent=1) + "\n")

    @staticmethod
    def _check(path: Path, about: dict) -> None:
        """Raise unless the tree is the same that was begun."""
        if not path.is_file():
            raise InputError(f"{path.parent}: there is no checkpoint to go on from; leave out resume to begin anew.")
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: this is not a checkpoint ({error}).") from error
        release = before.get("hmom_jax") if isinstance(before, dict) else None
        if _is_checkpoint(path) and release != about["hmom_jax"]:  # rounds of two releases need not fit together
            by = "an earlier hmom_jax" if release is None else f"hmom_jax {release}"
            raise InputError(
                f"{path}: the checkpoint was begun by {by}, and this is {about['hmom_jax']}. Go on with the release "
                "that it was begun with, or leave out resume to begin anew."
            )
        for name in about:
            if not isinstance(before, dict) or before.get(name) != about[name]:
                was = before.get(name) if isinstance(before, dict) else None
                raise InputError(
                    f"{path}: the checkpoint is of another tree: {name} was {was!r}, and is {about[name]!r} now. "
                    "Give what it was begun with, or leave out resume to begin anew."
                )

    def run(self, stage: str, compute: Callable, save: Callable, load: Callable):
        """Return what a round found, from the checkpoint or by computing (and keeping) it.

        ``save`` turns it into a dictionary of arrays, ``load`` turns such a dictionary back.
        """
        record = self.folder / f"{stage}.json"
        if self.corpus.gather(np.array(record.is_file())).all():  # a round counts once all processes have finished it
            return load(self._read(record))
        found = compute()
        self._write(record, save(found))
        return found

    def _write(self, record: Path, arrays: dict[str, np.ndarray]) -> None:
        files = {}
        try:
            for name, array in arrays.items():
                path = record.with_name(f"{record.stem}.{name}.npy")
                with atomic_file(path) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
                files[name] = {"file": path.name, "crc32": checksum(path)}
            write_text(record, json.dumps(files, indent=1) + "\n")
        except OSError as error:  # a full disk does not say which file it was
            raise OSError(
                error.errno, f"{error.strerror} (checkpoints of earlier rounds are intact)", str(record)
            ) from error

    def _read(self, record: Path) -> dict[str, np.ndarray]:
        try:
            files = json.loads(record.read_text(encoding="utf-8"))
            arrays = {}
            for name, about in files.items():
                path = record.with_name(f"{record.stem}.{name}.npy")
                if not path.is_file() or checksum(path) != about["crc32"]:
                    raise InputError(f"{path}: missing or damaged; remove {record.name} to compute this round again.")
                arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{record}: not a checkpoint, or a damaged one ({error!r}).") from error
        return arrays


def _old_files(folder: Path, inside=()) -> list[Path]:
    """Return what was left of an earlier run, in the order in which it can go, but for ``checkpoint.json``: the last.

    Raises where there is anything that we do not write, apart from the folders ``inside``: somebody else's files.
    """
    known = _is_checkpoint(folder / _ABOUT)
    there = [file for file in sorted(folder.iterdir()) if file not in inside]
    for file in there:
        if not is_aside(file) and not (
            known and (file.name == _ABOUT or _OURS.fullmatch(file.name)) and file.is_file()
        ):
            raise InputError(f"{folder}: holds other files ({file.name!r}); give an empty folder, or a new one.")
    # Records first: nothing must look complete.
    return sorted((file for file in there if file.name != _ABOUT), key=lambda file: file.suffix != ".json")


def _is_process_folder(path: Path) -> bool:
    name = path.name.removeprefix("process-")
    return path.name != name and name.isdigit() and path.is_dir() and not path.is_symlink()


def _is_checkpoint(path: Path) -> bool:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fingerprint(corpus: Corpus) -> str:
    """Return a number that another corpus does not have, but for chance.

    Examples
    --------
    >>> first, second = (Corpus.from_counts(np.diag([1, 2, n])) for n in (3, 4))
    >>> fingerprint(first) == fingerprint(first), fingerprint(first) == fingerprint(second)
    (True, False)
    """
    value = zlib.crc32("\n".join(corpus.vocabulary.tolist()).encode("utf-8"))
    if isinstance(corpus, StreamedCorpus):
        for shard in corpus.shards:
            value = zlib.crc32(json.dumps([shard.n_docs, shard.files], sort_keys=True).encode("ascii"), value)
    else:
        for part in (corpus.counts.indptr.astype(np.int64), corpus.counts.indices, corpus.counts.data):
            value = zlib.crc32(np.ascontiguousarray(part).data, value)
    return f"{corpus.n_docs} x {corpus.n_words}, {corpus.nnz} nonzeros, {value:08x}"
