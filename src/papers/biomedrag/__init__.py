"""BiomedRAG (biomedrag.md): corpora, scoring, what is released, the method and its notebooks' reports."""
