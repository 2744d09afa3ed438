"""Drug side effects: retrieval over SIDER as text and as a graph (data/published/side_effects.yml)."""
