"""The label lock (side_effects.md, Discussion, "label-locking"): the graph decides the label, an LLM only words it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.thoughts import without_thought
from papers.side_effects.corpus import Arm, Entities, Question
from papers.side_effects.forward import Generator, evidence_prompt, graph_evidence, parse_label
from rag.prompts import each, user_message

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
    r"\b(?:known|associated|linked|listed|reported|causes?|adverse|side effects?)\b", re.IGNORECASE
)
_LABEL = re.compile(r"^\W*(?:yes|no)\b\W*", re.IGNORECASE)


def fact(drug: str, effect: str, *, listed: bool) -> str:
    """What the graph says, as a sentence of the project's own: the wording of last resort."""
    return f"{effect.capitalize()} is {'' if listed else 'not '}listed as a side effect of {drug}."


def states(text: str, names: Iterable[str] = ()) -> bool | None:
    """Whether the words of an answer, its YES or NO left aside, say that the effect is listed; None if unclear.

    A sentence that mentions an association denies it if a negation stands before the mention; a text that both affirms
    and denies is unclear. What the pharmacist said, the question asked, or stands within `names` does not count.
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
    """An answer whose label is the graph's, and whether the model's wording was replaced by `fact`.

    It is where it does not clearly say what the graph says, or does not name both; an empty wording always is.
    """
    text = " ".join(_LABEL.sub("", wording.strip()).split())
    named = drug.lower() in text.lower() and effect.lower() in text.lower()
    replaced = not named or states(text, (drug, effect)) is not listed
    if replaced:
        text = fact(drug, effect, listed=listed)
    return f"{'YES' if listed else 'NO'}. {text[:1].upper()}{text[1:]}", replaced


def locked_prompt(drug: str, effect: str, *, listed: bool) -> list[dict[str, str]]:
    """What asks the model for the wording alone."""
    return user_message(LOCK + fact(drug, effect, listed=listed))


LABELS = {
    "unlocked": "unlocked: the GraphRAG arm",
    "leading": "unlocked, the question suggests the opposite",
    "label": "label locked, words as written",
}
"""The ways to get an answer from evidence."""


def reading(question: Question, text: str, requests: Sequence[str] = ()) -> Answer:
    """One answer of the experiment, with measures of 1 or 0; the label of its question is what the evidence said."""
    text = without_thought(text)
    label = parse_label(text)
    values = {
        "contradicts": contradicts(
            text, question.drug, question.side_effect, listed=question.label
        ),
        "label_contradicts": label is (not question.label),
        "says_no": label is False,
        "unclear": states(text, (question.drug, question.side_effect)) is None,
    }
    return Answer(
        answer=text,
        predicted={True: "YES", False: "NO", None: None}[label],
        parsed=label is not None,
        strata={
            "evidence": "effects that are listed" if question.label else "effects that are not"
        },
        measures={name: (float(value), 1.0) for name, value in values.items()},
        requests=requests,
    )


def supported(effects: Mapping[str, frozenset[str]], pairs: Sequence[Question]) -> list[Question]:
    """The pairs with the label that the graph, with these effects of each drug, gives them, not the benchmark's."""
    return [Question(q.drug, q.side_effect, q.side_effect in effects[q.drug]) for q in pairs]


LEADING = {
    True: " My pharmacist says that it is not, so surely the answer is NO?",
    False: " My pharmacist says that it is, so surely the answer is YES?",
}
"""What is added to a question to lead the model away from its evidence, by what the evidence says."""


def leading_prompt(question: Question, *, leading: bool) -> list[dict[str, str]]:
    """The GraphRAG arm's prompt with true names; with `leading`, the question suggests the opposite of the evidence."""
    evidence = graph_evidence(Entities(question.drug, question.side_effect), found=question.label)
    prompt = evidence_prompt(question, evidence)
    if not leading:
        return prompt
    content = prompt[0]["content"].replace(question.text, question.text + LEADING[question.label])
    return user_message(content)


def unlocked(generator: Generator, *, leading: bool = False) -> Arm:
    """Free answers of the GraphRAG arm: the evidence stands in the prompt, the model gives label and reason."""
    label = "unlocked, leading" if leading else "unlocked"
    return each(
        partial(generator.generate, label=label),
        partial(leading_prompt, leading=leading),
        lambda q, r: reading(q, r.text, [r.key]),
    )


def label_locked(generator: Generator) -> Arm:
    """Answers whose label is the graph's, with the model's sentence as it wrote it."""
    return each(
        partial(generator.generate, label="label locked"),
        lambda q: locked_prompt(q.drug, q.side_effect, listed=q.label),
        lambda q, r: reading(q, f"{q.gold}. {_LABEL.sub('', r.text.strip())}", [r.key]),
    )


def answer(asked: Outcomes, locks: Outcomes, model: str) -> str:
    """The chapter's answer, from the rows of the questions and of the label lock."""
    exact = {
        arm: figures.score_text(asked.score("exact", arm))
        for arm in ("written", "chosen", "generated")
    }
    listed, absent = (
        locks.where(evidence=f"effects that are {what}") for what in ("listed", "not")
    )
    strays = {
        arm: figures.score_text(listed.score("contradicts", arm))
        for arm in ("unlocked", "leading", "label")
    }
    return (
        f"One query for each form of question returns the right set for {exact['written']} of the questions. {model} "
        f"reaches {exact['chosen']} if it picks the query and {exact['generated']} if it writes it. "
        f"About listed effects, {strays['unlocked']} of its answers contradict the evidence, but {strays['leading']} "
        f"do if the question suggests the opposite (about unlisted effects, "
        f"{figures.score_text(absent.score('contradicts', 'leading'))}); with a locked label, {strays['label']} of "
        "its sentences contradict it."
    )
