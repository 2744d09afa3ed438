"""Encoders and rerankers of passages (clinical_notes.md, "Cross-encoder reranking")."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence

import numpy as np

from helpers.indexes import cached_index
from helpers.rag.rerank import INSTALL, Floats, Integers
from helpers.vectors import DEFAULT_ENCODER, Encoder, EncoderUnavailable, encoder
from papers.clinical_notes.passages import Chunk

PAPER_ENCODER, PAPER_RERANKER = "emilyalsentzer/Bio_ClinicalBERT", "michiyasunaga/BioLinkBERT-base"


def encoders(name: str, reranker: str = "") -> tuple[Encoder, Encoder]:
    """The encoder that searches and the one that reranks: the same if the second has no name. Ask for them first.

    Raises:
        EncoderUnavailable: what they need is not installed, or a model cannot be loaded.
    """
    from_hub = [wanted for wanted in dict.fromkeys((name, reranker or name)) if wanted != DEFAULT_ENCODER]
    if from_hub and importlib.util.find_spec("sentence_transformers") is None:
        raise EncoderUnavailable(
            f"{' and '.join(from_hub)}: sentence-transformers is needed and not installed. Type in the project's "
            f"folder: {INSTALL}. Or take {DEFAULT_ENCODER!r}, which needs nothing more."
        )
    searching = encoder(name)
    return searching, encoder(reranker) if reranker and reranker != name else searching


class MeanPooled:
    """The paper's reranker: cosine of mean-pooled encodings of question and passage.

    The paper also says that the two are processed jointly and that the score is that of the [CLS] token.
    BioLinkBERT-base allows only this reading: it was never trained to score pairs. With the encoder of FAISS, it is the
    semantic score once more, but for the generic names that the search adds to the question.
    """

    def __init__(self, chunks: Sequence[Chunk], of: Encoder, *, progress: bool = True) -> None:
        """Encode the passages, or load their vectors if they were encoded before."""
        self.name, self.model = f"mean-pooled {of.name}", of.name
        self._encoder = of
        self._index = cached_index("clinical-notes", [c.text for c in chunks], of, progress=progress)

    def score(self, question: str, rows: Integers) -> Floats:
        """Cosines, within -1 and 1."""
        vector = self._encoder.encode([question], progress=False)
        scores, found = self._index.search(vector, len(rows), within=rows)
        of_row = dict(zip(found[0].tolist(), scores[0].tolist(), strict=True))
        return np.array([of_row[row] for row in rows.tolist()])


class BestSentence:
    """Cosine of the question with the passage's best sentence, in place of a mean of doses, history and plans."""

    def __init__(self, chunks: Sequence[Chunk], of: Encoder, *, progress: bool = True) -> None:
        """Cut the passages into sentences and encode these."""
        self.name, self.model = f"best sentence, {of.name}", of.name
        self._encoder = of
        sentences = [_sentences(chunk.text) for chunk in chunks]
        self._index = cached_index(
            "clinical-sentences", [s for of_chunk in sentences for s in of_chunk], of, progress=progress
        )
        ends = np.cumsum([len(of_chunk) for of_chunk in sentences])
        self._spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    def score(self, question: str, rows: Integers) -> Floats:
        """Cosines, within -1 and 1."""
        spans = [self._spans[row] for row in rows.tolist()]
        within = np.concatenate([np.arange(a, b) for a, b in spans])
        vector = self._encoder.encode([question], progress=False)
        scores, found = self._index.search(vector, len(within), within=within)
        of_sentence = np.full(self._index.size, -1.0)
        of_sentence[found[0]] = scores[0]
        return np.array([of_sentence[a:b].max() for a, b in spans])


def _sentences(text: str) -> list[str]:
    """Sentences and lines of a text; the text itself if it has none."""
    parts = [part.strip() for part in re.split(r"(?<=[.?!])\s+|\n+", text)]
    return [part for part in parts if len(part) > 2] or [text]
