"""The five systems for own data: what each takes, costs, and how well it did in the book."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from evaluation import answers
from evaluation.outcomes import Outcomes


@dataclass(frozen=True)
class InTheBook:
    """How well a system did in the book, by the answers of a chapter.

    Attributes:
        what: What was measured, for a reader.
        notebook: The chapter.
        arm: The arm that the system is.
        measure: The measure.
        tasks: The tasks that count; all if there are none.
    """

    what: str
    notebook: str
    arm: str
    measure: str
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class System:
    """One of the five systems.

    Attributes:
        name: Its name.
        takes: What a person brings.
        requests: Requests to a language model.
        score: How well it did.
    """

    name: str
    takes: str
    requests: str
    score: InTheBook


SYSTEMS = (
    System(
        "Side effects",
        "nothing (SIDER), or a table of drugs and effects",
        "none; one if the rules do not understand the question",
        InTheBook(
            "share of questions whose handwritten query returns exactly the right drugs or effects "
            "(the reading of the question is not tested)",
            "04_side_effects_beyond",
            "written",
            "exact",
        ),
    ),
    System(
        "Drug interactions",
        "nothing (two annotated corpora), or a folder of text",
        "two to four per question; none to read your own text",
        InTheBook(
            "F1 of the drugs and effects in the answer, for questions with a known answer",
            "06_interactions_qa",
            "drugrag",
            "f1",
            ("known",),
        ),
    ),
    System(
        "Clinical notes",
        "a folder of dated notes, or a table with a row for each note",
        "one per question",
        InTheBook(
            "share of right answers by the model with retrieved passages, to questions with and "
            "without an answer in the chart",
            "14_notes_answers",
            "rag",
            "accuracy",
        ),
    ),
    System(
        "Regulatory guidance",
        "a folder of PDF, Word, HTML or text files",
        "two per question; one more for each of up to 24 passages with the scoring agent",
        InTheBook(
            "share of questions whose answer is in the six passages",
            "16_qarag_retrieval",
            "qa_rag",
            "answer_found",
        ),
    ),
    System(
        "Extraction",
        "labelled sentences or texts (JSON lines, CSV or Excel)",
        "one per text; more while the scorer learns",
        InTheBook(
            "F1 of the triples of GIT, by the prompted model with its retrieved example",
            "07_biomedrag_triples",
            "biomedrag",
            "f1",
            ("GIT",),
        ),
    ),
)


def systems_table(systems: Sequence[System] = SYSTEMS, draws: int = 2000) -> pd.DataFrame:
    """Tabulate the systems, with their scores on the reference run's answers.

    Args:
        systems: The systems.
        draws: Number of bootstrap samples of an interval.
    """
    rows = []
    for system in systems:
        outcomes = _rows_of(system.score, draws)
        row = {
            "system": system.name,
            "you bring": system.takes,
            "requests to a model": system.requests,
            "in the book": system.score.what,
            "score": outcomes.format_score(system.score.measure, system.score.arm),
            "n": len(outcomes.rows_with(system.score.measure, system.score.arm)),
            "chapter": system.score.notebook[:2],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _rows_of(score: InTheBook, draws: int) -> Outcomes:
    path = answers.arm_file(answers.RELEASED / score.notebook, score.arm)
    frame = answers.read(path, answers.SCORE_COLUMNS)
    frame = frame[frame.source == "rerun"]
    if score.tasks:
        frame = frame[frame.task.isin(score.tasks)]
    return Outcomes(frame, draws=draws)
