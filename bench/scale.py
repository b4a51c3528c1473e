"""What a robust tree costs beyond one device: formulas, checked against what is laid out and exchanged here.

``python -m bench.scale`` prints the tables of ``bench/SCALE.md``.
"""

import re
from dataclasses import dataclass

import jax
import numpy as np

import hmom_jax as hm
from hmom_jax.parallel.mesh import on_mesh
from hmom_jax.rows import geometric
from hmom_jax.sparse import _mean_width
from hmom_jax.tree import polish, robust
from hmom_jax.tree.bisect import SLOTS, TWO_MEANS_STEPS
from hmom_jax.tree.embedding import rank_for
from hmom_jax.whitening import krylov_shape

SECONDS = 4e-9 / 8  # per nonzero and column, on one core of the machine of bench/kernel.py
PRODUCTS = 30  # Krylov products, assumed: 21 were counted on 10 M nonzeros, and a test allows 38


@dataclass(frozen=True)
class Size:
    """Documents, nonzeros, words, leaves, devices."""

    n_docs: float
    nnz: float
    n_words: float
    n_leaves: int
    devices: int = 1

    @property
    def rank(self) -> int:
        """Coordinates of a document."""
        return rank_for(self.n_leaves, int(self.n_words))

    @property
    def columns(self) -> dict[str, int]:
        """Columns of all products, both ways together, in each stage."""
        block = krylov_shape(self.rank).width
        cells, leaves = geometric(2 * self.n_leaves), geometric(self.n_leaves)
        return {
            "embedding": 2 * PRODUCTS * block + self.rank,
            "cells": 2 * robust._STEPS_CELLS * cells,
            "leaves": 2 * (robust._STEPS_LEAVES + robust._STEPS_COLD) * leaves + leaves,
        }

    @property
    def flops(self) -> float:
        """Multiplications and additions with the counts, over all devices."""
        return 2 * self.nnz * sum(self.columns.values())

    @property
    def layouts(self) -> float:
        """Bytes of both layouts on a device, before rounding sizes up to the geometric grid (at most a quarter)."""
        return sum(_layout(self.nnz / self.devices, rows) for rows in (self.n_docs / self.devices, self.n_words))

    @property
    def documents(self) -> float:
        """Bytes of what is dense over documents on a device: coordinates, and probabilities before and after a step."""
        return 4 * self.n_docs / self.devices * (self.rank + 2 * geometric(2 * self.n_leaves))

    @property
    def words(self) -> float:
        """Bytes of tables over words, on every device: Krylov basis (with a copy at a restart), topics and sums."""
        shape = krylov_shape(self.rank)
        return 4 * self.n_words * (2 * shape.capacity * shape.width + 4 * geometric(2 * self.n_leaves))

    @property
    def exchanged(self) -> float:
        """Bytes that each device gives to sums over all devices, in a whole tree."""
        block = krylov_shape(self.rank).width
        steps = robust._STEPS_LEAVES + robust._STEPS_COLD
        columns = (
            PRODUCTS * block + robust._STEPS_CELLS * geometric(2 * self.n_leaves) + steps * geometric(self.n_leaves)
        )
        rounds = 2 * np.ceil(np.log2(2 * self.n_leaves))
        splits = rounds * SLOTS * self.rank * (self.rank + TWO_MEANS_STEPS)
        return 4 * (self.n_words * columns + splits)

    @property
    def disk(self) -> float:
        """Bytes of the scratch folder, when the counts stay on disk, and of the coordinates there."""
        return self.layouts + 4 * self.n_docs * self.rank


def _layout(nnz: float, rows: float) -> float:
    """Bytes of one layout: entries of 8 bytes in pieces, the row of each piece, and where sums stand."""
    width = _mean_width(int(nnz), int(rows))
    pieces = nnz / width + rows
    return pieces * (8 * width + 4) + 4 * pieces / 2 + 4 * rows


def measured(counts, n_leaves: int) -> dict:
    """Return what one device really holds and exchanges."""
    corpus = on_mesh(
        hm.Corpus.from_counts(counts), jax.make_mesh((1,), ("docs",), axis_types=(jax.sharding.AxisType.Auto,))
    )
    arrays, width = corpus.arrays, geometric(n_leaves)
    layouts = sum(leaf.nbytes for leaf in jax.tree.leaves((arrays.by_doc, arrays.by_word)))
    docs, mean = corpus.over_docs(np.ones(corpus.n_docs)), np.full(corpus.n_words, 1 / corpus.n_words, np.float32)
    start = corpus.over_docs(np.ones((corpus.n_docs, width)))
    lowered = polish._em.lower(
        arrays.by_doc, arrays.by_word, docs, docs, start, mean, np.float32(1), np.int32(5), np.ones(width, bool)
    )
    sums = re.findall(r"all_reduce.*?-> tensor<(\d+)x(\d+)xf32>", lowered.as_text(), re.DOTALL)
    step = sum(4 * int(rows) * int(columns) for rows, columns in sums)
    return {"layouts": layouts, "EM step": step}


def check() -> list[str]:
    """Compare formulas and measurements at small sizes."""
    lines = ["| documents | words | nonzeros | layouts, formula | measured | sums of an EM step, formula | measured |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for n_docs, n_words, length in ((2000, 500, 60), (8000, 2000, 40), (20_000, 5000, 120)):
        counts = hm.datasets.hierarchical_topics(0, n_docs=n_docs, n_words=n_words, doc_length=length).counts
        size, found = Size(n_docs, counts.nnz, n_words, 16), measured(counts, 16)
        lines.append(
            f"| {n_docs} | {n_words} | {counts.nnz} | {size.layouts / 1e6:.1f} MB | {found['layouts'] / 1e6:.1f} MB "
            f"| {4 * n_words * geometric(16) / 1e3:.0f} kB | {found['EM step'] / 1e3:.0f} kB |"
        )
    return lines


WORKED = {
    "PubMed abstracts, 1 device": Size(8.2e6, 483e6, 141e3, 32),
    "PubMed abstracts, 8 devices": Size(8.2e6, 483e6, 141e3, 32, 8),
    "web crawl, 64 devices": Size(1e9, 100e9, 500e3, 64, 64),
    "web crawl, 128 devices": Size(1e9, 100e9, 500e3, 64, 128),
}


def worked() -> list[str]:
    """Work the formulas out for two corpora."""
    lines = ["| per device | layouts | documents | words | all | Tflop | exchanged | core seconds of this machine |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, size in WORKED.items():
        parts = size.layouts, size.documents, size.words
        shown = " | ".join(f"{part / 1e9:.1f} GB" for part in (*parts, sum(parts)))
        seconds = SECONDS * size.nnz * sum(size.columns.values()) / size.devices
        work = f"{size.flops / size.devices / 1e12:.1f} | {size.exchanged / 1e9:.1f} GB | {seconds:,.0f}"
        lines.append(f"| {name} | {shown} | {work} |")
    return lines


if __name__ == "__main__":
    print("\n".join([*check(), "", *worked()]))
