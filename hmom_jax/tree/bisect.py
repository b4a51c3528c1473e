"""Two-way splits of all open cells at once, in the space of documents, and best-first growth by them.

Documents are sorted by cell into blocks of rows, each block in one cell: sums over a cell are then dense block sums
and one small product, on any device.

A split is continuous in the points: rounding is not to decide where a document goes, because other documents would
follow it. (Which cell is split next remains a choice, by gains that seldom tie.) A point near the border counts for
both sides in part, and belongs less *surely* to the side where it ends up: at the border itself it has no say there.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmom_jax.compilation import quick_jit
from hmom_jax.rows import take_rows

_POWER_STEPS = 100
TWO_MEANS_STEPS = 20
SLOTS = 32  # cells that one pass looks at
# Distance from the border up to which points count for both sides in part: far above rounding (1e-5), far below the
# spread of the points (0.3).
_BORDER = 0.02
# Splits have settled when no point leans by so much more or less than before: hardly more than rounding.
SETTLED = 1e-3


@dataclass
class Cell:
    """A set of documents, and how it would split."""

    docs: np.ndarray  # those of this process
    sure: np.ndarray  # from 0 to 1: how far from the borders of the cell they are
    size: int  # number of documents, those of other processes included
    depth: int = 0
    gain: float | None = None  # None: not yet looked at
    children: tuple["Cell", "Cell"] | None = None
    lean: np.ndarray | None = field(default=None, repr=False)  # from -1, the first child, to 1, the second
    on_side: int = 0  # documents, of all processes, that go to the second child

    def open_up(self) -> tuple["Cell", "Cell"]:
        """Return the two children, made when first asked for."""
        if self.children is None:
            side, sure = self.lean > 0, np.minimum(self.sure, np.abs(self.lean))
            self.children = (
                Cell(self.docs[~side], sure[~side], self.size - self.on_side, self.depth + 1),
                Cell(self.docs[side], sure[side], self.on_side, self.depth + 1),
            )
        return self.children


def grow_cells(
    space,
    weights: np.ndarray,
    n_cells: int,
    *,
    min_leaf: int,
    max_depth: int | None = None,
    one_at_a_time: bool = False,
):
    """Split best-first until there are ``n_cells``; returns the leaves and the cells that were split, in order.

    In rounds: with R splits left only the R open cells of highest gain can ever be chosen, so the children of all of
    them are looked at in one pass; then the one-at-a-time order is replayed. ``one_at_a_time`` is the plain loop.
    ``space`` is a :class:`~hmom_jax.tree.space.Space`, or another that splits as it does.
    """
    n_docs = len(weights)
    root = Cell(np.arange(n_docs), np.ones(n_docs), int(space.add_up(np.array(n_docs))))
    look = partial(_look, space, weights, min_leaf=min_leaf, max_depth=max_depth)
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


def _look(space, weights, cells: list[Cell], *, min_leaf: int, max_depth: int | None) -> None:
    """Find the split and the gain of each cell."""
    worth = []
    for cell in cells:
        cell.gain = -1.0
        if cell.size >= 2 * min_leaf and (max_depth is None or cell.depth < max_depth):
            worth.append(cell)
    for first in range(0, len(worth), SLOTS):
        group = worth[first : first + SLOTS]
        here = weights.copy()
        for cell in group:
            here[cell.docs] *= cell.sure
        leans, gain = space.split([cell.docs for cell in group], here)
        on_side = space.add_up(np.array([(lean > 0).sum() for lean in leans]))
        for slot, cell in enumerate(group):
            cell.lean, cell.on_side = leans[slot], int(on_side[slot])
            if min(cell.on_side, cell.size - cell.on_side) >= min_leaf:
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


@partial(quick_jit, static_argnames="n_slots")
def two_means(z, index, weight, slot, *, n_slots: int):
    r"""Split every slot by spherical two-means, begun at its principal direction.

    Returns how far each row leans to a side, from -1 to 1, and the gain $|s_1| + |s_0| - |s|$, with $s$ the sum of a
    slot's unit vectors. With leading axes of parts, ``index`` counts within each part of ``z``.
    """
    points = gather_points(z, index, weight, slot, n_slots)
    sums = slot_sums(points)

    def means_step(state):
        lean, _, count = state
        new = leaning(points, *between(side_sums(points, lean), sums.total))
        return new, (jnp.abs(new - lean) > SETTLED).any(), count + 1

    start = leaning(points, *principal(sums))
    state = (start, jnp.ones((), bool), jnp.zeros((), int))
    lean, _, _ = jax.lax.while_loop(lambda s: s[1] & (s[2] < TWO_MEANS_STEPS), means_step, state)
    return lean, gains(side_sums(points, lean), sums.total)


class Points(NamedTuple):
    """Rows of documents in blocks, each block in one slot."""

    rows: Float[Array, "blocks rows rank"]
    weight: Float[Array, "blocks rows"]
    slot: Int[Array, " blocks"]
    member: Float[Array, "slots blocks"]  # 1 where a block is in the slot


class SlotSums(NamedTuple):
    """What the points of each slot add up to; sums of parts of the documents add up again."""

    total: Float[Array, "slots rank"]
    mass: Float[Array, "slots 1"]
    second: Float[Array, "slots rank rank"]


def gather_points(z, index, weight, slot, n_slots: int) -> Points:
    """Bring the documents into blocks."""
    rows = take_rows(z, index) if z.ndim == 2 else jax.vmap(take_rows)(z, index)
    rows, weight, slot = rows.reshape(-1, *rows.shape[-2:]), weight.reshape(-1, weight.shape[-1]), slot.reshape(-1)
    weight = weight.astype(z.dtype)
    member = (slot[None, :] == jnp.arange(n_slots)[:, None]).astype(z.dtype)
    return Points(rows, weight, slot, member)


def slot_sums(points: Points) -> SlotSums:
    """Add up the points of each slot, and their outer products."""
    rank = points.rows.shape[-1]
    total = _matmul(points.member, _weighted(points.weight, points))
    mass = _matmul(points.member, points.weight.sum(1)[:, None])
    loaded = points.weight[..., None] * points.rows
    second = jnp.einsum("brk,brl->bkl", loaded, points.rows, precision="highest").reshape(-1, rank * rank)
    return SlotSums(total, mass, _matmul(points.member, second).reshape(-1, rank, rank))


def principal(sums: SlotSums):
    """Return the principal direction of each slot, and where along it the mean lies."""
    centre = sums.total / jnp.maximum(sums.mass, jnp.finfo(sums.total.dtype).tiny)
    spread = sums.second - sums.mass[..., None] * centre[:, :, None] * centre[:, None, :]

    # Powers of the covariance, from its largest row: no random start, and no jump where two directions tie.
    largest = jnp.argmax(jnp.diagonal(spread, axis1=1, axis2=2), axis=1)
    direction = jnp.take_along_axis(spread, largest[:, None, None], axis=1)[:, 0]

    def step(_, direction):
        direction = jnp.einsum("skl,sl->sk", spread, direction, precision="highest")
        return _unit(direction)

    direction = jax.lax.fori_loop(0, _POWER_STEPS, step, _unit(direction))
    return direction, (direction * centre).sum(-1, keepdims=True)


def leaning(points: Points, direction, shift):
    """Tell how far points lie beyond ``shift`` in the direction of their slot, from -1 to 1 in units of the border."""
    here = take_rows(direction, points.slot)
    score = jnp.einsum("brk,bk->br", points.rows, here, precision="highest")
    return jnp.clip((score - take_rows(shift, points.slot)) / _BORDER, -1.0, 1.0)


def side_sums(points: Points, lean):
    """Add up, for each slot, the points on one side; at the border half of each."""
    return _matmul(points.member, _weighted(0.5 * (1 + lean) * points.weight, points))


def between(first, total):
    """Return the direction from one side's mean to the other's, halfway between them."""
    return _unit(_unit(first) - _unit(total - first)), jnp.zeros((len(first), 1), first.dtype)


def gains(first, total):
    """Return how much longer the sums of both sides are than the sum of all."""
    return _norm(first) + _norm(total - first) - _norm(total)


def _weighted(weights, points: Points):
    """Add up the rows of each block with weights."""
    return jnp.einsum("br,brk->bk", weights, points.rows, precision="highest")


_matmul = partial(jnp.matmul, precision="highest")


def _norm(vectors):
    return jnp.sqrt((vectors**2).sum(-1))


def _unit(vectors):
    norm = _norm(vectors)[:, None]
    return jnp.where(norm > 0, vectors / jnp.where(norm > 0, norm, 1.0), 0.0)
