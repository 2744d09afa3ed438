"""What several papers use: prompts, retrieval, names, text to Cypher."""
