"""Is one document of BiomedRAG shorter than several sentences (biomedrag.md, section 2.2)?

The authors release the prompts of their answers for GIT, each with BiomedRAG's document, and the
prompts with the nearest sentence (RA-KNN-1), but none with several sentences. What several
sentences have in words is therefore bounded: the nearest one is known, and the others are rows of
the validation split.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from evaluation import figures
from evaluation.answers import Answer
from evaluation.decisions import Decision, Part
from evaluation.outcomes import Comparison, Outcomes
from evaluation.vocabulary import Tested
from papers.biomedrag.corpora import Corpus
from papers.biomedrag.released import Choice, documents_in_prompts
from papers.biomedrag.scoring import same_text

SEVERAL: Final = 5
"""The least n of several sentences."""
_DOCUMENT: Final = "document"
_FEWEST: Final = "fewest"
_MOST: Final = "most"
_LABELS: Final = {
    _DOCUMENT: "BiomedRAG's document in a prompt of the released answers",
    _FEWEST: f"{SEVERAL} sentences, at least",
    _MOST: f"{SEVERAL} sentences, at most",
}
_MEASURE: Final = "document_words"


def of_released_prompts(nearest: Sequence[Choice], corpus: Corpus, draws: int) -> Outcomes:
    """Count the words of BiomedRAG's document and of several sentences in prompts for GIT.

    Args:
        nearest: The released choices of the nearest sentence, in the order of the answers.
        corpus: GIT.
        draws: Bootstrap samples of the intervals.

    Raises:
        DataUnavailable: No source has the file of the answers.
    """
    documents = documents_in_prompts()
    validation = [example.text for example in corpus.validation]
    rows = list(word_counts(documents, nearest, validation))
    return Outcomes(rows, labels=_LABELS, draws=draws)


def word_counts(
    documents: Sequence[str], nearest: Sequence[Choice], validation: Sequence[str]
) -> Iterator[Answer]:
    """Yield the words of the document, and the least and the most of several sentences.

    Args:
        documents: BiomedRAG's document in each prompt.
        nearest: The nearest sentence for each prompt.
        validation: The sentences from which RA-KNN-n retrieves.
    """
    others = sorted(map(_n_words, validation))
    n_fewest = sum(others[: SEVERAL - 1])
    n_most = sum(others[1 - SEVERAL :])
    for i, (document, choice) in enumerate(zip(documents, nearest, strict=True)):
        n_nearest = _n_words(choice.document)
        counts = {
            _DOCUMENT: _n_words(document),
            _FEWEST: n_nearest + n_fewest,
            _MOST: n_nearest + n_most,
        }
        cluster = same_text(choice.sentence)
        for arm, n_words in counts.items():
            measures = {_MEASURE: (float(n_words), 1.0)}
            yield Answer(arm, str(i), source="released", measures=measures, cluster=cluster)


def decision(out: Outcomes) -> Decision:
    """Decide whether the documents have fewer words than several sentences.

    Returns:
        "agrees" if they are shorter than the least that several sentences can have; "differs" if
        they are longer than the most; otherwise "inconclusive".
    """
    pairs = [(_DOCUMENT, _FEWEST), (_DOCUMENT, _MOST)]
    at_least, at_most = out.compare(pairs, _MEASURE)
    document, fewest = (figures.number(score.value, "ratio", digits=1) for score in at_least.scores)
    several = figures.in_words(SEVERAL)
    why = (
        f"The example in a prompt of the released answers for GIT has {document} words on average, "
        "with the head and tail that stand around a chunk. "
        f"{several.capitalize()} sentences would together have at "
        f"least {fewest} words on average. The difference is {_words_text(at_least)} "
        f"(n = {at_least.test.n:,} prompts). Of the {several} sentences, the released prompts show "
        "only the nearest one, so the shortest sentences of the validation split stand in for the "
        f"others. With the longest sentences in their place, the difference is "
        f"{_words_text(at_most)}. We do not count labels."
    )
    tested = _tested(at_least, at_most)
    label = f"{_LABELS[_DOCUMENT]} minus {_LABELS[_FEWEST]}, words"
    part = Part(at_least.test, lambda _: tested, label, "count", 0.0)
    return Decision(tested, why, estimates=(part.estimate(),))


def _tested(at_least: Comparison, at_most: Comparison) -> Tested:
    """Decide by the differences from the least and the most words of several sentences."""
    if at_least.test.high < 0:
        return "agrees"
    return "differs" if at_most.test.low > 0 else "inconclusive"


def _n_words(text: str) -> int:
    return len(text.split())


def _words_text(comparison: Comparison) -> str:
    test = comparison.test
    texts = [figures.signed(value, 1) for value in (test.difference, test.low, test.high)]
    return f"{texts[0]} [{texts[1]}, {texts[2]}] words"
