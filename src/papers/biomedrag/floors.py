"""The arms of BiomedRAG's chapters without an LLM.

They show what labels, words, names and blanks decide by themselves. The classifiers do not weight
rare classes up: the measure is micro F1, which does not either.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from helpers.indexes import TextIndex
from helpers.neighbours import Query, Result, Search, no_check, replay_or_search, text_digest
from helpers.vectors import Encoder
from papers.biomedrag.arms import Arm, Prediction, input_text
from papers.biomedrag.corpora import Corpus, Example, Triple

Pair = tuple[str, str]
"""Two names."""


def floor_arms(corpus: Corpus, encoder: Encoder) -> dict[str, Arm]:
    """Make the arms without a language model.

    Of triples, four are given the gold pair, and two find it: by blanks, or by names known from
    training.
    """
    if corpus.task == "triples":
        # a classifier of relations reads the pair
        labelled = floor_arms(replace(corpus, task="relations"), encoder)
        arms: dict[str, Arm] = {name: WithGoldPair(arm) for name, arm in labelled.items()}
        arms["blanks"] = PairReader(corpus.train)
        arms["names"] = PairReader(corpus.train, blanks=False)
        return arms
    arms = {
        "majority": MajorityBaseline(corpus),
        "nearest": NearestLabel(corpus, encoder),
        "tfidf": TfidfClassifier(corpus),
        "encoded": EncodedClassifier(corpus, encoder),
    }
    if corpus.task == "links":
        arms["pair"] = PairClassifier(corpus)
        arms["pair_new"] = PairClassifier(corpus, new=True)
    return arms


def _input_texts(examples: Sequence[Example], corpus: Corpus) -> list[str]:
    return [input_text(example, corpus.task) for example in examples]


def _labels(examples: Sequence[Example]) -> list[str]:
    return [example.label for example in examples]


@dataclass(frozen=True)
class MajorityBaseline:
    """The commonest label of the training split, always."""

    corpus: Corpus

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the same label for each example."""
        counts = Counter(_labels(self.corpus.train))
        label = counts.most_common(1)[0][0]
        return [Prediction(label) for _ in examples]


class NearestLabel:
    """The label of the training example whose vector is nearest."""

    def __init__(self, corpus: Corpus, encoder: Encoder) -> None:
        """Index the training split."""
        self.corpus = corpus
        self.index = TextIndex(_input_texts(corpus.train, corpus), encoder)

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the label of each example."""
        nearest = self.index.nearest(_input_texts(examples, self.corpus), 1)
        return [Prediction(self.corpus.train[rows[0]].label) for rows in nearest]


class TfidfClassifier:
    """Logistic regression on TF-IDF of words and pairs of words."""

    def __init__(self, corpus: Corpus) -> None:
        """Learn from the training split."""
        self.corpus = corpus
        self.model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
            LogisticRegression(max_iter=300, tol=1e-3, C=10.0),
        )
        self.model.fit(_input_texts(corpus.train, corpus), _labels(corpus.train))

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the label of each example."""
        labels = self.model.predict(_input_texts(examples, self.corpus))
        return [Prediction(str(label)) for label in labels]


class EncodedClassifier:
    """Logistic regression on an encoder's vectors.

    Predictions are stored; it learns when one is not.
    """

    def __init__(self, corpus: Corpus, encoder: Encoder) -> None:
        """Take the training split; nothing is encoded yet."""
        self.corpus = corpus
        self.encoder = encoder
        self.labels = sorted(set(_labels(corpus.train)))

    @cached_property
    def model(self) -> LogisticRegression:
        """The classifier, trained now."""
        train = self.corpus.train
        model = LogisticRegression(max_iter=1000, tol=1e-3, C=10.0)
        vectors = self.encoder.encode(_input_texts(train, self.corpus), progress=False)
        return model.fit(vectors, _labels(train))

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the label of each example."""
        train = self.corpus.train
        digest = text_digest([*_input_texts(train, self.corpus), *_labels(train)])
        search = Search("logistic regression", self.encoder.digest, digest, len(train))
        texts = _input_texts(examples, self.corpus)
        results = replay_or_search(search, texts, self._predict, no_check)
        return [Prediction(self.labels[result.ids[0]]) for result in results]

    def _predict(self, queries: Sequence[Query]) -> list[Result]:
        """Find the position of each text's label among the labels."""
        model = self.model
        vectors = self.encoder.encode([str(text) for text in queries], progress=False)
        results = []
        for label in model.predict(vectors):
            position = self.labels.index(str(label))
            results.append(Result(np.array([position])))
        return results


# The released GIT and ChemProt texts set blanks around the two entities of the gold triple:
# "of  depression  of". The blanks after an entity belong to its match, for they begin no other.
_MARKED = re.compile(
    r"(?:^ | {2,}|(?<=[(\[{/-]) )(\S(?:[^ ]| (?! ))*?)(?: {2,}| (?=[)\]}/,.;:-]| ?$)| ?$)"
)


def marked_entities(text: str) -> list[str]:
    """Find the stretches of a text between more blanks than a sentence needs.

    Returns:
        The distinct stretches, in the order of the text.
    """
    stretches = [match.group(1).strip() for match in _MARKED.finditer(text)]
    return list(dict.fromkeys(stretches))


def marks_the_pair(example: Example) -> bool:
    """Whether the blanks of a sentence single out exactly the entities of its gold triple."""
    gold = {name.strip() for name in _entity_names([example])}
    return set(marked_entities(example.text)) == gold


def _entity_names(examples: Iterable[Example]) -> list[str]:
    """Return the head and the tail of each triple."""
    names = []
    for example in examples:
        for triple in example.triples:
            names += [triple.head, triple.tail]
    return names


class PairReader:
    """Reads a triple off a sentence without any language model.

    The pair is what the blanks mark; where they mark fewer than two names, names of the training
    triples are added. A linear classifier predicts the relation and the order of the two together,
    on TF-IDF of the sentence in which place-holders replace both names.
    """

    def __init__(self, train: Sequence[Example], *, blanks: bool = True) -> None:
        """Learn names, relations and orders.

        Args:
            train: Training examples with triples.
            blanks: Whether blanks are used; else known names alone.
        """
        self._blanks = blanks
        names = [name for name in _entity_names(train) if len(name) > 2]
        self._names = {name.lower().strip() for name in names}
        n_words = [len(name.split()) for name in self._names]
        self._max_words = max(n_words, default=1)
        # ten times as fast as logistic regression, for two labels a relation
        self._model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 3), min_df=2, sublinear_tf=True), LinearSVC()
        )
        texts, targets = [], []
        for example in train:
            for triple in example.triples:
                text, target = _masked_triple(example.text, triple)
                texts.append(text)
                targets.append(target)
        self._model.fit(texts, targets)

    def pair(self, text: str) -> Pair | None:
        """Find the first two names, in the order of the text; None where fewer are found."""
        names = marked_entities(text) if self._blanks else []
        if len(names) < 2:
            names = list(dict.fromkeys([*names, *self._known(text)]))
        return (names[0], names[1]) if len(names) > 1 else None

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict one triple an example, or none where no pair was found."""
        pairs = {row: self.pair(example.text) for row, example in enumerate(examples)}
        found = {row: pair for row, pair in pairs.items() if pair is not None}
        masked = [_masked(examples[row].text, pair) for row, pair in found.items()]
        predictions = [Prediction(None) for _ in examples]
        if not masked:
            return predictions
        for (row, pair), target in zip(found.items(), self._model.predict(masked), strict=True):
            relation, _, order = str(target).rpartition("|")
            head, tail = pair if order == "forward" else pair[::-1]
            predictions[row] = Prediction(relation, (Triple(head, relation, tail),))
        return predictions

    def _known(self, text: str) -> list[str]:
        """Find the names of training in a text, of those that overlap the first and longest."""
        tokens = [(m.start(), m.end()) for m in re.finditer(r"[^\s,.;:()\[\]]+", text)]
        names = []
        position = 0
        while position < len(tokens):
            size = self._known_size(text, tokens[position:])
            if size > 0:
                start, end = tokens[position][0], tokens[position + size - 1][1]
                names.append(text[start:end])
            position += max(size, 1)
        return list(dict.fromkeys(names))

    def _known_size(self, text: str, tokens: Sequence[tuple[int, int]]) -> int:
        """Count the tokens of the longest known name that begins at the first; 0 if none does."""
        for size in range(min(self._max_words, len(tokens)), 0, -1):
            name = text[tokens[0][0] : tokens[size - 1][1]]
            if name.lower() in self._names:
                return size
        return 0


def _masked_triple(text: str, triple: Triple) -> Pair:
    """Return the masked text, and the relation with the order of its entities."""
    head_first = text.find(triple.head) <= text.find(triple.tail)
    if head_first:
        return _masked(text, (triple.head, triple.tail)), f"{triple.relation}|forward"
    return _masked(text, (triple.tail, triple.head)), f"{triple.relation}|back"


def _masked(text: str, pair: Pair) -> str:
    return text.replace(pair[0], " firstname ").replace(pair[1], " secondname ")


@dataclass(frozen=True)
class WithGoldPair:
    """An arm that predicts a relation, completed to a triple by the gold pair.

    It is no system, but an upper line.
    """

    arm: Arm

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict one triple for each gold pair."""
        completed = []
        for example, prediction in zip(examples, self.arm(examples), strict=True):
            relation = prediction.label or ""
            triples = tuple(replace(triple, relation=relation) for triple in example.triples)
            completed.append(Prediction(prediction.label, triples))
        return completed


class PairClassifier:
    """Logistic regression on the names of head and tail: it knows no word and no meaning."""

    def __init__(self, corpus: Corpus, *, new: bool = False) -> None:
        """Learn from the training split.

        Args:
            corpus: The data set.
            new: Never to answer a relation that training states of the same pair. The triples of a
                knowledge graph are distinct, so a pair that is met again has another relation: the
                filtered setting of link prediction.
        """
        self.new = new
        self.model = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=500, C=3.0))
        features = [_name_features(example) for example in corpus.train]
        self.model.fit(features, _labels(corpus.train))
        self.labels = [str(label) for label in self.model.classes_]
        self.known: dict[str, set[str]] = defaultdict(set)
        for example in corpus.train:
            self.known[example.text].add(example.label)

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the label of each example."""
        features = [_name_features(example) for example in examples]
        probabilities = self.model.predict_proba(features)
        if self.new:
            is_known = [self._is_known(example) for example in examples]
            probabilities = np.where(is_known, -1.0, probabilities)
        return [Prediction(self.labels[best]) for best in probabilities.argmax(axis=1)]

    def _is_known(self, example: Example) -> list[bool]:
        """Whether training states each label of the example's pair."""
        known = self.known.get(example.text, set())
        return [label in known for label in self.labels]


def known_names(corpus: Corpus, rows: Sequence[Example]) -> list[bool]:
    """Return for each row whether training has its head and its tail."""
    known = set(_entity_names(corpus.train))
    return [bool(row.triples) and known.issuperset(_entity_names([row])) for row in rows]


def _name_features(example: Example) -> dict[str, int]:
    features = {}
    for triple in example.triples:
        features[f"head {triple.head}"] = 1
        features[f"tail {triple.tail}"] = 1
    return features
