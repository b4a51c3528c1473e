r"""A corpus over a mesh of devices: documents are cut into as many parts as there are devices.

Every device holds both layouts of its own documents. $X V$ needs no exchange once the table $V$ is everywhere; $X' V$
is added up over the devices (``psum``). What is dense over documents lies with them, tables over words are everywhere.
All else is left to XLA's partitioner, so that compiled functions stay as they are.

With several processes each one brings its own documents; :mod:`hmom_jax.parallel.processes` adds up what their hosts
count.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import jax
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hmom_jax.corpus import Corpus, CorpusArrays
from hmom_jax.errors import InputError
from hmom_jax.parallel import processes
from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, geometric
from hmom_jax.sparse import fold_rows, product

# Entries that a document costs at least: a short one still takes a piece of its own.
_LEAST_COST = 8


@pytree
@dataclass(frozen=True)
class MeshRows(Rows):
    """Rows over several devices.

    Attributes
    ----------
    parts
        The layout of every device's documents, stacked; of like shapes.
    mesh
        The devices.
    n_rows
        Rows of a product.
    by_word
        Whether rows are words, to which all devices add, or documents, which each have one device.
    """

    parts: Rows
    mesh: Mesh = field(metadata={"static": True})
    n_rows: int = field(metadata={"static": True})
    by_word: bool = field(metadata={"static": True})

    @property
    def count(self):
        """The counts of all parts."""
        return self.parts.count

    def times(self, table):
        """Multiply with a table; see :func:`~hmom_jax.sparse.product`."""
        here, everywhere = PartitionSpec(self.mesh.axis_names), PartitionSpec()

        def local(parts, table):
            found = product(jax.tree.map(lambda leaf: leaf[0], parts), table)
            return jax.lax.psum(found, self.mesh.axis_names) if self.by_word else found

        return jax.shard_map(
            local,
            mesh=self.mesh,
            in_specs=(here, here if self.by_word else everywhere),
            out_specs=everywhere if self.by_word else here,
            check_vma=False,  # branches of a level do not agree on what varies
        )(self.parts, table)


class MeshCorpus(Corpus):
    """The documents of this process, over its devices of a mesh; made by :func:`on_mesh`."""

    def __init__(self, counts: sp.csr_array, vocabulary: np.ndarray, mesh: Mesh):
        super().__init__(counts, vocabulary)
        self.mesh = mesh

    def with_counts(self, counts: sp.csr_array) -> "MeshCorpus":
        """Return other counts of the same words, kept where these are."""
        return MeshCorpus(counts, self.vocabulary, self.mesh)

    @cached_property
    def total_docs(self) -> int:
        """Number of documents, those of other processes included."""
        return int(self.add_up(np.array(self.n_docs)))

    def gather(self, values) -> np.ndarray:
        """Stack what every process holds of a small array."""
        return processes.gather(values)

    def add_up(self, values):
        """Add up what every process holds of an array."""
        return processes.add_up(values)

    def gather_docs(self, values: np.ndarray) -> np.ndarray:
        """Join the values of the documents of all processes."""
        return processes.join(values)

    @cached_property
    def bounds(self) -> np.ndarray:
        """Where the documents of each device of this process begin, and the end."""
        n_parts = sum(device.process_index == jax.process_index() for device in self.mesh.devices.flat)
        cost = np.concatenate([[0], np.cumsum(np.maximum(np.diff(self.counts.indptr), _LEAST_COST))])
        return np.searchsorted(cost, np.arange(n_parts + 1) / n_parts * cost[-1])

    @cached_property
    def part_rows(self) -> int:
        """Documents of a device, padding included: the same on all devices of all processes."""
        return geometric(self._largest(np.diff(self.bounds)))

    @cached_property
    def by_doc(self) -> MeshRows:
        """Layout for products with X; the documents of every device padded to a geometric grid."""
        longest, capacity = self._largest(np.diff(self.counts.indptr)), self._capacity

        def fold(part: sp.csr_array) -> Rows:
            indptr = np.pad(part.indptr, (0, self.part_rows - part.shape[0]), mode="edge")
            return fold_rows(
                indptr, part.indices, part.data, capacity=capacity, longest=max(longest, 1), dtype=self.dtype
            )

        return MeshRows(self._stack(fold), self.mesh, self.part_rows * self.mesh.size, by_word=False)

    @cached_property
    def arrays(self) -> CorpusArrays:
        """What compiled code sees: both layouts, over the devices."""

        def fold(part: sp.csr_array) -> Rows:
            csc, capacity = part.tocsc(), self._capacity
            return fold_rows(
                csc.indptr, csc.indices, csc.data, capacity=capacity, longest=self.part_rows, dtype=self.dtype
            )

        by_word = MeshRows(self._stack(fold), self.mesh, self.n_words, by_word=True)
        return CorpusArrays(self.by_doc, by_word, self.over_docs(self.length))

    @cached_property
    def _capacity(self) -> int:
        return geometric(self._largest(np.diff(self.counts.indptr[self.bounds])))

    def _largest(self, sizes: np.ndarray) -> int:
        """Return the largest of some sizes over all processes: shapes must be alike everywhere."""
        return int(self.gather(np.array(sizes.max(initial=0))).max())

    def _stack(self, fold) -> Rows:
        """Lay out the documents of each device, and put each layout on its own."""
        parts = [fold(self.counts[first:last]) for first, last in zip(self.bounds[:-1], self.bounds[1:], strict=True)]
        return self.place(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))

    def pad(self, values: np.ndarray) -> np.ndarray:
        """Extend values over the documents of this process by zeros, so that every device has as many."""
        values = np.asarray(values)
        padded = np.zeros((len(self.bounds) - 1, self.part_rows, *values.shape[1:]), values.dtype)
        for part, (first, last) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            padded[part, : last - first] = values[first:last]
        return padded.reshape(-1, *values.shape[1:])

    def over_docs(self, values: np.ndarray) -> jax.Array:
        """Put values over documents with their documents."""
        return self.place(self.pad(values).astype(self.dtype))

    def place(self, arrays):
        """Put arrays on the mesh, their leading axes cut over the devices."""
        sharding = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))
        return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), arrays)

    def fetch(self, values) -> np.ndarray:
        """Bring values over the documents of this process back to the host, without padding."""
        here = local_part(values)
        parts = here.reshape(-1, self.part_rows, *here.shape[1:])
        return np.concatenate([part[:size] for part, size in zip(parts, np.diff(self.bounds), strict=True)])


def local_part(values: jax.Array) -> np.ndarray:
    """Return what the devices of this process hold of an array cut along its leading axis."""
    # By where they begin; copies of the same part (an array that is everywhere) count once.
    parts = {shard.index[0].start or 0: shard.data for shard in values.addressable_shards}
    return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)])


def on_mesh(corpus: Corpus, mesh) -> MeshCorpus:
    """Return a corpus whose documents lie on the devices of a mesh, over all of its axes.

    With several processes, ``corpus`` holds the documents of this one; all must have the same vocabulary.

    Examples
    --------
    >>> import jax, numpy as np
    >>> mesh = jax.make_mesh((1,), ("docs",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> on_mesh(Corpus.from_counts(np.eye(3)), mesh).total_docs
    3
    """
    if not isinstance(mesh, Mesh):
        raise InputError(f"mesh must be a jax.sharding.Mesh (see jax.make_mesh); got {type(mesh).__name__}.")
    if any(kind != jax.sharding.AxisType.Auto for kind in mesh.axis_types):
        raise InputError("The axes of the mesh must be of type Auto: jax.make_mesh(..., axis_types=(AxisType.Auto,)).")
    local = [device.process_index == jax.process_index() for device in mesh.devices.flat]
    if not any(local):
        raise InputError("This process has no device in the mesh.")
    placed = MeshCorpus(corpus.counts, corpus.vocabulary, mesh)
    if len(np.unique(placed.gather(_digest(corpus)), axis=0)) > 1:
        raise InputError("The processes have corpora over different vocabularies, or in different precision.")
    return placed


def _digest(corpus: Corpus) -> np.ndarray:
    """Return numbers that tell vocabularies and precisions apart."""
    content = "\n".join([str(corpus.dtype), *corpus.vocabulary.tolist()]).encode("utf-8")
    return np.frombuffer(hashlib.sha256(content).digest(), np.uint32)
