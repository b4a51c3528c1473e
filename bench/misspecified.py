"""Ask for fewer topics than there are, and see how well the pseudo-topics group the true ones.

Claim of the paper: SIDIWO's pseudo-topics stand for groups of topics when l < k, where earlier spectral methods promise
nothing. Measured here: SIDIWO does, and so do most of the others when they are tuned as well.

    python -m bench.misspecified [--seeds 10]

Two kinds of truth, k from 5 to 50 topics over 200 words, l = 5 asked for, exact moments and moments of 2000
documents of 100 words:

- *planted*: five groups, each topic half its group's words and half its own; score: ARI of the grouping of topics;
- *unstructured*: independent topics, no right answer; score: information that the grouping keeps about the words,
  relative to the best grouping known (all methods' and random ones, each improved by moving one topic at a time).

A topic belongs to the pseudo-topic that gives its documents the highest likelihood.
"""

import argparse
import sys

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
                places = {}
                for source, moments in (("exact", exact(topics, weights)), ("sampled", sampled(rng, topics, weights))):
                    for name, method in METHODS.items():
                        found = method(moments, RANK)
                        place = assign(topics, np.asarray(found.topics, float), np.asarray(found.weights, float))
                        places[source, name] = place
                if kind == "unstructured":
                    tried = [*places.values(), *rng.integers(0, RANK, (10, size))]
                    best = max(improved_information(topics, weights, place) for place in tried)
                for (source, name), place in places.items():
                    if kind == "planted":
                        score = adjusted_rand_score(groups, place)
                    else:
                        score = information(topics, weights, place) / best
                    scores.setdefault((kind, source, name), {}).setdefault(size, []).append(score)
            print(f"{kind} topics, k = {size}: done", file=sys.stderr, flush=True)
    panels = [(kind, source) for kind in ("planted", "unstructured") for source in ("exact", "sampled")]
    overall = {
        name: np.mean([scores["unstructured", source, name][k] for source in ("exact", "sampled") for k in SIZES[1:]])
        for name in METHODS
    }
    parts = [
        "# Fewer topics than there are (l = 5)",
        f"Means over {n_seeds} models. Machine: {machine()}.",
        "On unstructured topics, k > 5, over all rows below: "
        + ", ".join(f"{name} {overall[name]:.3f}" for name in sorted(overall, key=lambda name: -overall[name]))
        + ".",
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


def information(topics, weights, place) -> float:
    """Return the mutual information between group and word."""
    return float(_shares(topics, weights, np.eye(RANK)[place].T).sum()) - _entropy_part(topics @ weights)


def improved_information(topics, weights, place) -> float:
    """Return the information after moving single topics between groups for as long as that adds some."""
    member = np.eye(RANK)[place].T
    value = _shares(topics, weights, member)
    while True:
        best_gain, move = 1e-12, None
        for topic in range(topics.shape[1]):
            old = member[:, topic].argmax()
            moved = member.copy()
            moved[:, topic] = 0
            without = _shares(topics, weights, moved[old : old + 1])[0]
            moved[:, topic] = 1
            gains = without - value[old] + _shares(topics, weights, moved) - value
            gains[old] = 0
            if gains.max() > best_gain:
                best_gain, move = gains.max(), (topic, gains.argmax())
        if move is None:
            return float(value.sum()) - _entropy_part(topics @ weights)
        member[:, move[0]] = 0
        member[move[1], move[0]] = 1
        value = _shares(topics, weights, member)


def _shares(topics, weights, member):
    """Return the sum over words of p(group, word) log p(word | group), for each group."""
    joint = member * weights @ topics.T
    mass = joint.sum(1, keepdims=True)
    return np.sum(joint * np.log(np.maximum(joint, 1e-300) / np.maximum(mass, 1e-300)), axis=1)


def _entropy_part(probability) -> float:
    return float(np.sum(probability * np.log(probability)))


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
