"""The words for what became of a claim and of a printed number; code, YAML and pages use no others.

A claim is asked two questions. *Does it hold for the paper's system?* has a `Verdict` as its
answer; printed numbers, the authors' released answers and reruns by a model within the claim's
scope may decide it. *Does it hold here?* has a `HereAnswer`; the answers of whatever models ran
decide it, and it is never counted as a verdict. A printed number has a `Match`.
"""

from collections.abc import Mapping
from typing import Final, Literal

Tested = Literal["agrees", "differs", "inconclusive"]
"""The verdicts on a claim that was tested."""
Verdict = Literal["agrees", "differs", "inconclusive", "not tested", "cannot be tested"]
"""Does a claim hold for the paper's system?"""
TESTED: Final[tuple[Tested, ...]] = ("agrees", "differs", "inconclusive")

HereAnswer = Literal["with the claim", "against it", "inconclusive", "not run"]
"""Does a claim hold here, by the models that ran?"""
HERE_BY_TESTED: Final[Mapping[str, HereAnswer]] = {
    "agrees": "with the claim",
    "differs": "against it",
    "inconclusive": "inconclusive",
}
"""What a rule says of this run's rows, as an answer to the second question."""
HERE_WORDS: Final[Mapping[str, str]] = {"not run": "not asked"}
"""Stored answers that pages say in other words: the method may have run, and has a value then."""
ANSWERED_HERE: Final[tuple[HereAnswer, ...]] = tuple(HERE_BY_TESTED.values())

Reason = Literal[
    "another model",
    "another system",
    "published, not fetched",
    "forced tie",
    "same facts",
    "by construction",
    "too few",
    "no answers",
    "judge at chance",
    "one model",
    "printed only",
    "undefined",
    "not public",
    "not recorded",
]
REASONS: Final[Mapping[Reason, str]] = {
    "another model": (
        "The claim is not about the models that ran (name one of its models in LLM_MODEL or in the "
        "notebook's parameters)."
    ),
    "another system": (
        "This run replaces a part of the paper's system (the evidence says which part)."
    ),
    "published, not fetched": (
        "The files that would test the claim are published, but this run did not fetch them (the "
        "evidence names them)."
    ),
    "forced tie": (
        "The compared arms received the same prompt for at least 98 % of the questions (a run "
        "whose graph or documents lack some facts could test the claim)."
    ),
    "same facts": (
        "The compared arms received the same fact, in different words, for at least 98 % of the "
        "questions, so nearly any difference would come from the wording (a run whose graph or "
        "documents lack some facts could test the claim)."
    ),
    "by construction": (
        "No answers could contradict the claim (the evidence says what makes it hold)."
    ),
    "too few": "There are too few units for a conclusive test (increase the profile's sizes).",
    "no answers": (
        "This run has no answers that could decide the claim (the evidence says what is missing)."
    ),
    "judge at chance": (
        "The judge's marks do not show that it can tell right from wrong answers (a larger "
        "model's may)."
    ),
    "one model": "The claim is about several models, but only one ran (name a second model).",
    "printed only": "The rule reads only printed numbers or released files, and no rerun.",
    "undefined": (
        "The paper defines no measure for what it claims (only its authors can define one)."
    ),
    "not public": (
        "The required data, code or models are not public (only their release would help)."
    ),
    "not recorded": "The run did not yet record an answer (run its notebook again).",
}
"""Why a question about a claim has no answer, in a word and in a sentence."""
CLOSED: Final[tuple[Reason, ...]] = ("undefined", "not public", "by construction")
"""Reasons by which nobody can test a claim on public data."""
FOR_ANY_MODEL: Final[tuple[Reason, ...]] = ("undefined", "not public", "printed only")
"""Reasons that hold whichever model runs; what a run makes hold by construction is its own."""

Match = Literal[
    "matches",
    "differs",
    "inconclusive",
    "another model",
    "not compared",
    "SAMPLE",
    "not run",
    "cannot be run",
]
"""What became of a printed number: its rescored or rerun value beside it."""

FORMER_VERDICTS: Final[Mapping[str, Verdict]] = {
    "undecided": "inconclusive",
    "not run": "not tested",
    "cannot be run": "cannot be tested",
}
"""Words of records that were written before there were two questions."""
FORMER_REASONS: Final[Mapping[str, Reason]] = {"stand-in": "another model"}
