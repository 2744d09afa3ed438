"""The arms of BiomedRAG's chapters without an LLM: what labels, words, names and blanks decide by themselves.

The classifiers do not weight rare classes up: the measure is micro F1, which does not either.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from helpers.indexes import TextIndex
from helpers.neighbours import Query, Result, Search, no_check, replay_or_search, text_digest
from helpers.vectors import Encoder
from papers.biomedrag.arms import Arm, Prediction, given
from papers.biomedrag.corpora import Corpus, Example, Triple
from rag.prompts import each


def floor_arms(corpus: Corpus, encoder: Encoder) -> dict[str, Arm]:
    """The arms without a language model.

    Of triples, four are given the gold pair, and two find it: by blanks, or by names known from training.
    """
    if corpus.task == "triples":
        labelled = floor_arms(
            replace(corpus, task="relations"), encoder
        )  # a classifier then reads the pair
        given_pair = {name: with_gold_pair(arm) for name, arm in labelled.items()}
        return given_pair | {
            "blanks": PairReader(corpus.train),
            "names": PairReader(corpus.train, blanks=False),
        }
    arms = {
        "majority": majority(corpus),
        "nearest": nearest_label(corpus, encoder),
        "tfidf": tfidf(corpus),
        "encoded": encoded(corpus, encoder),
    }
    if corpus.task == "links":
        arms |= {"pair": pair_classifier(corpus), "pair_new": pair_classifier(corpus, new=True)}
    return arms


def majority(corpus: Corpus) -> Arm:
    """The commonest label of the training split, always."""
    label = Counter(e.label for e in corpus.train).most_common(1)[0][0]
    return lambda examples: [Prediction(label) for _ in examples]


def nearest_label(corpus: Corpus, encoder: Encoder) -> Arm:
    """The label of the training example whose vector is nearest."""
    index = TextIndex([given(example, corpus.task) for example in corpus.train], encoder)

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        nearest = index.nearest([given(example, corpus.task) for example in examples], 1)
        return [Prediction(corpus.train[rows[0]].label) for rows in nearest]

    return answer


def tfidf(corpus: Corpus) -> Arm:
    """Logistic regression on TF-IDF of words and pairs of words."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        LogisticRegression(max_iter=300, tol=1e-3, C=10.0),
    )
    return _classifier(model, corpus, lambda examples: [given(e, corpus.task) for e in examples])


def encoded(corpus: Corpus, encoder: Encoder) -> Arm:
    """Logistic regression on the encoder's vectors."""
    return EncodedClassifier(corpus, encoder)


class EncodedClassifier:
    """Logistic regression on an encoder's vectors: an `Arm`.

    Predictions are stored; it learns when one is not.
    """

    def __init__(self, corpus: Corpus, encoder: Encoder) -> None:
        """Take the training split; nothing is encoded yet."""
        self.corpus = corpus
        self.encoder = encoder
        self.labels = sorted({example.label for example in corpus.train})

    @cached_property
    def model(self) -> LogisticRegression:
        """The classifier, trained now."""
        model = LogisticRegression(max_iter=1000, tol=1e-3, C=10.0)
        vectors = self.encoder.encode(self._texts(self.corpus.train), progress=False)
        return model.fit(vectors, [example.label for example in self.corpus.train])

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Predict the label of each example."""
        train = self.corpus.train
        digest = text_digest([*self._texts(train), *(example.label for example in train)])
        search = Search("logistic regression", self.encoder.digest, digest, len(train))
        results = replay_or_search(search, self._texts(examples), self._predict, no_check)
        return [Prediction(self.labels[result.ids[0]]) for result in results]

    def _predict(self, queries: Sequence[Query]) -> list[Result]:
        """The place of each text's label among the labels."""
        model = self.model
        vectors = self.encoder.encode([str(text) for text in queries], progress=False)
        results = []
        for label in model.predict(vectors):
            results.append(Result(np.array([self.labels.index(str(label))])))
        return results

    def _texts(self, examples: Sequence[Example]) -> list[str]:
        return [given(example, self.corpus.task) for example in examples]


def _classifier(
    model: LogisticRegression | Pipeline,
    corpus: Corpus,
    features: Callable[[Sequence[Example]], list[str]],
) -> Arm:
    model.fit(features(corpus.train), [e.label for e in corpus.train])
    return lambda examples: [Prediction(str(label)) for label in model.predict(features(examples))]


# The released GIT and ChemProt texts set blanks around the two entities of the gold triple: "of  depression  of".
# The blanks after an entity are taken with it, for they begin no other.
_MARKED = re.compile(
    r"(?:^ | {2,}|(?<=[(\[{/-]) )(\S(?:[^ ]| (?! ))*?)(?: {2,}| (?=[)\]}/,.;:-]| ?$)| ?$)"
)


def marked_entities(text: str) -> list[str]:
    """Stretches of a text that stand between more blanks than a sentence needs, each once, in their order."""
    return list(dict.fromkeys(match.group(1).strip() for match in _MARKED.finditer(text)))


def marks_the_pair(example: Example) -> bool:
    """Whether the blanks of a sentence single out exactly the entities of its gold triple."""
    gold = {name for t in example.triples for name in (t.head, t.tail)}
    return set(marked_entities(example.text)) == {name.strip() for name in gold}


class PairReader:
    """Reads a triple off a sentence without any language model: an `Arm`.

    The pair is what the blanks mark; where they mark fewer than two names, names of the training triples fill up.
    Relation and order of the two are predicted together, by a linear classifier on TF-IDF of the sentence in which both
    names are replaced by place-holders. Without `blanks`, known names alone are used.
    """

    def __init__(self, train: Sequence[Example], *, blanks: bool = True) -> None:
        """Learn names, relations and orders from training examples with triples."""
        self._blanks = blanks
        triples = [(e, t) for e in train for t in e.triples]
        self._names = {
            name.lower().strip() for _, t in triples for name in (t.head, t.tail) if len(name) > 2
        }
        self._longest = max((len(name.split()) for name in self._names), default=1)
        texts, targets = [], []
        for example, t in triples:
            head_first = example.text.find(t.head) <= example.text.find(t.tail)
            texts.append(
                _masked(example.text, (t.head, t.tail) if head_first else (t.tail, t.head))
            )
            targets.append(f"{t.relation}|{'forward' if head_first else 'back'}")
        # ten times as fast as logistic regression, for two labels a relation
        self._model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 3), min_df=2, sublinear_tf=True), LinearSVC()
        )
        self._model.fit(texts, targets)

    def pair(self, text: str) -> tuple[str, str] | None:
        """The first two names, in the order of the text; None where fewer are found."""
        found = marked_entities(text) if self._blanks else []
        if len(found) < 2:
            found = list(dict.fromkeys([*found, *self._known(text)]))
        return (found[0], found[1]) if len(found) > 1 else None

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """One triple an example, or none where no pair was found."""
        pairs = [self.pair(e.text) for e in examples]
        masked = [_masked(e.text, pair) for e, pair in zip(examples, pairs, strict=True) if pair]
        targets = iter(self._model.predict(masked) if masked else ())
        answers = []
        for pair in pairs:
            if pair is None:
                answers.append(Prediction(None))
                continue
            relation, _, order = str(next(targets)).rpartition("|")
            head, tail = pair if order == "forward" else pair[::-1]
            answers.append(Prediction(relation, (Triple(head, relation, tail),)))
        return answers

    def _known(self, text: str) -> list[str]:
        tokens = [(m.start(), m.end()) for m in re.finditer(r"[^\s,.;:()\[\]]+", text)]
        names, at = [], 0
        while at < len(tokens):
            for size in range(min(self._longest, len(tokens) - at), 0, -1):
                name = text[tokens[at][0] : tokens[at + size - 1][1]]
                if name.lower() in self._names:
                    names.append(name)
                    at += size - 1
                    break
            at += 1
        return list(dict.fromkeys(names))


def _masked(text: str, pair: tuple[str, str]) -> str:
    return text.replace(pair[0], " firstname ").replace(pair[1], " secondname ")


def with_gold_pair(arm: Arm) -> Arm:
    """An arm that predicts a relation, completed to a triple by the gold pair: not a system, but an upper line."""
    return each(
        arm,
        lambda e: e,
        lambda e, p: Prediction(
            p.label, tuple(Triple(t.head, p.label or "", t.tail) for t in e.triples)
        ),
    )


def pair_classifier(corpus: Corpus, *, new: bool = False) -> Arm:
    """Logistic regression on which name is the head and which the tail: it knows no word and no meaning.

    With `new` it never answers a relation that training states of the same pair. The triples of a knowledge graph are
    distinct, so a pair that is met again has another relation: the filtered setting of link prediction.
    """
    model = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=500, C=3.0))
    model.fit([_names(e) for e in corpus.train], [e.label for e in corpus.train])
    labels = [str(label) for label in model.classes_]
    known: dict[str, set[str]] = defaultdict(set)
    for example in corpus.train:
        known[example.text].add(example.label)

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        chances = model.predict_proba([_names(e) for e in examples])
        if new:
            chances = np.where(
                [[label in known[e.text] for label in labels] for e in examples], -1.0, chances
            )
        return [Prediction(labels[best]) for best in chances.argmax(axis=1)]

    return answer


def known_names(corpus: Corpus, rows: Sequence[Example]) -> list[bool]:
    """Of each row, whether training has its head and its tail."""
    names = {name for e in corpus.train for t in e.triples for name in (t.head, t.tail)}
    return [
        bool(e.triples) and all(n in names for t in e.triples for n in (t.head, t.tail))
        for e in rows
    ]


def _names(example: Example) -> dict[str, int]:
    return {
        f"{end} {name}": 1
        for t in example.triples
        for end, name in (("head", t.head), ("tail", t.tail))
    }
