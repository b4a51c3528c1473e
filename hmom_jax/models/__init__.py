"""Models: each supplies a moment operator that the decompositions work on."""

from hmom_jax.models.moments import DenseMoments, Moments
from hmom_jax.models.population import PopulationMoments, population_moments
from hmom_jax.models.single_topic import SingleTopicMoments, single_topic_moments

__all__ = [
    "DenseMoments",
    "Moments",
    "PopulationMoments",
    "SingleTopicMoments",
    "population_moments",
    "single_topic_moments",
]
