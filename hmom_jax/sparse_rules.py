r"""The product with the counts as an operation of its own, differentiable both ways without a scatter.

$Y = X V$ is linear in the table $V$ and in the counts $X$. Its derivative in $V$ is the product with the transposed
layout, which every corpus has at hand; left to itself JAX would transpose every gather into a scatter, which is slow.
In the counts, the derivative at entry $(r, e)$ is the inner product of row $r$ of the cotangent and row $e$ of the
table: gathers again.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from hmom_jax.rows import Rows
from hmom_jax.sparse import product


def transposable_product(
    rows: Rows, transposed: Rows, table: Float[Array, "entries columns"] | np.ndarray
) -> Float[Array, "rows columns"]:
    """Multiply folded rows with a table; ``transposed`` is the layout of the transposed matrix, for derivatives.

    The two layouts must hold the same counts, also where these are perturbed (:func:`~hmom_jax.put_counts` sees to it).

    Examples
    --------
    >>> import jax, numpy as np
    >>> from hmom_jax import Corpus
    >>> arrays = Corpus.from_counts(np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])).arrays
    >>> total = lambda table: transposable_product(arrays.by_doc, arrays.by_word, table).sum()
    >>> jax.grad(total)(np.ones((3, 1))).ravel().tolist()
    [2.0, 3.0, 1.0]
    """
    leaves, tree = jax.tree.flatten((rows, transposed, table))
    return _product_p.bind(*map(jnp.asarray, leaves), tree=tree, n_rows=rows.n_rows)


def _plain(*leaves, tree, n_rows):
    rows, _, table = jax.tree.unflatten(tree, leaves)
    return product(rows, table)


def _shape(*leaves, tree, n_rows):
    return jax.core.ShapedArray(
        (n_rows, leaves[-1].shape[1]), jnp.result_type(leaves[_counts(tree)[0][0]].dtype, leaves[-1].dtype)
    )


def _counts(tree) -> tuple[list[int], list[int]]:
    """Return the places of the counts of both layouts among the leaves."""
    rows, transposed, _ = jax.tree.unflatten(tree, range(tree.num_leaves))
    return jax.tree.leaves(rows.count), jax.tree.leaves(transposed.count)


def _jvp(primals, tangents, *, tree, n_rows):
    bind = partial(_product_p.bind, tree=tree, n_rows=n_rows)
    out = bind(*primals)
    parts = []
    if not _is_zero(tangents[-1]):
        parts.append(bind(*primals[:-1], tangents[-1]))
    places = sum(_counts(tree), [])
    if not all(_is_zero(tangents[place]) for place in places):
        moved = list(primals)
        for place in places:
            moved[place] = ad.instantiate_zeros(tangents[place])
        parts.append(bind(*moved))
    return out, sum(parts) if parts else ad.Zero.from_primal_value(out)


def _transpose(cotangent, *leaves, tree, n_rows):
    found = [None] * len(leaves)
    if _is_zero(cotangent):
        return found
    if ad.is_undefined_primal(leaves[-1]):
        rows, transposed, table = tree.children()
        first = rows.num_leaves
        swapped = (*leaves[first:-1], *leaves[:first], cotangent)
        back = jax.tree_util.treedef_tuple((transposed, rows, table))
        found[-1] = _product_p.bind(*swapped, tree=back, n_rows=leaves[-1].aval.shape[0])
    else:
        ours, theirs = _counts(tree)
        here = list(leaves)
        for place in (*ours, *theirs):
            if ad.is_undefined_primal(leaves[place]):
                here[place] = jnp.zeros(leaves[place].aval.shape, leaves[place].aval.dtype)
                found[place] = here[place]
        rows, _, table = jax.tree.unflatten(tree, here)
        slopes = rows.slopes(jnp.asarray(table), jnp.asarray(cotangent))
        for place, slope in zip(ours, jax.tree.leaves(slopes), strict=True):
            if ad.is_undefined_primal(leaves[place]):
                found[place] = slope
    return found


def _batch(leaves, axes, *, tree, n_rows):
    bind = partial(_product_p.bind, tree=tree, n_rows=n_rows)
    size = next(leaf.shape[axis] for leaf, axis in zip(leaves, axes, strict=True) if axis is not None)
    if all(axis is None for axis in axes[:-1]):  # more columns of one product
        table = jnp.moveaxis(leaves[-1], axes[-1], 1)
        wide = bind(*leaves[:-1], table.reshape(table.shape[0], -1))
        return wide.reshape(wide.shape[0], size, -1), 1
    stacked = [leaf if axis is None else jnp.moveaxis(leaf, axis, 0) for leaf, axis in zip(leaves, axes, strict=True)]

    def one(number):
        pick = lambda leaf, axis: leaf if axis is None else leaf[number]
        return bind(*map(pick, stacked, axes))

    return jax.lax.map(one, jnp.arange(size)), 0


def _is_zero(tangent) -> bool:
    return type(tangent) is ad.Zero


_product_p = Primitive("product")
_product_p.def_impl(jax.jit(_plain, static_argnames=("tree", "n_rows")))
_product_p.def_abstract_eval(_shape)
mlir.register_lowering(_product_p, mlir.lower_fun(_plain, multiple_results=False))
ad.primitive_jvps[_product_p] = _jvp
ad.primitive_transposes[_product_p] = _transpose
batching.primitive_batchers[_product_p] = _batch
