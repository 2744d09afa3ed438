"""Clinical notes: charts with known truth, registry, hybrid retrieval, answers.

`data/published/clinical_notes.yml` declares the paper's numbers and claims.
"""
