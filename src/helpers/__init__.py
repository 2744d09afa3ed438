"""The thin shared module of the notebooks: Neo4j, vLLM, FAISS, and what every experiment needs."""
