"""A language model that reads a note and answers in JSON, or says of one condition what ConText says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from helpers.completions import Choice, object_schema
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.clinical_notes.cleaning import CONTEXT_LIMIT, clean, generic_name, normal
from papers.clinical_notes.extraction import ATTRIBUTES, Extractor, Medication, Reading
from papers.clinical_notes.gold import CONTEXTS
from rag.prompts import chat_messages, each

_TEXTS: Final = {"drug": 40, "strength": 20, "frequency": 24, "route": 16, "form": 24}
"""What is read of a drug, and the most characters of each."""


_ROLES: Final = ["current", "historical", "hypothetical", "family", "allergy"]
_DRUG: Final = {name: {"type": "string", "maxLength": most} for name, most in _TEXTS.items()}
_SCHEMA: Final = object_schema(
    {
        "seizure_status": {"type": "string", "enum": ["positive", "negative", "unknown"]},
        "medications": {
            "type": "array",
            "maxItems": 10,
            "items": object_schema({**_DRUG, "role": {"type": "string", "enum": _ROLES}}),
        },
    }
)
_INSTRUCTION: Final = (
    "You read one clinical note of a patient with epilepsy. Answer in JSON. seizure_status: positive if the note says "
    "that the patient had seizures lately, negative if it says that the patient had none, unknown if it does not say. "
    "medications: every drug named in the note, with strength, frequency, route and form copied from the note, or an "
    "empty string where the note does not say. role: current if the patient takes it, historical if it was stopped "
    "before, hypothetical if it is only considered, family if a relative takes it, allergy if the patient is allergic."
)


def extraction_prompt(text: str) -> list[dict[str, str]]:
    """The messages that ask for one cleaned note."""
    return chat_messages(_INSTRUCTION, text)


def parse_extraction(note_id: str, answer: str) -> Reading:
    """A language model's answer as a reading; one that is no JSON of the schema counts as not parsed."""
    answer = without_thought(answer)
    try:
        content = json.loads(answer)
        medications = tuple(
            _medication(item) for item in content["medications"] if item["drug"].strip()
        )
        status = content["seizure_status"]
        if status not in ("positive", "negative", "unknown"):
            raise ValueError(status)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reading(note_id, parsed=False)
    return Reading(note_id, medications, status)


def _medication(item: Mapping[str, str]) -> Medication:
    said = {name: (label, item.get(name, "").strip()) for label, name in ATTRIBUTES.items()}
    values: dict[str, Any] = {
        name: normal(label, text) for name, (label, text) in said.items() if text
    }
    return Medication(drug=generic_name(item["drug"].strip()), role=item["role"], **values)  # type: ignore[arg-type]


def by_llm(model: LLM, max_tokens: int) -> Extractor:
    """A language model that answers in JSON of a fixed schema, at temperature 0."""
    schema = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "note", "schema": _SCHEMA},
        }
    }
    return each(
        partial(
            model.chat_many,
            max_tokens=max_tokens,
            extra=schema,
            overflow="record",
            label="extraction",
        ),
        lambda note: extraction_prompt(clean(note.text).text),
        lambda note, reply: replace(parse_extraction(note.note_id, reply.text), reply=reply),
    )


_ASK_CONTEXT: Final = (
    "A clinical note speaks of {term!r} in this passage:\n\n{passage}\n\n"
    "Is {term!r} affirmed (the patient has it now), negated (the patient does not have it), historical (the patient "
    "had it long ago), family (a relative has it) or hypothetical (it is only said what to do or expect)? "
    "Answer with one word."
)


def context_prompt(text: str, start: int, end: int) -> list[dict[str, str]]:
    """The messages that ask for the class of one span, with its line."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    passage = text[
        max(first, start - CONTEXT_LIMIT) : min(
            last if last >= 0 else len(text), end + CONTEXT_LIMIT
        )
    ]
    return [
        {
            "role": "user",
            "content": _ASK_CONTEXT.format(term=text[start:end], passage=clean(passage).text),
        }
    ]


def classify_by_llm(
    model: LLM, texts: Sequence[str], spans: Sequence[tuple[int, int]]
) -> list[Choice]:
    """A language model's choice among the five classes for one span in each text."""
    prompts = [context_prompt(text, *span) for text, span in zip(texts, spans, strict=True)]
    return model.choose_many(prompts, CONTEXTS, label="context")
