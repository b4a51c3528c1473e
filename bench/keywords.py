"""Keywords that tell siblings apart: overlap of the ten keywords of siblings, and their coherence (NPMI).

    python bench/keywords.py

Claim: compared with the corpus and the parent together, at a relevance of 0.4 (how the page begins), siblings share
fewer keywords than at the default of ``Tree.keywords`` (the corpus, 0.7). How much of that is the smaller relevance and
how much the parent, the rows of equal relevance tell. The setting was chosen among some twenty on the corpora of
CHOSEN_ON; those of NOT_SEEN were run afterwards, and again when lift was stretched in large nodes. Writes
bench/results/keywords.md and .json.
"""

import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hmom_jax as hm  # noqa: E402
from bench.common import markdown, write  # noqa: E402
from bench.corpora import load_counts  # noqa: E402
from hmom_jax.metrics import npmi_coherence  # noqa: E402

# name -> leaves
CHOSEN_ON = {"docstrings": 16, "planetmath": 32, "20newsgroups": 32, "bbc_news": 16, "nips_abstracts_1987_2018": 32}
NOT_SEEN = {"m10_titles": 16, "dblp_titles": 16, "nips_0_12_fulltext": 16, "ai_conference_abstracts": 32}
SETTINGS = [
    ("corpus", 0.7),
    ("corpus", 0.6),
    ("corpus", 0.5),
    ("corpus", 0.4),
    ("both", 0.5),
    ("both", 0.4),
    ("both", 0.3),
    ("parent", 0.4),
]


def load(name: str) -> hm.Corpus:
    """Return a corpus with all its words."""
    if name == "docstrings":
        data = hm.datasets.docstrings()
        return hm.Corpus.from_counts(data.counts, data.vocabulary)
    return hm.Corpus.from_counts(*load_counts(name, n_words=None)[:2])


def score(tree: hm.Tree, corpus: hm.Corpus, contrast: str, relevance: float) -> dict:
    """Return the mean share of keywords that siblings have in common, and NPMI over nodes and over leaves."""
    words = {node.id: tree.keywords(node, 10, relevance, contrast) for node in tree.nodes[1:]}
    pairs = [pair for node in tree.nodes for pair in itertools.combinations(node.children, 2)]
    return {
        "overlap": float(np.mean([len(set(words[a]) & set(words[b])) / 10 for a, b in pairs])),
        "npmi": npmi_coherence(list(words.values()), corpus),
        "npmi_leaves": npmi_coherence([words[leaf.id] for leaf in tree.leaves], corpus),
    }


def main():
    results = {}
    for name, n_leaves in {**CHOSEN_ON, **NOT_SEEN}.items():
        corpus = load(name)
        tree = hm.grow_tree(corpus, n_leaves=n_leaves)
        results[name] = {f"{c} {r}": score(tree, corpus, c, r) for c, r in SETTINGS}
        print(name, results[name], file=sys.stderr, flush=True)
    write("keywords", report(results), results)


def report(results: dict) -> str:
    """Return the tables: each corpus, then means, and on how many corpora a setting beats the default."""
    parts = ["Overlap of siblings' keywords (smaller is better) / NPMI of all nodes (larger is better).\n"]
    for heading, names in (("The setting was chosen on these", CHOSEN_ON), ("and not on these", NOT_SEEN)):
        rows = [
            [c, r, *(f"{results[n][f'{c} {r}']['overlap']:.3f} / {results[n][f'{c} {r}']['npmi']:.3f}" for n in names)]
            for c, r in SETTINGS
        ]
        parts.append(f"{heading}:\n\n" + markdown(["contrast", "relevance", *names], rows) + "\n")
    default = "{} {}".format(*SETTINGS[0])
    rows = []
    for c, r in SETTINGS:
        values = {m: np.array([row[f"{c} {r}"][m] for row in results.values()]) for m in ("overlap", "npmi")}
        before = {m: np.array([row[default][m] for row in results.values()]) for m in ("overlap", "npmi")}
        less = int((values["overlap"] < before["overlap"]).sum())
        more = int((values["npmi"] > before["npmi"]).sum())
        rows.append([c, r, f"{values['overlap'].mean():.3f}", f"{values['npmi'].mean():.3f}", less, more])
    head = ["contrast", "relevance", "overlap", "NPMI", "corpora with less overlap", "corpora with more NPMI"]
    parts.append(
        f"Means over all {len(results)}, and how many do better than the first row:\n\n" + markdown(head, rows)
    )
    return "\n".join(parts)


if __name__ == "__main__":
    main()
