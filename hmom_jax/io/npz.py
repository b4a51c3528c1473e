"""Arrays from ``.npz`` files that may come from anywhere, and counts stored in them.

``numpy.load`` believes the header of each array and allocates what it says. Here a header must agree with the
size of its member, members together must not unpack to more than a multiple of the file, and no code runs.
"""

import re
import struct
import zipfile
import zlib
from math import prod
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.io.lines import check_size

# Counts and topics shrink 2- to 20-fold; deflate can do 1000-fold, which only an attack needs.
_EXPANSION = 200
_FREE_BYTES = 64 * 2**20
_MAX_MEMBERS = 1000
_HEADER = re.compile(
    rb"\{'descr': '([<>|=][biufSU]\d{1,9})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,15},? ?)*)\),? *\}\s*"
)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, RuntimeError, ValueError, OverflowError)


def read_members(path, what: str = "an .npz file") -> dict[str, bytes]:
    """Return the members of a zip file, sizes checked before anything is unpacked; errors call it ``what``."""
    stored = Path(path).stat().st_size
    try:
        with zipfile.ZipFile(path) as file:
            infos = file.infolist()
            total = sum(info.file_size for info in infos)
            if len(infos) > _MAX_MEMBERS or total > _FREE_BYTES + _EXPANSION * stored:
                raise InputError(f"{path}: {stored} bytes would unpack to {total} in {len(infos)} parts: refused.")
            members = {}
            for info in infos:
                with file.open(info) as member:
                    members[info.filename] = member.read(info.file_size)
                if len(members[info.filename]) != info.file_size:
                    raise InputError(f"{path}: part {info.filename!r} is cut off.")
            return members
    except InputError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except _BROKEN as error:
        detail = "" if "not a zip file" in str(error) else f" ({error})"
        raise InputError(f"{path}: not {what}, or a damaged one{detail}.") from error


def parse_array(path, name: str, content: bytes) -> np.ndarray:
    """Turn the bytes of an ``.npy`` member into an array of numbers or strings."""
    wrong = lambda what: InputError(f"{path}: array {name!r} {what}.")
    if content[:6] != b"\x93NUMPY" or len(content) < 12 or content[6] not in (1, 2, 3):
        raise wrong("is not in NumPy's format")
    if content[6] == 1:
        start, length = 10, struct.unpack("<H", content[8:10])[0]
    else:
        start, length = 12, struct.unpack("<I", content[8:12])[0]
    header = _HEADER.fullmatch(content[start : start + length]) if length < 10_000 else None
    if header is None:
        raise wrong("has a header that is not one of plain numbers or strings")
    shape = tuple(int(size) for size in header[3].decode().replace(",", " ").split())
    try:
        dtype = np.dtype(header[1].decode())
    except (TypeError, ValueError) as error:
        raise wrong(f"has an unknown type ({error})") from error
    body = content[start + length :]
    if dtype.itemsize == 0 or prod(shape) * dtype.itemsize != len(body):
        raise wrong(f"should have {prod(shape)} entries of {dtype.itemsize} bytes; {len(body)} bytes are there")
    order = "F" if header[2] == b"True" else "C"
    array = np.frombuffer(body, dtype).reshape(shape, order=order)
    if dtype.kind == "U" and array.size:
        codes = np.frombuffer(body, dtype.str[0].replace("|", "=") + "u4")
        if codes.max() > 0x10FFFF or np.any((codes >= 0xD800) & (codes < 0xE000)):
            raise wrong("holds characters that do not exist")
    return array.astype(dtype.newbyteorder("="))


def read_npz(path) -> tuple[sp.csr_array, list[str] | None]:
    """Read counts as ``scipy.sparse.save_npz`` writes them, or the same parts with ``vocab`` beside them."""
    arrays = {
        name.removesuffix(".npy"): parse_array(path, name, content)
        for name, content in read_members(path).items()
        if name.removesuffix(".npy") in {"data", "indices", "indptr", "row", "col", "shape", "format", "vocab"}
    }
    layout = arrays.pop("format", np.array("csr"))
    layout = layout.item() if layout.ndim == 0 else layout
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else layout
    parts = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
    if layout not in parts:
        raise InputError(f"{path}: sparse formats csr, csc and coo are read; got {layout!r}.")
    missing = [name for name in ("shape", *parts[layout]) if name not in arrays]
    if missing:
        raise InputError(f"{path}: no array {missing[0]!r}; counts need {', '.join(parts[layout])} and shape.")
    for name in ("shape", *parts[layout]):
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in ("biuf" if name == "data" else "iu"):
            raise InputError(f"{path}: array {name!r} must be a list of {'' if name == 'data' else 'whole '}numbers.")
    n_bytes = Path(path).stat().st_size
    if arrays["shape"].size != 2:
        raise InputError(f"{path}: shape must have two numbers; got {arrays['shape'].size}.")
    shape = tuple(
        check_size(path, what, int(n), n_bytes) for what, n in zip(("rows", "columns"), arrays["shape"], strict=True)
    )
    if arrays["data"].dtype.kind == "f":  # half and extended precision are not for sparse matrices
        arrays["data"] = arrays["data"].astype(np.float64)
    matrix = _coo(path, arrays, shape) if layout == "coo" else _compressed(path, arrays, shape, layout)
    words = arrays.get("vocab")
    if words is not None and (words.ndim != 1 or words.dtype.kind != "U" or len(words) != shape[1]):
        raise InputError(f"{path}: vocab must be a list of {shape[1]} words; got {words.dtype} of shape {words.shape}.")
    return matrix, None if words is None else words.tolist()


def _compressed(path, arrays, shape, layout) -> sp.csr_array:
    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    rows, columns = shape if layout == "csr" else shape[::-1]
    sound = len(indptr) == rows + 1 and indptr[0] == 0 and np.all(indptr[1:] >= indptr[:-1])
    sound = sound and indptr[-1] == len(indices) == len(data)
    if not sound or not _within(indices, columns):
        raise InputError(f"{path}: indptr, indices and data do not describe {shape[0]} x {shape[1]} counts.")
    kind = sp.csr_array if layout == "csr" else sp.csc_array
    return sp.csr_array(kind((data, indices.astype(np.int32), indptr.astype(np.int64)), shape=shape))


def _coo(path, arrays, shape) -> sp.csr_array:
    data, row, col = (arrays[name] for name in ("data", "row", "col"))
    if not len(data) == len(row) == len(col) or not _within(row, shape[0]) or not _within(col, shape[1]):
        raise InputError(f"{path}: row, col and data do not describe {shape[0]} x {shape[1]} counts.")
    return sp.csr_array(sp.coo_array((data, (row.astype(np.int32), col.astype(np.int32))), shape=shape))


def _within(index: np.ndarray, size: int) -> bool:
    return not index.size or bool(index.min() >= 0 and index.max() < size)
