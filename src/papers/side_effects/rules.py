"""Rules of claims in `data/published/side_effects.yml` that compare more than arms: rows in, a Decision out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from helpers.results import figures, verdicts
from helpers.results.metrics import Score
from helpers.results.outcomes import Outcomes
from helpers.results.rules import Decision
from papers.side_effects.forward import ARMS, Question


def model_difference_small(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # facts that other rules ask for
    """Whether the choice of arm matters more than that of model (Table 3; Discussion).

    The smallest difference in accuracy between neighbouring arms of one model minus the largest difference between the
    models in an arm, with a bootstrap over drugs.
    """
    rows = outcomes.where(arm=ARMS).frame
    models = sorted(rows.model.unique())
    if len(models) < 2:
        return Decision("not run", "It needs the answers of two models.")
    right = (rows.predicted == "YES") == (rows.gold == "YES")
    hits = rows.assign(right=right).pivot_table("right", "cluster", ["model", "arm"], aggfunc="sum")
    # (models, arms, drugs), and the questions of each drug
    counts = np.array([[hits[model, arm].to_numpy() for arm in ARMS] for model in models], dtype=float)
    asked = rows[(rows.arm == ARMS[0]) & (rows.model == models[0])].groupby("cluster").size().to_numpy()
    drawn = np.random.default_rng(0).multinomial(len(asked), np.full(len(asked), 1 / len(asked)), size=outcomes.draws)

    def margin(times: NDArray[np.int64]) -> NDArray[np.float64]:
        accuracy = (times @ counts.transpose(0, 2, 1)).transpose(1, 0, 2) / (times @ asked)[:, None, None]
        between_arms = np.abs(np.diff(accuracy, axis=2)).min(axis=(1, 2))
        between_models = (accuracy.max(axis=1) - accuracy.min(axis=1)).max(axis=1)
        return np.asarray(between_arms - between_models)

    value = float(margin(np.ones((1, len(asked)), dtype=np.int64))[0])
    low, high = (float(x) for x in np.percentile(margin(drawn), [2.5, 97.5]))
    found = figures.points_text(value, min(low, value), max(high, value))
    why = (
        f"Smallest difference between neighbouring arms minus largest difference between {' and '.join(models)}: "
        f"{found} points, n = {int(asked.sum()):,}."
    )
    return Decision(verdicts.above(Score(value, int(asked.sum()), low, high), 0), why)


def residual_errors_are_llm_mislabels(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether GraphRAG was handed the true fact in every pair that it answers wrongly (Results, forward queries)."""
    rows = outcomes.where(arm="graphrag").frame
    wrong = rows[(rows.predicted == "YES") != (rows.gold == "YES")]
    if wrong.empty:
        return Decision("undecided", "GraphRAG answered every pair correctly, so there is no error to explain.")
    told = sum(of["handed"][0] == (gold == "YES") for of, gold in zip(wrong.measures, wrong.gold, strict=True))
    why = f"In {told} of {len(wrong)} wrong answers the prompt stated the true fact."
    return Decision(verdicts.exactly(told == len(wrong)), why)


def benchmark_is_balanced(_: Outcomes, *, benchmark: Sequence[Question], **__: Any) -> Decision:  # noqa: ANN401
    """Whether each drug has ten pairs of either label, and no pair occurs twice (Methods, "Evaluation subset")."""
    per_drug = pd.crosstab([q.drug for q in benchmark], [q.label for q in benchmark])
    holds = bool((per_drug == 10).all(axis=None)) and len(set(benchmark)) == len(benchmark)
    span = f"{per_drug.to_numpy().min()} to {per_drug.to_numpy().max()}"
    why = f"{len(benchmark):,} distinct pairs of {len(per_drug):,} drugs; rows for each drug and label: {span}."
    return Decision(verdicts.exactly(holds), why)


def benchmark_labels_hold(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    knowledge: Mapping[str, Sequence[str]],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Whether the labels agree with the knowledge, terms with a comma included (Methods, "Evaluation subset")."""
    known = {(drug, effect) for drug, effects in knowledge.items() for effect in effects}
    unsupported = sum(q.label and (q.drug, q.side_effect) not in known for q in benchmark)
    contradicted = sum(not q.label and (q.drug, q.side_effect) in known for q in benchmark)
    why = f"{unsupported} positive pairs are not in their drug's document, {contradicted} negative pairs are."
    return Decision(verdicts.exactly(not unsupported and not contradicted), why)


def lists_exceed_10000_characters(_: Outcomes, *, longest: int, **__: Any) -> Decision:  # noqa: ANN401
    """Whether the longest Format A document has more than 10,000 characters (Results, RAG framework)."""
    return Decision(verdicts.exactly(longest > 10_000), f"The longest document has {longest:,} characters.")
