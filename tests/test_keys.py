"""Random draws: one stream for all nodes, or one for each."""

import jax
import numpy as np
import pytest

from hmom_jax.keys import normal, signs


@pytest.mark.parametrize("draw", [normal, signs])
def test_each_node_draws_from_its_own_key(draw, dtype):
    keys = jax.random.split(jax.random.key(3), 4)
    drawn = draw(keys, (4,), (37, 5), dtype)
    assert drawn.shape == (4, 37, 5)
    assert drawn.dtype == dtype
    for key, own in zip(keys, drawn, strict=True):
        np.testing.assert_array_equal(own, draw(key, (), (37, 5), dtype))
    assert len(np.unique(np.asarray(drawn).reshape(4, -1), axis=0)) == 4


@pytest.mark.parametrize("draw", [normal, signs])
def test_one_key_gives_all_nodes_the_same(draw, dtype):
    drawn = np.asarray(draw(jax.random.key(3), (2, 3), (40,), dtype))
    assert drawn.shape == (2, 3, 40)
    assert (drawn == drawn[0, 0]).all()


def test_signs_are_balanced_and_unrelated(dtype):
    drawn = np.asarray(signs(jax.random.key(0), (), (20_000, 8), dtype))
    assert set(np.unique(drawn)) == {-1, 1}
    gram = drawn.T @ drawn / len(drawn)
    np.testing.assert_allclose(gram, np.eye(8), atol=0.03)  # four standard deviations
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.03)
