"""Models: each supplies a moment operator that the decompositions work on."""

from hmom_jax.models.moments import DenseMoments, Moments
from hmom_jax.models.population import PopulationMoments, population_moments
from hmom_jax.models.single_topic import SingleTopicMoments, single_topic_moments
from hmom_jax.models.sketch import MomentSketch, add_sketches, random_block, sketch_moments, sketched_eigenpairs

__all__ = [
    "DenseMoments",
    "MomentSketch",
    "Moments",
    "PopulationMoments",
    "SingleTopicMoments",
    "add_sketches",
    "population_moments",
    "random_block",
    "single_topic_moments",
    "sketch_moments",
    "sketched_eigenpairs",
]
