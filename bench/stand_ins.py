"""The paper's two experiments on real text, on corpora that stand in for its own: trees to read, and scores.

    python bench/stand_ins.py

NIPS full papers (volumes 0-12) and arXiv papers on machine learning at 8 leaves; the PlanetMath articles on linear
algebra, rings, probability and optimisation at 4 leaves. Both methods; 3000 words. Writes bench/results/stand_ins.md.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import hmom_jax as hm  # noqa: E402
from bench.corpora import load_counts  # noqa: E402
from hmom_jax.metrics import normalized_mutual_info_score, purity_score  # noqa: E402


def load(name: str):
    """Return a corpus and its labels (None where it has none)."""
    counts, vocabulary, file = load_counts(name)
    labels = file["labels_four"] if name == "planetmath" else None
    if labels is not None:
        keep = np.flatnonzero(labels >= 0)
        counts, labels = counts[keep], labels[keep]
    return hm.Corpus.from_counts(counts, vocabulary), labels


def main():
    lines = []
    for name, depth in (("nips_0_12_fulltext", 3), ("peerread_arxiv_fulltext", 3), ("planetmath", 2)):
        corpus, labels = load(name)
        for method in ("robust", "paper"):
            tree = hm.grow_tree(corpus, depth=depth, method=method)
            lines += [f"## {name}, {method}, {tree.n_leaves} leaves", "", "```", tree.format(10), "```", ""]
            if labels is not None:
                found = tree.labels()
                lines += [
                    f"Purity {purity_score(labels, found):.3f}, NMI {normalized_mutual_info_score(labels, found):.3f} "
                    f"against the four areas ({len(labels)} articles).",
                    "",
                ]
    text = "\n".join(lines)
    (ROOT / "bench" / "results").mkdir(exist_ok=True)
    (ROOT / "bench" / "results" / "stand_ins.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
