"""Ask for fewer topics than there are: how well do the pseudo-topics group the true ones?

Claim: SIDIWO's pseudo-topics stay close to the best grouping of the true topics when l < k.

    python -m bench.misspecified [--seeds 10]

Two kinds of truth, k from 5 to 50 topics over 200 words, l = 5 asked for, exact moments and moments of 2000
documents of 100 words:

- *planted*: five groups, each topic half its group's words and half its own; score: ARI of the grouping of topics;
- *unstructured*: independent topics, no right answer; score: information that the grouping keeps about the words,
  relative to the best grouping found with the topics known (k-means with the Kullback-Leibler divergence).

A topic belongs to the pseudo-topic that gives its documents the highest likelihood.
"""

import argparse

import matplotlib
import numpy as np
from sklearn.metrics import adjusted_rand_score

import hmom_jax as hm
from bench.common import COLOURS, METHODS, RESULTS, machine, markdown, write

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_WORDS, RANK, MOST = 200, 5, 50
SIZES = (5, 10, 20, 30, 40, 50)
N_DOCS, DOC_LENGTH = 2000, 100


def main() -> None:
    """Run every method on every kind, size and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    n_seeds = parser.parse_args().seeds
    scores = {}
    for kind, draw in {"planted": planted, "unstructured": unstructured}.items():
        for size in SIZES:
            for seed in range(n_seeds):
                rng = np.random.default_rng([seed, size])
                topics, weights, groups = draw(rng, size)
                score = score_function(kind, topics, weights, groups, rng)
                for source, moments in (("exact", exact(topics, weights)), ("sampled", sampled(rng, topics, weights))):
                    for name, method in METHODS.items():
                        found = method(moments, RANK)
                        place = assign(topics, np.asarray(found.topics, float), np.asarray(found.weights, float))
                        scores.setdefault((kind, source, name), {}).setdefault(size, []).append(score(place))
    panels = [(kind, source) for kind in ("planted", "unstructured") for source in ("exact", "sampled")]
    parts = [
        "# Fewer topics than there are (l = 5)",
        f"Means over {n_seeds} models. Machine: {machine()}.",
    ]
    for kind, source in panels:
        rows = [[name, *(f"{np.mean(scores[kind, source, name][k]):.3f}" for k in SIZES)] for name in METHODS]
        what = "ARI of the grouping" if kind == "planted" else "information kept, relative to the best grouping known"
        parts += [f"**{kind}, {source} moments**: {what}", markdown(["method", *(f"k = {k}" for k in SIZES)], rows)]
    data = {"machine": machine(), "scores": {" / ".join(key): value for key, value in scores.items()}}
    write("misspecified", "\n\n".join(parts), data)
    plot(panels, scores)


def planted(rng, size):
    """Draw topics in five groups; each is half its group's distribution, half its own."""
    groups = np.arange(size) % RANK
    bases = rng.dirichlet(np.full(N_WORDS, 0.3), RANK).T
    topics = 0.5 * bases[:, groups] + 0.5 * rng.dirichlet(np.full(N_WORDS, 0.3), size).T
    return topics, rng.dirichlet(np.full(size, 5.0)), groups


def unstructured(rng, size):
    """Draw independent topics."""
    return rng.dirichlet(np.full(N_WORDS, 0.3), size).T, rng.dirichlet(np.full(size, 5.0)), None


def exact(topics, weights):
    """Return exact moments, padded with topics of weight zero: one shape, one compilation for all sizes."""
    pad = MOST - len(weights)
    return hm.population_moments(
        np.pad(topics, ((0, 0), (0, pad))).astype(np.float32), np.pad(weights, (0, pad)).astype(np.float32)
    )


def sampled(rng, topics, weights):
    """Return the moments of a corpus drawn from the model."""
    per_topic = rng.multinomial(N_DOCS, weights)
    counts = [rng.multinomial(DOC_LENGTH, topics[:, j], size=n) for j, n in enumerate(per_topic)]
    return hm.single_topic_moments(hm.Corpus.from_counts(np.concatenate(counts)))


def assign(topics, pseudo, weights):
    """Return the likeliest pseudo-topic for documents of each topic."""
    pseudo = np.maximum(pseudo, 1e-6)
    return np.argmax(DOC_LENGTH * topics.T @ np.log(pseudo / pseudo.sum(0)) + np.log(weights), axis=1)


def score_function(kind, topics, weights, groups, rng):
    """Return how a grouping of the topics is scored."""
    if kind == "planted":
        return lambda place: adjusted_rand_score(groups, place)
    best = information(topics, weights, best_grouping(topics, weights, rng))
    return lambda place: information(topics, weights, place) / best


def information(topics, weights, place) -> float:
    """Return the mutual information between group and word."""
    mean = topics @ weights
    total = 0.0
    for group in np.unique(place):
        mass = weights[place == group].sum()
        inside = topics[:, place == group] @ weights[place == group] / mass
        total += mass * np.sum(inside * np.log(inside / mean))
    return float(total)


def best_grouping(topics, weights, rng, n_starts: int = 30):
    """Group known topics by k-means with the Kullback-Leibler divergence, the best of several starts."""
    best, kept = None, -np.inf
    for _ in range(n_starts):
        centres = topics[:, rng.choice(topics.shape[1], RANK, replace=False)]
        for _ in range(30):
            place = np.argmax(topics.T @ np.log(centres), axis=1)
            for group in np.unique(place):
                inside = place == group
                centres[:, group] = topics[:, inside] @ weights[inside] / weights[inside].sum()
        value = information(topics, weights, place)
        if value > kept:
            best, kept = place, value
    return best


def plot(panels, scores) -> None:
    """Draw a panel for each kind of truth and source of moments."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.5), layout="constrained", sharex=True, sharey="row")
    for (kind, source), panel in zip(panels, axes.flat, strict=True):
        for name in METHODS:
            lines = scores[kind, source, name]
            mean = [np.mean(lines[k]) for k in SIZES]
            strong = name == "SIDIWO"
            panel.plot(
                SIZES, mean, "o-", color=COLOURS[name], label=name, linewidth=2.5 if strong else 1.3,
                markersize=5 if strong else 3.5, zorder=3 if strong else 2,
            )  # fmt: skip
        panel.set_title(f"{kind} topics, {source} moments")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    for panel in axes[1]:
        panel.set_xlabel("true topics k (5 asked for)")
    axes[0, 0].set_ylabel("ARI of the grouping")
    axes[1, 0].set_ylabel("information kept / best grouping")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False)
    figure.savefig(RESULTS / "misspecified.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
