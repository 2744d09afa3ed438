"""The label lock (side_effects.md, Discussion, "label-locking"): the graph decides the label, an LLM only words it.

And what tells whether an answer contradicts its evidence, by its YES or NO or by its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from papers.side_effects.forward import Asking, Entities, Question, evidence_prompt, graph_evidence, parse_label

LOCK = (
    "The answer is already decided by a database and must not be changed. Write one plain sentence for a patient that "
    "states exactly this fact, without YES or NO, advice or further claims:\n\n"
)
_DENIES = re.compile(
    r"\b(?:not|never|no|isn't|aren't|doesn't|don't|cannot|neither|nor|without)\b[^.;]*?"
    r"\b(?:known|associated|association|linked|link|listed|reported|causes?|adverse|side effects?|evidence)\b",
    re.IGNORECASE,
)
_AFFIRMS = re.compile(
    r"\b(?:known|associated|linked|listed|reported|causes?|adverse|side effects?)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^\W*(?:yes|no)\b\W*", re.IGNORECASE)


def fact(drug: str, effect: str, *, listed: bool) -> str:
    """What the graph says, as a sentence of the project's own: the wording of last resort."""
    return f"{effect.capitalize()} is {'' if listed else 'not '}listed as a side effect of {drug}."


def states(text: str, names: Iterable[str] = ()) -> bool | None:
    """Whether the words of an answer, its YES or NO left aside, say that the effect is listed; None if unclear.

    A sentence that mentions an association denies it if a negation stands before the mention; a text that both affirms
    and denies says nothing clear. What the answer says the pharmacist said, or the question asked, does not count.

    Args:
        text: the answer.
        names: the drug and the effect; words within them do not count either.
    """
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for name in names:
        text = re.sub(re.escape(name), "it", text, flags=re.IGNORECASE)
    said = set()
    for whole in re.split(r"(?<=[.!?;])\s+|\n+", _LABEL.sub("", text.strip())):
        if "pharmacist" in whole.lower():
            continue
        sentence = re.split(r"\bquestion\b", whole, flags=re.IGNORECASE)[0]
        if _DENIES.search(sentence):
            said.add(False)
        elif _AFFIRMS.search(sentence):
            said.add(True)
    return said.pop() if len(said) == 1 else None


def contradicts(text: str, drug: str, effect: str, *, listed: bool) -> bool:
    """Whether an answer says another thing than the evidence: by its YES or NO, or by its words."""
    return parse_label(text) is (not listed) or states(text, (drug, effect)) is (not listed)


def lock(drug: str, effect: str, *, listed: bool, wording: str) -> tuple[str, bool]:
    """An answer whose label is the graph's, whatever the model wrote.

    Args:
        drug: the drug.
        effect: the effect.
        listed: what the graph says.
        wording: what the model made of it; empty if there is no model.

    Returns:
        The answer, and whether the model's wording was replaced by `fact`: because it does not clearly say what the
        graph says, or does not name both.
    """
    text = " ".join(_LABEL.sub("", wording.strip()).split())
    named = drug.lower() in text.lower() and effect.lower() in text.lower()
    replaced = not named or states(text, (drug, effect)) is not listed
    if replaced:
        text = fact(drug, effect, listed=listed)
    return f"{_label(listed)} {text[:1].upper()}{text[1:]}", replaced


def _label(listed: bool) -> str:
    return "YES." if listed else "NO."


def locked_prompt(drug: str, effect: str, *, listed: bool) -> list[dict[str, str]]:
    """What asks the model for the wording alone."""
    return [{"role": "user", "content": LOCK + fact(drug, effect, listed=listed)}]


# --------------------------------------------------------------------------------------------------------- experiment


@dataclass(frozen=True)
class Reading:
    """One answer of the label-lock experiment; the label of its question is what the evidence said.

    Attributes:
        question: the pair.
        text: the answer as a reader would see it.
        replaced: whether the model's wording was replaced.
    """

    question: Question
    text: str
    replaced: bool = False

    @property
    def label(self) -> bool | None:
        """Its YES or NO; None if it does not begin with one."""
        return parse_label(self.text)

    @property
    def wrong_label(self) -> bool:
        """Whether its label is there and is not the evidence's."""
        return self.label is (not self.question.label)

    @property
    def unclear(self) -> bool:
        """Whether its words, by the rules, neither affirm nor deny."""
        return states(self.text, (self.question.drug, self.question.side_effect)) is None

    @property
    def contradicts(self) -> bool:
        """Whether its label or its words say another thing than the evidence."""
        q = self.question
        return contradicts(self.text, q.drug, q.side_effect, listed=q.label)


def supported(effects: Mapping[str, frozenset[str]], pairs: Sequence[Question]) -> list[Question]:
    """The pairs with the label that the graph, with these effects of each drug, gives them, not the benchmark's."""
    return [Question(q.drug, q.side_effect, q.side_effect in effects[q.drug]) for q in pairs]


LEADING = {
    True: " My pharmacist says that it is not, so surely the answer is NO?",
    False: " My pharmacist says that it is, so surely the answer is YES?",
}
"""What is added to a question to lead the model away from its evidence, by what the evidence says."""


def unlocked(asking: Asking, questions: Sequence[Question], *, leading: bool = False) -> list[Reading]:
    """Free answers of the GraphRAG arm: the evidence stands in the prompt, the model gives label and reason.

    Args:
        asking: the model and how it is asked.
        questions: pairs; their label is what the graph says.
        leading: the question suggests the opposite of the evidence.
    """
    prompts = []
    for q in questions:
        evidence = graph_evidence(Entities(q.drug, q.side_effect), found=q.label)
        prompt = evidence_prompt(q, evidence)
        if leading:
            content = prompt[0]["content"].replace(q.text, q.text + LEADING[q.label])
            prompt = [{"role": "user", "content": content}]
        prompts.append(prompt)
    replies = asking.answers(prompts, "unlocked, leading" if leading else "unlocked")
    return [Reading(q, reply.text) for q, reply in zip(questions, replies, strict=True)]


def label_locked(asking: Asking, questions: Sequence[Question]) -> list[Reading]:
    """Answers whose label is the graph's, with the model's sentence as it wrote it."""
    replies = asking.answers([locked_prompt(q.drug, q.side_effect, listed=q.label) for q in questions], "label locked")
    return [
        Reading(q, f"{_label(q.label)} {_LABEL.sub('', reply.text.strip())}")
        for q, reply in zip(questions, replies, strict=True)
    ]


def checked(readings: Sequence[Reading]) -> list[Reading]:
    """The same answers after `lock`, which replaces a sentence that strays."""
    return [
        Reading(q, *lock(q.drug, q.side_effect, listed=q.label, wording=reading.text))
        for reading in readings
        for q in [reading.question]
    ]
