"""The names by which notebook 17 imports `helpers.similarity`."""

from helpers.similarity import bertscore_arms, sentence_similarity_arms

__all__ = ["bertscore_arms", "sentence_similarity_arms"]
