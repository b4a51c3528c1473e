"""Are the trees right? Our trees, the usual tools, and controls on labelled corpora.

    python bench/quality.py                         # everything: hours
    python bench/quality.py --corpora bbc_news,m10_titles --tools robust,kmeans_lsa --seeds 1

Same vocabulary (the 3000 most frequent words), same number of clusters for all; every run in a process of its own with
a time limit, after which its row says "did not finish". Prints a Markdown table; writes it with JSON and a plot to
bench/results/. NMI is with arithmetic normalisation.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.common import in_child  # noqa: E402
from bench.corpora import LABELLED, default_folder, load_labelled  # noqa: E402
from hmom_jax.cli import rivals  # noqa: E402


# ---------------------------------------------------------------- tools: (data, seed) -> labels, dendrogram or None
def _tree(data, seed, **options):
    import jax

    import hmom_jax as hm

    corpus = hm.Corpus.from_counts(data.counts, data.vocabulary)
    tree = hm.grow_tree(corpus, key=jax.random.key(seed), **options)
    return tree.labels(), tree


def robust(data, seed):
    return _tree(data, seed, n_leaves=data.n_clusters)


def robust_before_polish(data, seed):
    """Grow the same tree without its final polish."""
    import jax

    import hmom_jax as hm
    from hmom_jax.tree.effective import Effective
    from hmom_jax.tree.robust import assemble, plan

    corpus = hm.Corpus.from_counts(data.counts, data.vocabulary)
    weight = np.ones(corpus.n_docs)
    start, merges = plan(
        Effective.learn(corpus).apply(corpus), data.n_clusters, key=jax.random.key(seed), sample_weight=weight,
        min_leaf=3, max_depth=None, watch=lambda done, n: None,
    )  # fmt: skip
    k = len(merges) + 1
    share = np.bincount(start.leaf, minlength=k) / corpus.n_docs
    tree = assemble(corpus, weight, start.leaf, share, merges, np.arange(k))
    return tree.labels(), tree


def paper(data, seed):
    """Grow the paper's tree, to the depth that has as many leaves."""
    return _tree(data, seed, depth=int(np.ceil(np.log2(data.n_clusters))), method="paper")


def _bisecting(features, data, seed):
    model = rivals.bisecting(features, data.n_clusters, seed)
    return model.labels_, model


def kmeans_tfidf(data, seed):
    return rivals.kmeans(rivals.tfidf(data.counts), data.n_clusters, seed), None


def kmeans_lsa(data, seed):
    return rivals.kmeans(rivals.lsa(data.counts, seed), data.n_clusters, seed, n_init=10), None


def kmeans_lsa_once(data, seed):
    return rivals.kmeans(rivals.lsa(data.counts, seed), data.n_clusters, seed), None


def bisecting_tfidf(data, seed):
    return _bisecting(rivals.tfidf(data.counts), data, seed)


def bisecting_lsa(data, seed):
    return _bisecting(rivals.lsa(data.counts, seed), data, seed)


def nmf(data, seed):
    from sklearn.decomposition import NMF

    return NMF(data.n_clusters, random_state=seed, max_iter=300).fit_transform(rivals.tfidf(data.counts)).argmax(
        1
    ), None


def lda(data, seed):
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(data.n_clusters, random_state=seed, learning_method="online", n_jobs=1)
    return model.fit_transform(data.counts).argmax(1), None


def tomotopy_lda(data, seed):
    return rivals.tomotopy_lda(data.counts, data.vocabulary, data.n_clusters, seed, workers=2), None


def tomotopy_hlda(data, seed):
    import tomotopy

    model = tomotopy.HLDAModel(depth=3, seed=seed)
    kept = rivals.train_tomotopy(model, data.counts, data.vocabulary, 200, workers=2)
    level = np.array([model.level(topic) for topic in range(model.k)])
    deepest = lambda topics: int(topics[level[topics].argmax()])  # the topics of a document lie on one path
    labels = np.full(data.counts.shape[0], -1)
    labels[kept] = [deepest(np.asarray(document.topics)) for document in model.docs]
    return labels, None


def _control(start, data):
    """Run our own polish from another start."""
    import hmom_jax as hm
    from hmom_jax.tree.effective import Effective
    from hmom_jax.tree.leaf_model import LeafModel
    from hmom_jax.tree.polish import Labels
    from hmom_jax.tree.robust import polish

    corpus = hm.Corpus.from_counts(data.counts, data.vocabulary)
    weight = np.ones(corpus.n_docs)
    documents = Effective.learn(corpus).apply(corpus)
    mixture, words, alive = polish(documents, Labels(start, weight), data.n_clusters, weight, 3)
    model = LeafModel(mixture, documents.effective.bursty, words, np.arange(len(alive)))
    return model.assign(corpus), None


def control_kmeans(data, seed):
    """Our polish from k-means on tf-idf + LSA."""
    return _control(kmeans_lsa(data, seed)[0], data)


def control_random(data, seed):
    """Our polish from random labels."""
    return _control(np.random.default_rng(seed).integers(data.n_clusters, size=data.counts.shape[0]), data)


def control_sidiwo(data, seed):
    """Our polish from flat SIDIWO (Jacobi sweeps) on the counts as they are: one split of as many ways as clusters."""
    import jax

    import hmom_jax as hm

    corpus = hm.Corpus.from_counts(data.counts, data.vocabulary)
    found = hm.cluster(corpus, data.n_clusters, decompose=partial(hm.sidiwo, solver="jacobi"), key=jax.random.key(seed))
    return _control(np.asarray(found.labels), data)


TOOLS = {
    "robust": ("ours, robust", robust),
    "robust_before_polish": ("ours, before the final polish", robust_before_polish),
    "paper": ("ours, the paper's tree", paper),
    "kmeans_tfidf": ("k-means, tf-idf", kmeans_tfidf),
    "kmeans_lsa": ("k-means, tf-idf + LSA", kmeans_lsa),
    "kmeans_lsa_once": ("k-means, tf-idf + LSA, one start", kmeans_lsa_once),
    "bisecting_tfidf": ("bisecting k-means, tf-idf", bisecting_tfidf),
    "bisecting_lsa": ("bisecting k-means, tf-idf + LSA", bisecting_lsa),
    "nmf": ("NMF (scikit-learn)", nmf),
    "lda": ("LDA (scikit-learn)", lda),
    "tomotopy_lda": ("LDA (tomotopy, 200 iterations)", tomotopy_lda),
    "tomotopy_hlda": ("hLDA (tomotopy)", tomotopy_hlda),
    "control_kmeans": ("control: our polish from k-means LSA", control_kmeans),
    "control_random": ("control: our polish from random", control_random),
    "control_sidiwo": ("control: our polish from flat SIDIWO", control_sidiwo),
}


# ---------------------------------------------------------------- one run, in its own process
def _dendrogram(model, labels):
    """Return something with the nodes that dendrogram purity asks for."""
    import hmom_jax as hm

    if model is None or isinstance(model, hm.Tree):
        return model
    nodes, doc_node = [], np.zeros(len(labels), int)

    def walk(part, parent, depth):  # scikit-learn's own tree of bisections
        number = len(nodes)
        node = hm.Node(number, parent, depth, 0, 0.0, np.ones(1))
        nodes.append(node)
        if part.left is None:
            doc_node[labels == part.label] = number
        else:
            node.children = (walk(part.left, number, depth + 1), walk(part.right, number, depth + 1))
        return number

    walk(model._bisecting_tree, None, 0)
    return hm.Tree(nodes, np.array(["-"]), doc_node, np.ones(1), "other")


def one_run(tool: str, corpus: str, seed: int, folder: Path) -> dict:
    """Run a tool once and score it."""
    import resource

    from hmom_jax import Corpus, metrics

    data = load_labelled(corpus, folder)
    start = time.perf_counter()
    labels, model = TOOLS[tool][1](data, seed)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = {
        "nmi": metrics.normalized_mutual_info_score(data.labels, labels),
        "ari": metrics.adjusted_rand_score(data.labels, labels),
        "clusters": len(np.unique(labels)),
        "seconds": seconds,
        "peak_gib": peak,
    }
    dendrogram = _dendrogram(model, labels)
    if dendrogram is not None:
        row |= {f"purity_{key}": metrics.dendrogram_purity(dendrogram, y) for key, y in data.hierarchical.items()}
    words = _top_words(data, labels)
    row["npmi"] = metrics.npmi_coherence(words, Corpus.from_counts(data.counts, data.vocabulary))
    row["diversity"] = metrics.topic_diversity(words)
    return row


def _top_words(data, labels, n: int = 10):
    """Return the words of highest relevance in each cluster, the same way for every tool."""
    everything = np.asarray(data.counts.sum(axis=0, dtype=np.float64)).ravel() + 1e-9
    topics = []
    for label in np.unique(labels):
        inside = np.asarray(data.counts[labels == label].sum(axis=0, dtype=np.float64)).ravel()
        if inside.sum() == 0:
            continue
        p = inside / inside.sum()
        score = np.where(p > 0, np.log(np.maximum(p, 1e-300)) - 0.3 * np.log(everything / everything.sum()), -np.inf)
        topics.append(data.vocabulary[np.argsort(-score, kind="stable")[:n]].tolist())
    return topics


# ---------------------------------------------------------------- all runs
def _spawn(tool, corpus, seed, folder, limit):
    return in_child([__file__, "--one", tool, corpus, seed, "--data", folder], limit)


NOTE = (
    "Rows may come from runs on different days, machines and loads: scores can be compared, seconds cannot. "
    "Times measured side by side: speed.md."
)


def _table(rows: dict) -> str:
    """Return NMI by tool and corpus as Markdown, the best in bold, and seconds below."""
    corpora = list(dict.fromkeys(corpus for _, corpus in rows))
    tools = list(dict.fromkeys(tool for tool, _ in rows))
    mean = lambda cell, key: np.mean([run[key] for run in cell if key in run]) if any(key in r for r in cell) else None
    lines = ["| NMI (seconds) | " + " | ".join(corpora) + " |", "|---" * (len(corpora) + 1) + "|"]
    best = {c: max((mean(rows[t, c], "nmi") or 0 for t in tools if (t, c) in rows), default=0) for c in corpora}
    for tool in tools:
        cells = []
        for corpus in corpora:
            score = mean(rows.get((tool, corpus), []), "nmi")
            if score is None:
                cells.append(next((run["failed"] for run in rows.get((tool, corpus), [])), ""))
                continue
            text = f"{score:.3f}"
            text = f"**{text}**" if score == best[corpus] else text
            cells.append(f"{text} ({mean(rows[tool, corpus], 'seconds'):.1f})")
        lines.append(f"| {TOOLS[tool][0]} | " + " | ".join(cells) + " |")
    extra = [key for key in ("ari", "npmi", "diversity", "peak_gib", "purity_labels", "purity_labels_coarse")]
    lines += ["", "| corpus | tool | clusters | " + " | ".join(extra) + " |", "|---" * (len(extra) + 3) + "|"]
    for (tool, corpus), cell in rows.items():
        values = [mean(cell, key) for key in ("clusters", *extra)]
        lines.append(
            f"| {corpus} | {TOOLS[tool][0]} | " + " | ".join("" if v is None else f"{v:.3g}" for v in values) + " |"
        )
    return "\n".join(lines)


def _plot(rows: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    corpora = list(dict.fromkeys(corpus for _, corpus in rows))
    tools = list(dict.fromkeys(tool for tool, _ in rows))
    figure, axes = plt.subplots(1, len(corpora), figsize=(2.1 * len(corpora) + 3, 0.33 * len(tools) + 1.2), sharey=True)
    for axis, corpus in zip(np.atleast_1d(axes), corpora, strict=True):
        for place, tool in enumerate(reversed(tools)):
            runs = [run["nmi"] for run in rows.get((tool, corpus), []) if "nmi" in run]
            colour = "#1b6ca8" if tool == "robust" else "#999999" if not tool.startswith("control") else "#d08c2e"
            if runs:
                axis.barh(place, np.mean(runs), color=colour)
                axis.plot(runs, [place] * len(runs), "k.", markersize=3)
        axis.set_title(corpus, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_yticks(range(len(tools)), [TOOLS[tool][0] for tool in reversed(tools)], fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("NMI with the labels (dots: seeds)", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=default_folder())
    parser.add_argument("--corpora", default=",".join(LABELLED))
    parser.add_argument("--tools", default=",".join(tool for tool in TOOLS if tool != "kmeans_lsa_once"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one run")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "quality")
    parser.add_argument("--one", nargs=3, metavar=("TOOL", "CORPUS", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        tool, corpus, seed = options.one
        print(json.dumps(one_run(tool, corpus, int(seed), options.data)))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    saved = options.out.with_suffix(".json")
    rows = {}
    if saved.exists():  # rows of earlier runs stay, so that the table can be filled bit by bit
        rows = {tuple(key.split("/")): value for key, value in json.loads(saved.read_text()).items()}
    for corpus in options.corpora.split(","):
        for tool in options.tools.split(","):
            rows[tool, corpus] = []
            for seed in range(options.seeds):
                run = _spawn(tool, corpus, seed, options.data, options.limit)
                rows[tool, corpus].append(run)
                print(corpus, tool, seed, run, file=sys.stderr, flush=True)
                if "failed" in run:
                    break
            saved.write_text(json.dumps({"/".join(key): value for key, value in rows.items()}, indent=1) + "\n")
    rows = {(t, c): rows[t, c] for c in LABELLED for t in TOOLS if (t, c) in rows}
    table = _table(rows)
    options.out.with_suffix(".md").write_text(f"{NOTE}\n\n{table}\n")
    _plot(rows, options.out.with_suffix(".png"))
    print(table)


if __name__ == "__main__":
    main()
