"""Drug interactions: text to graph to answer (data/published/drug_interactions.yml)."""
