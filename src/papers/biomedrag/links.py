"""Link prediction without words: what the names of head and tail decide by themselves (biomedrag.md, section 4.1.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from papers.biomedrag.arms import Arm, Prediction
from papers.biomedrag.corpora import Corpus, Example


def pair_classifier(corpus: Corpus, *, new: bool = False) -> Arm:
    """Logistic regression on which name is the head and which the tail: it knows no word and no meaning.

    Args:
        corpus: of links.
        new: never answer a relation that training states of the same pair. The triples of a knowledge graph are
            distinct, so a pair that is met again has another relation; link prediction knows this as the filtered
            setting.
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
            stated = [[label in known[e.text] for label in labels] for e in examples]
            chances = np.where(stated, -1.0, chances)
        return [Prediction(labels[best]) for best in chances.argmax(axis=1)]

    return answer


def known_names(corpus: Corpus, rows: Sequence[Example]) -> list[bool]:
    """Of each row, whether training has its head and its tail."""
    names = {name for e in corpus.train for t in e.triples for name in (t.head, t.tail)}
    return [bool(e.triples) and all(n in names for t in e.triples for n in (t.head, t.tail)) for e in rows]


def _names(example: Example) -> dict[str, int]:
    return {f"{end} {name}": 1 for t in example.triples for end, name in (("head", t.head), ("tail", t.tail))}
