"""The retrieval side of BiomedRAG (biomedrag.md, section 4.2): relational key-value memory, chunk retriever, diversity.

The validation split becomes the memory: each of its sentences is cut into chunks, and the two chunks nearest to the
description of the sentence's label are keys with that label as their value. An input is cut alike, each of its chunks
fetches the nearest key, and permutations of what came back are the documents that the scorer chooses from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from helpers.indexes import TextIndex
from helpers.neighbours import (
    Find,
    Query,
    Result,
    Search,
    check_by_repeating,
    no_check,
    replay_or_search,
    text_digest,
)
from helpers.vectors import Encoder, Floats
from papers.biomedrag.corpora import Corpus, Example, Triple
from papers.biomedrag.scoring import same_text

KEYS = 2  # chunks of a sentence that become keys (section 4.2.1)
WHOLE_INPUTS = 10
"""Pairs that a task retrieves whose key is the whole input, n in section 4.2.1."""


@dataclass(frozen=True)
class Shot:
    """One example that a prompt may hold: a key (a chunk, or a `whole` input) and the label that is its value.

    `triples` are those of the sentence that the key was taken from, and `source` is its id.
    """

    text: str
    label: str
    triples: tuple[Triple, ...]
    source: str
    whole: bool


@dataclass(frozen=True)
class Document:
    """What the scorer weighs and the prompt shows: one shot, or several joined in an order."""

    shots: tuple[Shot, ...]

    @property
    def text(self) -> str:
        """Keys and values in words, as the encoder reads them."""
        return " ".join(f"{shot.text} {shot.label}" for shot in self.shots)


def chunks(text: str, words: int) -> list[str]:
    """Cut a text into consecutive chunks of nearly equal length.

    A text of w words gives v = max(1, w // m) chunks, m being `words`, so that none is shorter unless the text is
    (section 4.2.1: m = w / v; the released code cuts in the same way).

    Raises ValueError: m is not positive.
    """
    if words < 1:
        raise ValueError(f"A chunk needs at least one word; got m = {words}.")
    tokens = text.split()
    if not tokens:
        return []
    return [
        " ".join(part)
        for part in np.array_split(np.array(tokens, dtype=object), max(1, len(tokens) // words))
    ]


class Memory:
    """The relational key-value memory M of section 4.2.1, and its retriever.

    `shots` are the key-value pairs and `examples` their sentences. A chunk has `words` words, m; 0: keys are whole
    inputs (tasks that are not "heavily reliant on noise").
    """

    def __init__(
        self,
        examples: Sequence[Example],
        descriptions: Mapping[str, str],
        encoder: Encoder,
        words: int,
    ) -> None:
        """Make the memory of labelled examples; the paper takes the validation split.

        `descriptions` are T(l), each label in words.

        Raises ValueError: there is no example, or a label has no description.
        """
        if not examples:
            raise ValueError(
                "A memory needs labelled examples, and there is none. Give it the validation split."
            )
        if missing := sorted({e.label for e in examples} - set(descriptions)):
            raise ValueError(
                f"Labels without a description: {', '.join(missing)}. The retriever compares with it."
            )
        self.examples, self.encoder, self.words = tuple(examples), encoder, words
        self.shots = self._chunked(descriptions) if words else tuple(map(whole_shot, examples))
        self._keys = TextIndex([shot.text for shot in self.shots], encoder)
        self._sentences = TextIndex([example.text for example in examples], encoder)
        self._texts = {e.id: same_text(e.text) for e in examples}

    @cached_property
    def digest(self) -> str:
        """Digest of what decides which shots a text retrieves."""
        sentences = [self._texts[shot.source] for shot in self.shots]
        return text_digest([self._keys.digest, self._sentences.digest, *sentences])

    def _replay(self, operation: str, texts: Sequence[str], find: Find) -> list[NDArray[np.int64]]:
        search = Search(operation, self.encoder.digest, self.digest, len(self.examples))
        return [result.ids for result in replay_or_search(search, texts, find, no_check)]

    def _others(
        self, index: TextIndex, ids: Sequence[str], vectors: Floats, texts: Sequence[str], n: int
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and rows, of the examples `ids`, of the `n` nearest to each vector that is of a sentence in `texts`.

        A sentence does not retrieve itself, as in the authors' released prompts. A pair of entities may: it can have
        several relations.
        """
        of = np.array([self._texts[id] for id in ids])
        most = int(np.unique(of, return_counts=True)[1].max()) if self.words else 0
        scores, rows = index.index.search(vectors, n + most)
        own = (
            of[rows] == np.array([same_text(text) for text in texts])[:, None] if most else rows < 0
        )
        order = np.argsort(own, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _chunked(self, descriptions: Mapping[str, str]) -> tuple[Shot, ...]:
        """The `KEYS` chunks of each sentence that are nearest to the description of its label."""
        queries = [(e.text, descriptions[e.label], str(self.words)) for e in self.examples]
        search = Search("label chunks", self.encoder.digest, texts="", size=len(queries))
        find = self._nearest_chunks
        results = replay_or_search(search, queries, find, check_by_repeating(find))
        shots = []
        for example, result in zip(self.examples, results, strict=True):
            parts = chunks(example.text, self.words)
            for row in result.ids:
                shots.append(Shot(parts[row], example.label, example.triples, example.id, False))
        return tuple(shots)

    def _nearest_chunks(self, queries: Sequence[Query]) -> list[Result]:
        """Places of a sentence's chunks that are nearest to a description, the nearest first."""
        cut = [chunks(query[0], self.words) for query in queries]
        descriptions = self.encoder.encode([query[1] for query in queries], progress=False)
        flat = [chunk for parts in cut for chunk in parts]
        vectors = self.encoder.encode(flat, progress=False)
        results, start = [], 0
        for parts, description in zip(cut, descriptions, strict=True):
            nearness = vectors[start : start + len(parts)] @ description
            start += len(parts)
            # the order of equally near chunks is that of the sentence
            results.append(Result(np.argsort(-nearness, kind="stable")[:KEYS]))
        return results

    def retrieve(self, texts: Sequence[str], n: int = WHOLE_INPUTS) -> list[list[Shot]]:
        """A_x of each text: the nearest key of each of its chunks, the nearest first, each key once.

        Where keys are whole inputs, it is the `n` nearest.
        """
        if self.words:
            found = self._replay(f"keys of chunks {self.words}", texts, self._keys_of_chunks)
        else:
            found = self._keys.nearest(texts, n)
        return [[self.shots[row] for row in rows] for rows in found]

    def _keys_of_chunks(self, queries: Sequence[Query]) -> list[Result]:
        """The nearest key of each chunk of a text, the nearest first, each key once."""
        cut = [chunks(str(text), self.words) for text in queries]
        flat = [chunk for parts in cut for chunk in parts]
        vectors = self.encoder.encode(flat, progress=False)
        sentences = [str(text) for text, parts in zip(queries, cut, strict=True) for _ in parts]
        sources = [shot.source for shot in self.shots]
        scores, rows = self._others(self._keys, sources, vectors, sentences, 1)
        results, start = [], 0
        for parts in cut:
            part = slice(start, start + len(parts))
            start += len(parts)
            # rounding must not order chunks that are keys
            best = np.argsort(-scores[part, 0].round(5), kind="stable")
            keys = list(dict.fromkeys(rows[part, 0][best].tolist()))
            results.append(Result(np.array(keys, dtype=np.int64)))
        return results

    def nearest(self, texts: Sequence[str], n: int = 1) -> list[list[Shot]]:
        """The `n` nearest whole (sentence, label) pairs of each text: d0 for n = 1, and what RA-KNN-n shows."""

        def find(queries: list[Query]) -> list[Result]:
            own = [str(text) for text in queries]
            vectors = self.encoder.encode(own, progress=False)
            ids = [example.id for example in self.examples]
            _, rows = self._others(self._sentences, ids, vectors, own, n)
            return [Result(of_text) for of_text in rows]

        found = self._replay(f"other sentences {n} {bool(self.words)}", texts, find)
        return [[whole_shot(self.examples[row]) for row in rows] for rows in found]

    def candidates(
        self, texts: Sequence[str], *, diverse: bool = True, permuted: int = 2
    ) -> list[list[Document]]:
        """The database of each text that the scorer chooses from: d0, then permutations of what the retriever found.

        The best `permuted` pairs take part in the permutation (section 4.2.2): the number of documents grows as its
        factorial, and each costs a request. Not `diverse`, each retrieved pair is a document of its own (ablation WD).
        """
        joined = [
            [
                Document((nearest[0],)),
                *(permute(pairs[:permuted]) if diverse else [Document((p,)) for p in pairs]),
            ]
            for nearest, pairs in zip(self.nearest(texts), self.retrieve(texts), strict=True)
        ]
        return [list(dict.fromkeys(documents)) for documents in joined]


@dataclass(frozen=True)
class Nearest:
    """Chooses the n nearest sentences of a memory for each input, the nearest last: RA-KNN-n (section 2.2)."""

    memory: Memory
    n: int

    @property
    def taught(self) -> tuple[object, ...]:
        """What decides the choice, as of a `Retriever`."""
        return "nearest", self.n, self.memory.encoder.name

    def __call__(self, examples: Sequence[Example]) -> list[Document]:
        """The sentences as one document of each example."""
        near = (
            self.memory.nearest([e.text for e in examples], self.n)
            if self.n
            else [[] for _ in examples]
        )
        return [Document(tuple(reversed(of_x))) for of_x in near]


def memory_of(corpus: Corpus, encoder: Encoder, *, words: int = 5) -> Memory:
    """The memory of a corpus: chunks of `words` words as keys, and whole inputs for link prediction (section 4.2.1)."""
    return Memory(corpus.validation, corpus.labels, encoder, 0 if corpus.task == "links" else words)


def whole_shot(example: Example) -> Shot:
    """An example as a shot of its whole input."""
    return Shot(example.text, example.label, example.triples, example.id, True)


def permute(shots: Sequence[Shot]) -> list[Document]:
    """Every ordered selection of the shots, the shorter first: two shots give four documents (section 4.2.2)."""
    return [
        Document(taken) for size in range(1, len(shots) + 1) for taken in permutations(shots, size)
    ]


def pair_vectors(
    texts: Sequence[str], documents: Sequence[Sequence[Document]], encoder: Encoder
) -> tuple[Floats, list[Floats]]:
    """E(x) of each input, and E(d) of its documents: one array of shape (documents, dimension) an input."""
    vectors = encoder.encode(
        [*texts, *(d.text for of_one in documents for d in of_one)], progress=False
    )
    ends = np.cumsum([len(texts), *(len(of_one) for of_one in documents)])
    inputs, *of_documents = np.split(vectors, ends[:-1])
    return inputs, of_documents
