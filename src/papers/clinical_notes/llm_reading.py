"""An LLM reads a note and answers in JSON, or classifies one condition as ConText does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from helpers.completions import Choice, object_schema
from helpers.llm import LLM
from papers.clinical_notes.cleaning import CONTEXT_LIMIT, clean, generic_name, normal
from papers.clinical_notes.extraction import ATTRIBUTES, STATUSES, Medication, Reading
from papers.clinical_notes.gold import CONTEXTS, Note
from rag.prompts import Message, chat_messages, user_message
from rag.replies import read_json

_MAX_CHARACTERS: Final = {"drug": 40, "strength": 20, "frequency": 24, "route": 16, "form": 24}
"""What the LLM reads of a drug, and the longest text of each."""
_ROLES: Final = ["current", "historical", "hypothetical", "family", "allergy"]
_DRUG: Final = {
    name: {"type": "string", "maxLength": limit} for name, limit in _MAX_CHARACTERS.items()
}
_MEDICATIONS: Final = {
    "type": "array",
    "maxItems": 10,
    "items": object_schema({**_DRUG, "role": {"type": "string", "enum": _ROLES}}),
}
_SCHEMA: Final = object_schema(
    {
        "seizure_status": {"type": "string", "enum": list(STATUSES)},
        "medications": _MEDICATIONS,
    }
)
_RESPONSE_FORMAT: Final = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "note", "schema": _SCHEMA},
    }
}
"""Fields of a request that make the server answer in JSON of the schema."""
_INSTRUCTION: Final = (
    "You read one clinical note of a patient with epilepsy. Answer in JSON. seizure_status: "
    "positive if the note says that the patient had seizures lately, negative if it says that "
    "the patient had none, unknown if it does not say. medications: every drug named in the "
    "note, with strength, frequency, route and form copied from the note, or an empty string "
    "where the note does not say. role: current if the patient takes it, historical if it was "
    "stopped before, hypothetical if it is only considered, family if a relative takes it, "
    "allergy if the patient is allergic."
)


def extraction_prompt(text: str) -> list[Message]:
    """Build the prompt that asks for the content of one cleaned note."""
    return chat_messages(_INSTRUCTION, text)


def parse_extraction(note_id: str, reply: str) -> Reading:
    """Read an LLM's reply about one note.

    Args:
        note_id: Identifier of the note.
        reply: The text of the reply.

    Returns:
        The reading. A reply that is no JSON of the schema counts as not parsed.
    """
    try:
        content = read_json(reply, dict)
        drugs = [entry for entry in content["medications"] if entry["drug"].strip()]
        medications = tuple(_medication(entry) for entry in drugs)
        status = content["seizure_status"]
        if status not in STATUSES:
            raise ValueError(status)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reading(note_id, parsed=False)
    return Reading(note_id, medications, status)


def _medication(entry: Mapping[str, str]) -> Medication:
    attributes: dict[str, Any] = {}
    for label, name in ATTRIBUTES.items():
        text = entry.get(name, "").strip()
        if text:
            attributes[name] = normal(label, text)
    drug = generic_name(entry["drug"].strip())
    return Medication(drug=drug, role=entry["role"], **attributes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LlmExtractor:
    """An LLM reads the cleaned notes and answers in JSON of a fixed schema, at temperature 0.

    Attributes:
        llm: The LLM to ask.
        max_tokens: Longest reply, in tokens.
    """

    llm: LLM
    max_tokens: int

    def __call__(self, notes: Sequence[Note]) -> list[Reading]:
        """Read each note."""
        prompts = [extraction_prompt(clean(note.text).text) for note in notes]
        replies = self.llm.chat_many(
            prompts,
            max_tokens=self.max_tokens,
            extra=_RESPONSE_FORMAT,
            overflow="record",
            label="extraction",
        )
        readings = []
        for note, reply in zip(notes, replies, strict=True):
            reading = parse_extraction(note.note_id, reply.text)
            readings.append(replace(reading, reply=reply))
        return readings


_CONTEXT_QUESTION: Final = (
    "A clinical note speaks of {term!r} in this passage:\n\n{passage}\n\n"
    "Is {term!r} affirmed (the patient has it now), negated (the patient does not have it), "
    "historical (the patient had it long ago), family (a relative has it) or hypothetical (it is "
    "only said what to do or expect)? Answer with one word."
)


def context_prompt(text: str, start: int, end: int) -> list[Message]:
    """Build the prompt that asks for the class of one span.

    Args:
        text: The note as it stands.
        start: First character of the span.
        end: Last character of the span, plus one.

    Returns:
        The messages, which show the line of the span, cleaned.
    """
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end < 0:
        line_end = len(text)
    first = max(line_start, start - CONTEXT_LIMIT)
    last = min(line_end, end + CONTEXT_LIMIT)
    passage = clean(text[first:last]).text
    return user_message(_CONTEXT_QUESTION.format(term=text[start:end], passage=passage))


def classify_by_llm(
    llm: LLM, texts: Sequence[str], spans: Sequence[tuple[int, int]]
) -> list[Choice]:
    """Let an LLM choose among the five classes of ConText for one span in each text."""
    prompts = [
        context_prompt(text, start, end) for text, (start, end) in zip(texts, spans, strict=True)
    ]
    return llm.choose_many(prompts, CONTEXTS, label="context")
