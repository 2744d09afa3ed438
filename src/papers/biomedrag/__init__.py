"""BiomedRAG (biomedrag.md): corpora, scoring, released files, the method and its reports."""
