"""The thin shared module of the notebooks: clients of Neo4j, of LLM servers and of FAISS.

A notebook imports the modules listed here and uses the names in their `__all__`. The
other modules of the package are parts of these five.
"""

__all__ = ["documents", "graph", "indexes", "llm", "vectors"]
