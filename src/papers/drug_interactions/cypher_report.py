"""What a run reports of the Cypher that a model writes (drug_interactions.md, Results): steps, kinds, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from helpers.results.metrics import Paired, Score, paired_means, proportion
from helpers.results.record import Run
from papers.drug_interactions.cypher import STEPS, Retrieved, is_right
from papers.drug_interactions.questions import KINDS, Asked


def cypher_counts(questions: Sequence[Asked], retrieved: Sequence[Retrieved]) -> dict[str, int]:
    """How many questions have the right names, by the step that first gave them, and how many have not."""
    steps: Counter[str] = Counter(r.step(q) or "failed" for q, r in zip(questions, retrieved, strict=True))
    return {step: steps[step] for step in (*STEPS, "failed")}


def first_try(questions: Sequence[Asked], retrieved: Sequence[Retrieved]) -> Score:
    """The share of questions whose first statement gave the right names."""
    return proportion(cypher_counts(questions, retrieved)["first try"], len(questions))


def cypher_table(run: Run, questions: Sequence[Asked], retrieved: Sequence[Retrieved], writer: str) -> pd.DataFrame:
    """The steps beside the printed 85, 10 and 5 of 100; kept in the record. `writer` is the model."""
    ids: dict[str, str] = {"first try": "first_try", "repaired": "repaired", "relaxed": "simplified"}
    rows = []
    for step, count in cypher_counts(questions, retrieved).items():
        share = proportion(count, len(questions))
        number = run.printed.number(f"drug_interactions.text.cypher.{ids[step]}") if step in ids else None
        if number:
            of_hundred = Score(100 * share.value, share.n, 100 * share.low, 100 * share.high)
            run.rerun(number.id, of_hundred, model=writer, note=f"{count} of {len(questions)}")
        run.extra(f"questions.cypher.{step.replace(' ', '_')}", f"Cypher, {step}", share)
        rows.append(
            {"step that gave the right names": step, "printed, of 100": number and number.printed, "here": share}
        )
    return pd.DataFrame(rows)


def cypher_by_kind(questions: Sequence[Asked], retrieved: Sequence[Retrieved]) -> pd.DataFrame:
    """Execution accuracy by kind of question, after the first statement and after the last."""
    rows = []
    for kind, name in {**KINDS, "": "all"}.items():
        of = [(q, r) for q, r in zip(questions, retrieved, strict=True) if kind in ("", q.form.kind)]
        if of:
            first = sum(is_right(q, r.tried[0].attempt) for q, r in of)
            rows.append(
                {
                    "questions": name,
                    "n": len(of),
                    "first statement": proportion(first, len(of)),
                    "last statement": proportion(sum(r.exact(q) for q, r in of), len(of)),
                }
            )
    return pd.DataFrame(rows)


def reasons_table(questions: Sequence[Asked], retrieved: Sequence[Retrieved]) -> pd.DataFrame:
    """Why statements failed, with one of each."""
    failed = [(r.reason(q), q, r) for q, r in zip(questions, retrieved, strict=True) if not r.exact(q)]
    counts = Counter(reason for reason, _, _ in failed)
    rows = []
    for reason, count in counts.most_common():
        _, question, of = next(entry for entry in failed if entry[0] == reason)
        rows.append(
            {
                "reason": reason,
                "questions": count,
                "for example": question.text,
                "last statement": of.tried[-1].attempt.cypher,
                "right is": ", ".join(sorted(question.answer)),
            }
        )
    return pd.DataFrame(rows, columns=["reason", "questions", "for example", "last statement", "right is"])


def example_test(
    questions: Sequence[Asked], with_example: Sequence[Retrieved], without: Sequence[Retrieved], draws: int
) -> Paired:
    """Paired test of the first statements, right or wrong: one example against none, on the same questions."""
    first = [
        [float(is_right(q, r.tried[0].attempt)) for q, r in zip(questions, of, strict=True)]
        for of in (with_example, without)
    ]
    return paired_means(*first, clusters=[q.about for q in questions], draws=draws)
