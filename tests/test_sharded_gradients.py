"""Derivatives compose with shard_map and vmap: a batch of document weights over two devices."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import jax

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec as P

import hmom_jax as hm

assert jax.device_count() == 2
data = hm.datasets.hierarchical_topics(0, n_docs=60, doc_length=40, n_words=30)
corpus = hm.Corpus.from_counts(data.counts.astype(np.float64))
arrays, places, counts = corpus.arrays, corpus.places, jnp.asarray(corpus.counts.data)
batch = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, (4, 60)))
mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,))


def weight(arrays, places, counts, membership):
    return hm.sidiwo(hm.single_topic_moments(hm.put_counts(arrays, places, counts), 0.5, membership), 2).weights[0]


def over_devices(function):
    many = jax.vmap(function, in_axes=(None, None, None, 0))
    specs = (P(), P(), P(), P("batch"))
    return jax.shard_map(many, mesh=mesh, in_specs=specs, out_specs=P("batch"), check_vma=False)


both = jax.jit(jax.value_and_grad(weight, argnums=(2, 3)))
expected = [both(arrays, places, counts, membership)[1] for membership in batch]

# derivatives inside
inside = jax.jit(over_devices(jax.grad(weight, argnums=3)))(arrays, places, counts, batch)
assert len(inside.sharding.device_set) == 2
np.testing.assert_allclose(inside, np.stack([slope for _, slope in expected]), atol=1e-14)

# derivatives through it, in what is sharded and in what all devices share
total = lambda counts, batch: over_devices(weight)(arrays, places, counts, batch).sum()
shared, sharded = jax.jit(jax.grad(total, argnums=(0, 1)))(counts, batch)
np.testing.assert_allclose(shared, sum(slope for slope, _ in expected), atol=1e-14)
np.testing.assert_allclose(sharded, inside, atol=1e-14)
"""


@pytest.mark.slow
def test_derivatives_over_two_devices():
    root = Path(__file__).parents[1]
    # a process of its own: the number of devices is fixed when JAX starts
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
