"""Two-way splits of all open cells at once, in the space of documents, and best-first growth by them.

Documents are sorted by cell into blocks of rows, each block in one cell: sums over a cell are then dense block sums
and one small product, on any device.
"""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.sparse import take_rows

_POWER_STEPS = 100
_TWO_MEANS_STEPS = 20
_SLOTS = 32


@dataclass
class Cell:
    """A set of documents, and how it would split."""

    docs: np.ndarray
    depth: int = 0
    gain: float | None = None  # None: not yet looked at
    children: tuple["Cell", "Cell"] | None = None
    side: np.ndarray | None = field(default=None, repr=False)

    def open_up(self) -> tuple["Cell", "Cell"]:
        """Return the two children, made when first asked for."""
        if self.children is None:
            self.children = (
                Cell(self.docs[~self.side], self.depth + 1),
                Cell(self.docs[self.side], self.depth + 1),
            )
        return self.children


def grow_cells(
    z, weights: np.ndarray, n_cells: int, *, min_leaf: int, max_depth: int | None = None, one_at_a_time: bool = False
):
    """Split best-first until there are ``n_cells``; returns the leaves and the cells that were split, in order.

    In rounds: with R splits left only the R open cells of highest gain can ever be chosen, so the children of all of
    them are looked at in one pass; then the one-at-a-time order is replayed. ``one_at_a_time`` is the plain loop.
    """
    root = Cell(np.arange(len(weights)))
    look = partial(_look, z, weights, min_leaf=min_leaf, max_depth=max_depth)
    look([root])
    while True:
        leaves, history = _replay(root, n_cells)
        unknown = [cell for cell in leaves if cell.gain is None]
        if not unknown:
            return leaves, history
        if not one_at_a_time:
            left = n_cells - len(leaves)
            known = sorted((c for c in leaves if c.gain is not None and c.gain > 0), key=lambda c: -c.gain)
            for cell in known[:left]:
                unknown.extend(child for child in cell.open_up() if child.gain is None)
        look(unknown)


def _replay(root: Cell, n_cells: int):
    """Split one at a time by highest gain, as far as gains are known."""
    leaves, history = [root], []
    while len(leaves) < n_cells and all(cell.gain is not None for cell in leaves):
        best = max(range(len(leaves)), key=lambda i: leaves[i].gain)
        if leaves[best].gain <= 0:
            break
        cell = leaves.pop(best)
        history.append(cell)
        leaves.extend(cell.open_up())
    return leaves, history


def _look(z, weights, cells: list[Cell], *, min_leaf: int, max_depth: int | None) -> None:
    """Find the split and the gain of each cell."""
    worth = []
    for cell in cells:
        cell.gain = -1.0
        if len(cell.docs) >= 2 * min_leaf and (max_depth is None or cell.depth < max_depth):
            worth.append(cell)
    for first in range(0, len(worth), _SLOTS):
        group = worth[first : first + _SLOTS]
        layout = blocks_of([cell.docs for cell in group], len(z), _SLOTS)  # z has padding: fewer distinct shapes
        side, gain = two_means(z, *layout.arrays(weights), n_slots=_SLOTS)
        side, gain = np.asarray(side).ravel(), np.asarray(gain)
        for slot, cell in enumerate(group):
            cell.side = side[layout.place[slot]]
            if min(cell.side.sum(), (~cell.side).sum()) >= min_leaf:
                cell.gain = float(gain[slot])


@dataclass
class Blocks:
    """Documents laid out in blocks of rows, each block in one slot."""

    index: np.ndarray  # document of each row; 0 for padding
    real: np.ndarray  # False for padding
    slot: np.ndarray  # slot of each block
    place: list[np.ndarray]  # rows of each slot's documents

    def arrays(self, weights):
        """Return what :func:`two_means` takes after the embedding."""
        weight = np.where(self.real, weights[self.index], 0.0).astype(np.float32)
        return self.index, weight, self.slot


def block_shape(n_docs: int, n_slots: int) -> tuple[int, int]:
    """Return the number of blocks, and of rows in each: enough for any partition of the documents into the slots."""
    rows = max(64, 1 << (n_docs // 1024).bit_length())
    return -(-n_docs // rows) + n_slots, rows


def blocks_of(groups: list[np.ndarray], n_docs: int, n_slots: int) -> Blocks:
    """Lay out groups of documents; shapes depend on the numbers of documents and slots alone."""
    n_blocks, rows = block_shape(n_docs, n_slots)
    index = np.zeros(n_blocks * rows, np.int32)
    real = np.zeros(n_blocks * rows, bool)
    slot = np.zeros(n_blocks, np.int32)
    place, block = [], 0
    for number, docs in enumerate(groups):
        start = block * rows
        place.append(np.arange(start, start + len(docs)))
        index[place[-1]], real[place[-1]] = docs, True
        used = -(-len(docs) // rows)
        slot[block : block + used] = number
        block += used
    return Blocks(index.reshape(n_blocks, rows), real.reshape(n_blocks, rows), slot, place)


@partial(jax.jit, static_argnames="n_slots")
def two_means(z, index, weight, slot, *, n_slots: int):
    r"""Split every slot by spherical two-means, begun at its principal direction.

    Returns the side of each row and the gain $|s_1| + |s_0| - |s|$, with $s$ the sum of a slot's unit vectors.
    """
    rows = take_rows(z, index)
    weight = weight.astype(z.dtype)
    member = (slot[None, :] == jnp.arange(n_slots)[:, None]).astype(z.dtype)
    matmul = partial(jnp.matmul, precision="highest")
    loaded = weight[..., None] * rows
    total = matmul(member, loaded.sum(1))
    mass = matmul(member, weight.sum(1)[:, None])
    centre = total / jnp.maximum(mass, jnp.finfo(z.dtype).tiny)
    rank = z.shape[-1]
    second = jnp.einsum("brk,brl->bkl", loaded, rows, precision="highest").reshape(-1, rank * rank)
    second = matmul(member, second).reshape(n_slots, rank, rank)
    spread = second - mass[..., None] * centre[:, :, None] * centre[:, None, :]

    # Powers of the covariance, from its largest row: no random start, and no jump where two directions tie.
    largest = jnp.argmax(jnp.diagonal(spread, axis1=1, axis2=2), axis=1)
    direction = jnp.take_along_axis(spread, largest[:, None, None], axis=1)[:, 0]

    def step(_, direction):
        direction = jnp.einsum("skl,sl->sk", spread, direction, precision="highest")
        return _unit(direction)

    direction = jax.lax.fori_loop(0, _POWER_STEPS, step, _unit(direction))

    def sides(direction, shift):
        here = take_rows(direction, slot)
        score = jnp.einsum("brk,bk->br", rows, here, precision="highest")
        return score > take_rows(shift, slot)

    def sums(side):
        first = matmul(member, jnp.where(side[..., None], loaded, 0.0).sum(1))
        return first, total - first

    def means_step(state):
        side, _, count = state
        first, other = sums(side)
        new = sides(_unit(first) - _unit(other), jnp.zeros((n_slots, 1), z.dtype))
        return new, (new != side).any(), count + 1

    start = sides(direction, (direction * centre).sum(-1, keepdims=True))
    state = (start, jnp.ones((), bool), jnp.zeros((), int))
    side, _, _ = jax.lax.while_loop(lambda s: s[1] & (s[2] < _TWO_MEANS_STEPS), means_step, state)
    first, other = sums(side)
    gain = _norm(first) + _norm(other) - _norm(total)
    return side, gain


def _norm(vectors):
    return jnp.sqrt((vectors**2).sum(-1))


def _unit(vectors):
    norm = _norm(vectors)[:, None]
    return jnp.where(norm > 0, vectors / jnp.where(norm > 0, norm, 1.0), 0.0)
