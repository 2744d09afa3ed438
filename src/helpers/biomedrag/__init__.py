"""BiomedRAG (biomedrag.md): corpora, relational memory, tailored chunk scorer, arms, and what a run reports."""
