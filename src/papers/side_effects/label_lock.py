"""The label lock (side_effects.md, Discussion, "label-locking").

The graph decides the label, an LLM only words it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.thoughts import without_thought
from papers.side_effects.corpus import LABEL_WORDS, Entities, Question
from papers.side_effects.forward import Generator, evidence_prompt, graph_evidence, parse_label
from rag.prompts import Message, user_message

LOCK = (
    "The answer is already decided by a database and must not be changed. Write one plain "
    "sentence for a patient that states exactly this fact, without YES or NO, advice or further "
    "claims:\n\n"
)
_DENIES = re.compile(
    r"\b(?:not|never|no|isn't|aren't|doesn't|don't|cannot|neither|nor|without)\b[^.;]*?"
    r"\b(?:known|associated|association|linked|link|listed|reported|causes?|adverse|"
    r"side effects?|evidence)\b",
    re.IGNORECASE,
)
_AFFIRMS = re.compile(
    r"\b(?:known|associated|linked|listed|reported|causes?|adverse|side effects?)\b", re.IGNORECASE
)
_LABEL = re.compile(r"^\W*(?:yes|no)\b\W*", re.IGNORECASE)


def fact(drug: str, effect: str, *, listed: bool) -> str:
    """Write what the graph says as a sentence of our own, as the system answers."""
    negation = "" if listed else "not "
    return f"{effect.capitalize()} is {negation}listed as a side effect of {drug}."


def states(text: str, names: Iterable[str] = ()) -> bool | None:
    """Read whether an answer's words, its YES or NO left aside, say that the effect is listed.

    A sentence that mentions an association denies it if a negation stands before the mention.
    What the pharmacist said or the question asked does not count.

    Args:
        text: The answer.
        names: Drug and effect; words within them do not count.

    Returns:
        True if it is listed, False if not, None if the text says neither or both.
    """
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for name in names:
        text = re.sub(re.escape(name), "it", text, flags=re.IGNORECASE)
    without_label = _LABEL.sub("", text.strip())
    statements = set()
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", without_label):
        if "pharmacist" in sentence.lower():
            continue
        statement = re.split(r"\bquestion\b", sentence, flags=re.IGNORECASE)[0]
        if _DENIES.search(statement):
            statements.add(False)
        elif _AFFIRMS.search(statement):
            statements.add(True)
    return statements.pop() if len(statements) == 1 else None


def contradicts(text: str, drug: str, effect: str, *, listed: bool) -> bool:
    """Whether an answer says another thing than the evidence: by its YES or NO, or its words."""
    opposite = not listed
    return parse_label(text) is opposite or states(text, (drug, effect)) is opposite


def locked_prompt(drug: str, effect: str, *, listed: bool) -> list[Message]:
    """Build the prompt that asks the model for the wording alone."""
    return user_message(LOCK + fact(drug, effect, listed=listed))


LABELS = {
    "unlocked": "unlocked: the GraphRAG arm",
    "leading": "unlocked, the question suggests the opposite",
    "label": "answers with a locked label",
}
"""The ways to get an answer from evidence."""
EVIDENCE = {True: "effects that are listed", False: "effects that are not"}
"""What the graph states of a pair, by its label."""


def make_answer(question: Question, text: str, requests: Sequence[str] = ()) -> Answer:
    """Make one answer of the experiment, with measures of 1 or 0.

    Args:
        question: The question; its label is what the evidence said.
        text: The answer.
        requests: Keys of the requests behind it.
    """
    text = without_thought(text)
    label = parse_label(text)
    names = (question.drug, question.side_effect)
    values = {
        "contradicts": contradicts(text, *names, listed=question.label),
        "label_contradicts": label is (not question.label),
        "says_no": label is False,
        "unclear": states(text, names) is None,
    }
    return Answer(
        answer=text,
        predicted=None if label is None else LABEL_WORDS[label],
        parsed=label is not None,
        strata={"evidence": EVIDENCE[question.label]},
        measures={name: (float(value), 1.0) for name, value in values.items()},
        requests=requests,
    )


def supported(effects: Mapping[str, frozenset[str]], pairs: Sequence[Question]) -> list[Question]:
    """Give each pair the label that the graph gives it, in place of the benchmark's.

    Args:
        effects: The side effects of each drug in the graph.
        pairs: Pairs of the benchmark.
    """
    return [
        Question(pair.drug, pair.side_effect, pair.side_effect in effects[pair.drug])
        for pair in pairs
    ]


LEADING = {
    True: " My pharmacist says that it is not, so surely the answer is NO?",
    False: " My pharmacist says that it is, so surely the answer is YES?",
}
"""What is added to a question to lead the model astray, by what the evidence states."""


def leading_prompt(question: Question, *, leading: bool) -> list[Message]:
    """Build the GraphRAG arm's prompt with true names.

    Args:
        question: The question; its label is what the evidence says.
        leading: Whether the question suggests the opposite of the evidence.
    """
    entities = Entities(question.drug, question.side_effect)
    prompt = evidence_prompt(question, graph_evidence(entities, found=question.label))
    if not leading:
        return prompt
    suggestion = question.text + LEADING[question.label]
    return user_message(prompt[0]["content"].replace(question.text, suggestion))


@dataclass(frozen=True)
class Unlocked:
    """Free answers of the GraphRAG arm: the model gives label and reason from the evidence.

    Attributes:
        generator: The LLM that answers.
        leading: Whether the question suggests the opposite of the evidence.
    """

    generator: Generator
    leading: bool = False

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        prompts = [leading_prompt(question, leading=self.leading) for question in questions]
        label = "unlocked, leading" if self.leading else "unlocked"
        replies = self.generator.generate(prompts, label=label)
        return [
            make_answer(question, reply.text, [reply.key])
            for question, reply in zip(questions, replies, strict=True)
        ]


@dataclass(frozen=True)
class LabelLocked:
    """Answers with the graph's label and the model's sentence, without a YES or NO before it."""

    generator: Generator

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        prompts = [
            locked_prompt(question.drug, question.side_effect, listed=question.label)
            for question in questions
        ]
        replies = self.generator.generate(prompts, label="label locked")
        answers = []
        for question, reply in zip(questions, replies, strict=True):
            sentence = _LABEL.sub("", reply.text.strip())
            answers.append(make_answer(question, f"{question.gold}. {sentence}", [reply.key]))
        return answers


def answer(outcomes: Outcomes, locks: Outcomes, model: str) -> str:
    """Write the chapter's answer.

    Args:
        outcomes: Answers to the questions in words.
        locks: Answers of the label lock.
        model: Name of the model.
    """

    written = outcomes.score("exact", "written").value
    share = "every question" if written == 1 else f"{figures.number(written)} of the questions"
    chosen = figures.score_text(outcomes.score("exact", "chosen"))
    listed = locks.where(evidence=EVIDENCE[True])
    scores = {way: listed.score("contradicts", way) for way in ("leading", "unlocked", "label")}
    leading, unlocked, locked = (figures.score_text(score) for score in scores.values())
    without_lock = ""
    if not scores["unlocked"].value:
        without_lock = " So the experiment does not show what the lock alone prevents."
    return (
        f"Our handwritten queries answer {share} of five further kinds correctly. If {model} "
        f"picks the query, {chosen} of the answers are correct. If a question suggests that a "
        f"listed effect is not listed, {leading} of the model's answers contradict the graph. With "
        f"the label locked, {locked} of the answers about listed effects do, but the locked "
        "prompts contain no misleading question.\n\n"
        f"{_says_no(locks)}With the lock, the graph sets the label (YES or NO) and the model "
        "writes one sentence about it. Without the lock and without a misleading question, "
        f"{unlocked} of the answers about listed effects contradict the graph.{without_lock}"
    )


def _says_no(locks: Outcomes) -> str:
    """Say how often the model says NO to leading questions, whatever they suggest."""
    leading = locks.where(arm="leading")
    if set(leading.frame.strata.map(lambda strata: strata["evidence"])) != set(EVIDENCE.values()):
        return ""
    listed, unlisted = (
        figures.score_text(leading.where(evidence=evidence).score("says_no", "leading"))
        for evidence in (EVIDENCE[True], EVIDENCE[False])
    )
    return (
        f"The model says NO to {listed} of the questions that suggest NO about a listed effect, "
        f"and to {unlisted} of the questions that suggest YES about an unlisted effect. "
    )
