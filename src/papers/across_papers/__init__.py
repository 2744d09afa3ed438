"""Across the papers: one set of questions through the retrieval of all of them, on one model and one knowledge."""
