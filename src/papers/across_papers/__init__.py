"""Across the papers: one set of questions for the retrieval of all of them.

They share one model and one knowledge.
"""
