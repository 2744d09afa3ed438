"""Compares what an answer says about seizures with what the rules read in the same notes.

Only a yes-or-no question whether there were seizures is compared: its answer has a status, as a
note has one in the registry.
"""

import re
from functools import lru_cache
from typing import Final

import pandas as pd

from evaluation import figures
from helpers.thoughts import without_thought
from papers.clinical_notes.extraction import Reader, RuleNamer, Status
from papers.clinical_notes.gold import NO_DATE, Note
from rag.replies import CITATION, plain_text

_ASKS_YES_OR_NO: Final = re.compile(
    r"(?:^|[,:;]\s*)(?:did|does|do|has|have|had|is|are|was|were|any)\b", re.IGNORECASE
)
_ASKS_WHETHER: Final = re.compile(
    r"\b(?:have|had|has|having|any|free|there|experienc\w*|report\w*|suffer\w*|occur\w*|happen\w*"
    r"|note|noted|documented|deny|denied)\b",
    re.IGNORECASE,
)
"""What a question whether there were seizures has, unlike one about their cause or treatment."""
_YES_OR_NO: Final = re.compile(r"\W*(?P<word>yes|no)\b\s*(?:[.,;:!\u2013-]|$)", re.IGNORECASE)
"""An answer in one word, unlike "No seizures were reported"."""
_OPPOSITES: Final[dict[Status, Status]] = {"positive": "negative", "negative": "positive"}
_IN_WORDS: Final = {
    "positive": "that there were seizures",
    "negative": "that there were no seizures",
}
MAX_DAYS: Final = 5
"""Days that a warning names."""


def find_contradiction(question: str, reply: str, rows: pd.DataFrame) -> str:
    """Say that the registry contradicts an answer about seizures.

    Args:
        question: The question.
        reply: What the model answered.
        rows: The registry's rows of the notes that the model was shown.

    Returns:
        The warning; empty if there is no contradiction, or if question or answer is about
        something else.
    """
    answered = status_of_answer(question, reply)
    opposite = _OPPOSITES.get(answered)
    stated = rows[rows.seizure_status.isin(list(_OPPOSITES))]
    if opposite is None or set(stated.seizure_status) != {opposite}:
        return ""
    days = list(dict.fromkeys(stated.sort_values("note_date").note_date.replace("", "no date")))
    n_more = len(days) - MAX_DAYS
    shown = [*days[:MAX_DAYS], f"{n_more:,} more"] if n_more > 0 else days
    notes = "note" if len(set(stated.note_id)) == 1 else "notes"
    return (
        f"The registry contradicts the answer. The answer says {_IN_WORDS[answered]}; by the "
        f"{notes} of {figures.listed(shown)}, the registry says {_IN_WORDS[opposite]}."
    )


def status_of_answer(question: str, reply: str) -> Status:
    """Return what an answer to a yes-or-no question says of the patient's seizures.

    Returns:
        The status; unknown if the question does not ask whether there were seizures, or if the
        answer does not say.
    """
    is_whether = _ASKS_YES_OR_NO.search(question) and _ASKS_WHETHER.search(question)
    question_status = _status(question) if is_whether else "unknown"
    if question_status == "unknown":
        return "unknown"
    words = plain_text(CITATION.sub(" ", without_thought(reply)))
    match = _YES_OR_NO.match(words)
    if match is None:
        return _status(words)
    if match["word"].lower() == "yes":
        return question_status
    return _OPPOSITES[question_status]


def _status(text: str) -> Status:
    """The seizure status of a text, by the rules that read a note."""
    note = Note(note_id="", patient_id="", date=NO_DATE, kind="clinical note", text=text, source="")
    (reading,) = _reader()([note])
    return reading.status


@lru_cache
def _reader() -> Reader:
    return Reader(RuleNamer())
