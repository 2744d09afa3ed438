"""How much of the runs shown was replayed from what is stored, and what repeating it gave.

A run replays stored replies of language models and stored results of searches by meaning. With
`ANSWERS=check` it makes a sample of both again and counts the equal results; see
`helpers.recheck` and `helpers.neighbours`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.records import STORED_TIMES, Record

SEARCHES: Final = "searches by meaning"
"""The step of a record that counts searches."""


REPLY_NOUNS: Final = ("reply", "replies")
RESULT_NOUNS: Final = ("result", "results")


@dataclass(frozen=True)
class Replayed:
    """Counts of requests or of searches.

    Attributes:
        total: Distinct ones.
        stored: Those whose result was stored.
        repeated: Stored ones that were made again.
        same: Those among them with an equal result.
    """

    total: int = 0
    stored: int = 0
    repeated: int = 0
    same: int = 0

    def __add__(self, other: "Replayed") -> "Replayed":
        """Return the counts of both."""
        return Replayed(
            self.total + other.total,
            self.stored + other.stored,
            self.repeated + other.repeated,
            self.same + other.same,
        )

    def share(self) -> str:
        """Say how many were stored."""
        if self.stored == self.total:
            return f"all {self.total:,}"
        if not self.stored:
            return f"none of {self.total:,}"
        # rounded down, for "100 %" would be all
        per_mille = 1000 * self.stored // self.total
        return f"{self.stored:,} of {self.total:,} ({per_mille / 10:.1f} %)"

    def matched(self) -> str:
        """Say how many of the repeated ones had an equal result."""
        return "all" if self.same == self.repeated else f"{self.same:,}"


def replies_of(record: Record) -> Replayed:
    """Count the requests of a run to language models."""
    tokens = record.provenance.tokens
    checked, same = tokens.get("checked", 0), tokens.get("same", 0)
    return Replayed(tokens["requests"], tokens["cached"], checked, same)


def searches_of(record: Record) -> Replayed:
    """Count the searches by meaning of a run."""
    searches = Replayed()
    for step in record.provenance.timings:
        if step.name == SEARCHES:
            names = ("queries", "stored", "checked", "same")
            counts = [int(step.counts.get(name, 0)) for name in names]
            searches += Replayed(*counts)
    return searches


def total_of(counts: Iterable[Replayed]) -> Replayed:
    """Add counts of several runs."""
    return sum(counts, start=Replayed())


def replayed_sentences(records: Sequence[Record]) -> str:
    """Say how much of some runs was replayed, and how much of it was equal when made again.

    It is empty if the runs asked and searched nothing.
    """
    replies = total_of(map(replies_of, records))
    searches = total_of(map(searches_of, records))
    shares = []
    if replies.total:
        shares.append(f"{replies.share()} replies")
    if searches.total:
        shares.append(f"{searches.share()} searches")
    if not shares:
        return ""
    outcomes = _repeated_sentences(replies, searches)
    if any(map(_has_stored_times, records)):
        outcomes.append("The times of questions asked one at a time come from an earlier run.")
    share = " and ".join(shares)
    return " ".join(
        [f"{share[0].upper()}{share[1:]} were replayed from stored results.", *outcomes]
    )


def _has_stored_times(record: Record) -> bool:
    """Whether a run took the times of single questions from an earlier one."""
    return any(step.name == STORED_TIMES for step in record.provenance.timings)


def _repeated_sentences(replies: Replayed, searches: Replayed) -> list[str]:
    """Say what was made again; of what is not stored nothing can be."""
    total = replies + searches
    if not total.stored:
        return []
    if not total.repeated:
        return ["No stored result was repeated."]
    sentences = []
    if replies.stored:
        sentences.append(_outcome_sentence("re-asked", "questions", REPLY_NOUNS, replies))
    if searches.stored:
        sentences.append(_outcome_sentence("repeated", "searches", RESULT_NOUNS, searches))
    return sentences


def _outcome_sentence(
    verb: str, nouns: str, result_nouns: tuple[str, str], counts: Replayed
) -> str:
    """Say how many stored results were made again, and how many of them matched."""
    result, results = result_nouns
    if counts.repeated == 1:
        outcome = "matched" if counts.same else "did not match"
        return f"We {verb} one of the stored {nouns}; the {result} {outcome}."
    if not counts.repeated:
        return f"We {verb} no stored {nouns}."
    matched = f"{counts.matched()} {results} matched"
    if counts.same == 1:
        matched = f"one {result} matched"
    return f"We {verb} {counts.repeated:,} stored {nouns}; {matched}."
