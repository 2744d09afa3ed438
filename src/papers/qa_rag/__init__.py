"""QA-RAG: regulatory questions answered from guidance by two tracks (qa_rag.md)."""
