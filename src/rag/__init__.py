"""Parts that more than one paper uses: passages, retrieval, reranking, names, text-to-Cypher, prompts, ask boxes."""
