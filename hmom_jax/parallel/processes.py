"""What the host code of several processes has to tell each other: small arrays, exactly as they are."""

import jax
import numpy as np
from jax.experimental import multihost_utils


def gather(values) -> np.ndarray:
    """Stack what every process holds, in their order; all must call this at the same point.

    The bits travel as whole numbers: double precision stays what it is, whatever JAX is set to.

    Examples
    --------
    >>> gather(np.array([0.1, 0.2])).tolist()
    [[0.1, 0.2]]
    """
    values = np.asarray(values)
    if jax.process_count() == 1:
        return values[None]
    bits = np.frombuffer(values.tobytes().ljust(-(-values.nbytes // 4) * 4, b"\0"), np.uint32)
    found = np.asarray(multihost_utils.process_allgather(bits))
    rows = [np.frombuffer(row.tobytes()[: values.nbytes], values.dtype).reshape(values.shape) for row in found]
    return np.stack(rows)


def add_up(values) -> np.ndarray:
    """Add up what every process holds, in the order of the processes: the same bits for all of them.

    Examples
    --------
    >>> add_up(np.array([1, 2])).tolist()
    [1, 2]
    """
    values = np.asarray(values)
    if jax.process_count() == 1:
        return values
    if values.ndim < 2:
        return gather(values).sum(0).astype(values.dtype)
    # Row by row: as many processes as there are must not hold that many copies of a large table.
    return np.stack([add_up(row) for row in values])


def join(values: np.ndarray) -> np.ndarray:
    """Lay the values of every process end to end; the numbers of values may differ.

    Examples
    --------
    >>> join(np.array([3, 4])).tolist()
    [3, 4]
    """
    values = np.asarray(values)
    if jax.process_count() == 1:
        return values
    sizes = gather(np.array(len(values)))
    padded = np.zeros((sizes.max(), *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return np.concatenate([part[:size] for part, size in zip(gather(padded), sizes, strict=True)])
