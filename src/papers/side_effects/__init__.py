"""Drug side effects: retrieval over SIDER as text and as a graph.

Printed numbers and claims: data/published/side_effects.yml.
"""
