"""Two-way splits in the space of documents."""

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.tree import bisect
from hmom_jax.tree.bisect import blocks_of, two_means
from hmom_jax.tree.space import Space


def grow_cells(z, weights, n_cells, **options):
    """Split points; of their corpus only the number of documents counts."""
    return bisect.grow_cells(Space(hm.Corpus.from_counts(np.ones((len(z), 1))), z), weights, n_cells, **options)


def clouds(seed, n_docs=300, n_groups=6, rank=8, spread=0.3):
    """Draw unit vectors around a few directions."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.standard_normal((rank, n_groups)))[0].T
    labels = rng.integers(n_groups, size=n_docs)
    z = centres[labels] + spread * rng.standard_normal((n_docs, rank)) / np.sqrt(rank)
    return (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("seed", range(3))
def test_rounds_give_the_tree_that_one_at_a_time_gives(seed):
    z, _ = clouds(seed, spread=1.0)
    weights = np.ones(len(z))
    fast, fast_history = grow_cells(z, weights, 24, min_leaf=3)
    slow, slow_history = grow_cells(z, weights, 24, min_leaf=3, one_at_a_time=True)
    assert [c.docs.tolist() for c in fast_history] == [c.docs.tolist() for c in slow_history]
    assert sorted(c.docs.tolist() for c in fast) == sorted(c.docs.tolist() for c in slow)
    assert len(fast) == 24


def test_separate_groups_come_out():
    z, labels = clouds(0, spread=0.2)
    cells, _ = grow_cells(z, np.ones(len(z)), 6, min_leaf=3)
    assert sorted(len(np.unique(labels[c.docs])) for c in cells) == [1] * 6


def test_gain_is_the_growth_of_the_resultant_lengths():
    z, _ = clouds(1)
    groups = [np.arange(0, 100), np.arange(100, 180)]
    layout = blocks_of(groups, len(z), 4)
    lean, gain = two_means(z, *layout.arrays(np.ones(len(z))), n_slots=4)
    for slot, docs in enumerate(groups):
        share = 0.5 * (1 + np.asarray(lean).ravel()[layout.place[slot]])[:, None]
        parts = (share * z[docs]).sum(0), ((1 - share) * z[docs]).sum(0)
        expected = sum(np.linalg.norm(p) for p in parts) - np.linalg.norm(z[docs].sum(0))
        assert gain[slot] == pytest.approx(expected, rel=1e-4)


def test_a_document_at_the_border_has_no_say_in_the_cell_where_it_ends_up():
    """Two groups, and one point that moves from one to the other: all that others see moves with it steadily."""
    z, _ = clouds(4, n_docs=200, n_groups=2, spread=0.2)
    centres = [(z[cell.docs].sum(0)) for cell in grow_cells(z, np.ones(len(z)), 2, min_leaf=3)[0]]
    first, second = (centre / np.linalg.norm(centre) for centre in centres)
    said = []
    for way in np.linspace(-0.01, 0.01, 41):  # across the border in between
        point = (0.5 + way) * first + (0.5 - way) * second
        points = np.concatenate([z, point[None] / np.linalg.norm(point)]).astype(np.float32)
        cells, _ = grow_cells(points, np.ones(len(points)), 2, min_leaf=3)
        cells = sorted(cells, key=lambda cell: -(cell.sure @ points[cell.docs] @ first))
        said.append([cell.sure @ points[cell.docs] for cell in cells])
    ends = np.abs(np.asarray(said)[-1] - np.asarray(said)[0]).max()
    steps = np.abs(np.diff(np.asarray(said), axis=0)).max()
    assert ends > 0.1
    assert steps < 0.1 * ends


def test_least_leaf_and_largest_depth_hold():
    z, _ = clouds(2, spread=1.0)
    cells, _ = grow_cells(z, np.ones(len(z)), 60, min_leaf=20)
    assert min(len(c.docs) for c in cells) >= 20
    cells, _ = grow_cells(z, np.ones(len(z)), 60, min_leaf=1, max_depth=2)
    assert len(cells) == 4


def test_a_weight_of_two_equals_two_copies():
    z, _ = clouds(3, n_docs=120, spread=0.8)
    weights = np.random.default_rng(0).integers(1, 3, len(z)).astype(float)
    copies = np.repeat(np.arange(len(z)), weights.astype(int))
    weighted, _ = grow_cells(z, weights, 5, min_leaf=2)
    repeated, _ = grow_cells(z[copies], np.ones(len(copies)), 5, min_leaf=2)
    assert sorted(sorted(c.docs.tolist()) for c in weighted) == sorted(
        sorted(set(copies[c.docs].tolist())) for c in repeated
    )
