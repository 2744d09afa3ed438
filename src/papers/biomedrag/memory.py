"""Relational key-value memory, chunk retriever and diversity of BiomedRAG.

The validation split becomes the memory: each of its sentences is cut into chunks, and the two
chunks nearest to the description of the sentence's label are keys with that label as their value.
An input is cut in the same way, each of its chunks retrieves the nearest key, and permutations of
these keys are the documents that the scorer chooses from (biomedrag.md, section 4.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, permutations
from typing import Any

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

N_KEYS = 2
"""Chunks of a sentence that become keys (section 4.2.1)."""
WHOLE_INPUTS = 10
"""Pairs that a task retrieves whose key is the whole input, n in section 4.2.1."""


@dataclass(frozen=True)
class Shot:
    """One example that a prompt may hold: a key and the label that is its value.

    Attributes:
        text: The key, a chunk or a whole input.
        label: The value.
        triples: Triples of the sentence that the key is from.
        source: Id of that sentence.
        is_whole_input: Whether the key is the whole input.
    """

    text: str
    label: str
    triples: tuple[Triple, ...]
    source: str
    is_whole_input: bool


@dataclass(frozen=True)
class Document:
    """What the scorer weighs and the prompt shows: one shot, or several in an order."""

    shots: tuple[Shot, ...]

    @property
    def text(self) -> str:
        """Keys and values as the encoder reads them."""
        return " ".join(f"{shot.text} {shot.label}" for shot in self.shots)


def chunks(text: str, words: int) -> list[str]:
    """Cut a text into consecutive chunks of nearly equal length.

    A text of w words gives v = max(1, w // m) chunks, so that none is shorter than m words unless
    the text is (section 4.2.1: m = w / v; the released code cuts in the same way).

    Args:
        text: The text.
        words: m, words of a chunk.

    Raises:
        ValueError: m is not positive.
    """
    if words < 1:
        raise ValueError(f"A chunk needs at least one word; got m = {words}.")
    tokens = text.split()
    if not tokens:
        return []
    n_chunks = max(1, len(tokens) // words)
    parts = np.array_split(np.array(tokens, dtype=object), n_chunks)
    return [" ".join(part) for part in parts]


class Memory:
    """The relational key-value memory M of section 4.2.1, and its retriever.

    Attributes:
        examples: The sentences.
        encoder: Encoder of sentences and chunks.
        words: m, words of a chunk; with 0 the keys are whole inputs (tasks that are not "heavily
            reliant on noise").
        shots: The key-value pairs.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        descriptions: Mapping[str, str],
        encoder: Encoder,
        words: int,
    ) -> None:
        """Make the memory of labelled examples.

        Args:
            examples: Labelled examples, at least one; the paper takes the validation split.
            descriptions: T(l), the description of each label.
            encoder: Encoder of sentences and chunks.
            words: m, words of a chunk; 0 for whole inputs.

        Raises:
            ValueError: There is no example, or a label has no description.
        """
        if not examples:
            raise ValueError(
                "A memory needs labelled examples, and there is none. Give it the validation split."
            )
        missing = sorted({example.label for example in examples} - set(descriptions))
        if missing:
            raise ValueError(
                f"Labels without a description: {', '.join(missing)}. "
                "The retriever compares with it."
            )
        self.examples = tuple(examples)
        self.encoder = encoder
        self.words = words
        self.shots = self._chunk_shots(descriptions) if words else tuple(map(whole_shot, examples))
        self._keys = TextIndex([shot.text for shot in self.shots], encoder)
        self._sentences = TextIndex([example.text for example in examples], encoder)
        self._texts = {example.id: same_text(example.text) for example in examples}

    @cached_property
    def digest(self) -> str:
        """Digest of what decides which shots a text retrieves."""
        sentences = [self._texts[shot.source] for shot in self.shots]
        return text_digest([self._keys.digest, self._sentences.digest, *sentences])

    def _replay(self, operation: str, texts: Sequence[str], find: Find) -> list[NDArray[np.int64]]:
        search = Search(operation, self.encoder.digest, self.digest, len(self.examples))
        return [result.ids for result in replay_or_search(search, texts, find, no_check)]

    def _search_others(
        self,
        index: TextIndex,
        sources: Sequence[str],
        vectors: Floats,
        texts: Sequence[str],
        n: int,
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Find the `n` nearest rows of an index that are not of the query's own sentence.

        A sentence does not retrieve itself, as in the authors' released prompts. A pair of entities
        may: it can have several relations.

        Args:
            index: The index to search.
            sources: Id of the example that each row of the index is from.
            vectors: Vectors of the queries.
            texts: The sentence that each query is from.
            n: Number of rows for each query.

        Returns:
            Scores and rows, both of shape (n_queries, n).
        """
        if self.words:
            row_texts = np.array([self._texts[source] for source in sources])
            query_texts = np.array([same_text(text) for text in texts])
            max_own = int(np.unique(row_texts, return_counts=True)[1].max())
            scores, rows = index.index.search(vectors, n + max_own)
            is_own = row_texts[rows] == query_texts[:, None]
        else:
            scores, rows = index.index.search(vectors, n)
            is_own = rows < 0
        order = np.argsort(is_own, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _chunk_shots(self, descriptions: Mapping[str, str]) -> tuple[Shot, ...]:
        """Take the `N_KEYS` chunks of each sentence nearest to the description of its label."""
        queries = [(e.text, descriptions[e.label], str(self.words)) for e in self.examples]
        search = Search("label chunks", self.encoder.digest, texts="", size=len(queries))
        find = self._nearest_chunks
        results = replay_or_search(search, queries, find, check_by_repeating(find))
        shots = []
        for example, result in zip(self.examples, results, strict=True):
            parts = chunks(example.text, self.words)
            for row in result.ids:
                shot = Shot(parts[row], example.label, example.triples, example.id, False)
                shots.append(shot)
        return tuple(shots)

    def _nearest_chunks(self, queries: Sequence[Query]) -> list[Result]:
        """Find a sentence's chunks that are nearest to a description, the nearest first."""
        chunks_by_query = [chunks(query[0], self.words) for query in queries]
        descriptions = self.encoder.encode([query[1] for query in queries], progress=False)
        vectors = self._encode_chunks(chunks_by_query)
        results = []
        for own_vectors, description in zip(vectors, descriptions, strict=True):
            nearness = own_vectors @ description
            # the order of equally near chunks is that of the sentence
            nearest = np.argsort(-nearness, kind="stable")[:N_KEYS]
            results.append(Result(nearest))
        return results

    def _encode_chunks(self, chunks_by_query: Sequence[Sequence[str]]) -> list[Floats]:
        """Encode the chunks of each query, all at once."""
        vectors = self.encoder.encode(_concatenate(chunks_by_query), progress=False)
        return _split(vectors, [len(parts) for parts in chunks_by_query])

    def retrieve(self, texts: Sequence[str], n: int = WHOLE_INPUTS) -> list[list[Shot]]:
        """Retrieve A_x of each text: the nearest key of each of its chunks.

        Args:
            texts: The inputs.
            n: Number of keys if keys are whole inputs.

        Returns:
            The keys of each text, each once, the nearest first.
        """
        if self.words:
            matches = self._replay(f"keys of chunks {self.words}", texts, self._keys_of_chunks)
        else:
            matches = self._keys.nearest(texts, n)
        return [self._shots_of(rows) for rows in matches]

    def _shots_of(self, rows: Iterable[int]) -> list[Shot]:
        return [self.shots[row] for row in rows]

    def _keys_of_chunks(self, queries: Sequence[Query]) -> list[Result]:
        """Find the nearest key of each chunk of a text, the nearest first, each key once."""
        chunks_by_query = [chunks(str(text), self.words) for text in queries]
        sizes = [len(parts) for parts in chunks_by_query]
        vectors = self.encoder.encode(_concatenate(chunks_by_query), progress=False)
        sentences = []
        for text, n_chunks in zip(queries, sizes, strict=True):
            sentences += [str(text)] * n_chunks
        sources = [shot.source for shot in self.shots]
        scores, rows = self._search_others(self._keys, sources, vectors, sentences, 1)
        scores_by_query = _split(scores[:, 0], sizes)
        rows_by_query = _split(rows[:, 0], sizes)
        results = []
        for own_scores, own_rows in zip(scores_by_query, rows_by_query, strict=True):
            # rounding must not order chunks that are keys
            best = np.argsort(-own_scores.round(5), kind="stable")
            keys = list(dict.fromkeys(own_rows[best].tolist()))
            results.append(Result(np.array(keys, dtype=np.int64)))
        return results

    def nearest(self, texts: Sequence[str], n: int = 1) -> list[list[Shot]]:
        """Retrieve the `n` nearest whole (sentence, label) pairs of each text.

        That is d0 for n = 1, and what RA-KNN-n shows.
        """
        find = partial(self._nearest_sentences, n=n)
        matches = self._replay(f"other sentences {n} {bool(self.words)}", texts, find)
        return [self._whole_shots_of(rows) for rows in matches]

    def _nearest_sentences(self, queries: Sequence[Query], n: int) -> list[Result]:
        texts = [str(text) for text in queries]
        vectors = self.encoder.encode(texts, progress=False)
        sources = [example.id for example in self.examples]
        _, rows = self._search_others(self._sentences, sources, vectors, texts, n)
        return [Result(own_rows) for own_rows in rows]

    def _whole_shots_of(self, rows: Iterable[int]) -> list[Shot]:
        return [whole_shot(self.examples[row]) for row in rows]

    def candidates(
        self, texts: Sequence[str], *, diverse: bool = True, permuted: int = 2
    ) -> list[list[Document]]:
        """Make the documents of each text that the scorer chooses from.

        They are d0, then permutations of the retrieved pairs (section 4.2.2).

        Args:
            texts: The inputs.
            diverse: False makes each retrieved pair a document of its own (ablation WD).
            permuted: Number of best pairs to permute. The number of documents grows as its
                factorial, and each costs a request.

        Returns:
            The distinct documents of each text.
        """
        candidates = []
        for nearest, pairs in zip(self.nearest(texts), self.retrieve(texts), strict=True):
            documents = [Document((nearest[0],))]
            if diverse:
                documents += permute(pairs[:permuted])
            else:
                documents += [Document((pair,)) for pair in pairs]
            candidates.append(list(dict.fromkeys(documents)))
        return candidates


def _concatenate(lists: Iterable[Iterable[str]]) -> list[str]:
    return list(chain.from_iterable(lists))


def _split(values: NDArray[Any], sizes: Sequence[int]) -> list[NDArray[Any]]:
    """Split an array into parts of the given sizes."""
    ends = np.cumsum(sizes)
    return np.split(values, ends)[:-1]


@dataclass(frozen=True)
class Nearest:
    """Chooses the n nearest sentences of a memory for each input, the nearest last.

    Source: RA-KNN-n of section 2.2.
    """

    memory: Memory
    n: int

    @property
    def taught(self) -> tuple[object, ...]:
        """What decides the choice, as in a `Retriever`."""
        return "nearest", self.n, self.memory.encoder.name

    def __call__(self, examples: Sequence[Example]) -> list[Document]:
        """Join the sentences for each example into one document."""
        if not self.n:
            return [Document(()) for _ in examples]
        texts = [example.text for example in examples]
        documents = []
        for shots in self.memory.nearest(texts, self.n):
            nearest_last = tuple(reversed(shots))
            documents.append(Document(nearest_last))
        return documents


def memory_of(corpus: Corpus, encoder: Encoder, *, words: int = 5) -> Memory:
    """Make the memory of a corpus (section 4.2.1).

    Keys are chunks of so many words, or whole inputs for link prediction.
    """
    chunk_words = 0 if corpus.task == "links" else words
    return Memory(corpus.validation, corpus.labels, encoder, chunk_words)


def whole_shot(example: Example) -> Shot:
    """Make a shot of an example's whole input."""
    return Shot(example.text, example.label, example.triples, example.id, True)


def permute(shots: Sequence[Shot]) -> list[Document]:
    """Make a document of every ordered selection of the shots, the shorter first.

    Two shots give four documents (section 4.2.2).
    """
    documents = []
    for size in range(1, len(shots) + 1):
        documents += [Document(selection) for selection in permutations(shots, size)]
    return documents


def pair_vectors(
    texts: Sequence[str], documents: Sequence[Sequence[Document]], encoder: Encoder
) -> tuple[Floats, list[Floats]]:
    """Encode inputs and their documents.

    Returns:
        E(x) of all inputs, of shape (n_inputs, dimension), and E(d) of each input's documents, of
        shape (n_documents, dimension).
    """
    document_texts = [document.text for document in chain.from_iterable(documents)]
    vectors = encoder.encode([*texts, *document_texts], progress=False)
    sizes = [len(own_documents) for own_documents in documents]
    inputs, *document_vectors = _split(vectors, [len(texts), *sizes])
    return inputs, document_vectors
