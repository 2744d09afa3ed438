"""What a run on drug side effects (side_effects.md) reports: rescoring, tests, claims, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from numpy.typing import NDArray

from helpers import figures, verdicts
from helpers.metrics import DRAWS, Column, Paired, Score, auc, binary_scores, bootstrap, holm, paired_means, threshold
from helpers.published import Published
from helpers.record import Run
from helpers.side_effects.forward import (
    ARMS,
    METRICS,
    MODELS,
    Prediction,
    Question,
    correct,
    released_name,
    share_of,
)

Scores = Mapping[str, Score]
REFERENCE_ROWS = ("majority", "lookup")
PER_LABEL = 10
"""Pairs of each label that a drug has in the benchmark (Methods, "Evaluation subset")."""


# ----------------------------------------------------------------------------------------------------------- the data


def printed_table(printed: Published) -> pd.DataFrame:
    """Tables 1 and 2 as printed, one row an arm and model."""
    return pd.DataFrame(
        [
            {"model": printed.number(_cell(table, arm, "accuracy")).model, "architecture": figures.arm_label(arm)}
            | {metric: printed.number(_cell(table, arm, metric)).printed for metric in METRICS}
            for table in MODELS.values()
            for arm in ARMS
        ]
    )


def _cell(table: str, arm: str, column: str) -> str:
    return f"side_effects.{table}.{arm}.{column}"


def report_data(run: Run, benchmark: Sequence[Question]) -> None:
    """Count the benchmark and report the counts beside those that the text prints; a sample has none to report."""
    per_label = pd.crosstab([q.drug for q in benchmark], [q.label for q in benchmark])
    counts = {
        "pairs": len(benchmark),
        "drugs": len({q.drug for q in benchmark}),
        "effects": len({q.side_effect for q in benchmark}),
        "positives_per_drug": per_label[True].mean(),
        "negatives_per_drug": per_label[False].mean(),
    }
    for name, count in counts.items():
        number = f"side_effects.text.{name}"
        if run.sample:
            run.not_run(number, "The data are SAMPLE.", kind="rescored")
        else:
            run.rescored(number, float(count), source="side_effects/evaluation_dataset.csv")


def describe_data(benchmark: Sequence[Question], knowledge: Mapping[str, Sequence[str]], longest: int) -> pd.DataFrame:
    """What there is, in numbers."""
    sizes = sorted(map(len, knowledge.values()))
    rows = {
        "pairs in the benchmark": len(benchmark),
        "drugs": len({q.drug for q in benchmark}),
        "distinct side effects asked about": len({q.side_effect for q in benchmark}),
        "drugs in the knowledge": len(knowledge),
        "documented drug and effect pairs": sum(sizes),
        "distinct documented effects": len({e for effects in knowledge.values() for e in effects}),
        "fewest effects of a drug": sizes[0],
        "most effects of a drug": sizes[-1],
        "characters of the longest Format A document": longest,
    }
    return pd.DataFrame({"what": list(rows), "count": list(rows.values())})


# --------------------------------------------------------------------------------------- the authors' own predictions


def rescore(run: Run, released: Mapping[tuple[str, str], pd.DataFrame], draws: int) -> dict[tuple[str, str], Scores]:
    """Recompute every cell of Tables 1 to 3 from the released predictions, and report it to the run.

    Args:
        run: takes the values.
        released: predictions by (arm, model).
        draws: of the bootstrap over drugs that gives the intervals.

    Returns:
        The five scores by (arm, model).
    """
    scores: dict[tuple[str, str], Scores] = {
        key: binary_scores(t.label, t.answer, clusters=t.drug, draws=draws) for key, t in released.items()
    }
    for (arm, model), of_arm in scores.items():
        source = released_name(arm, model)
        for metric in METRICS:
            run.rescored(f"side_effects.{MODELS[model]}.{arm}.{metric}", of_arm[metric], source=source)
        run.rescored(f"side_effects.table3.{arm}.{model}", of_arm["accuracy"], source=source)
    for arm in ARMS:
        run.rescored(
            f"side_effects.table3.{arm}.difference",
            _difference(released[arm, "qwen"], released[arm, "llama"], draws),
            source=released_name(arm, "qwen"),
        )
    return scores


def _difference(first: pd.DataFrame, second: pd.DataFrame, draws: int) -> Score:
    """Accuracy of the first minus that of the second in percentage points, bootstrapped over drugs."""
    both = first.merge(second, on=["drug", "side_effect", "label"], validate="one_to_one")
    label, first_answer, second_answer = (both[c].to_numpy() for c in ("label", "answer_x", "answer_y"))
    gain = (first_answer == label).astype(float) - (second_answer == label).astype(float)
    return bootstrap(100 * gain, clusters=both.drug.to_numpy(), draws=draws)


# ----------------------------------------------------------------------------------------------- what a run reports


def score_arms(
    questions: Sequence[Question], predictions: Mapping[str, Sequence[Prediction]], draws: int
) -> dict[str, Scores]:
    """The five scores of each arm; an answer that did not parse counts as NO, as in the paper, and is counted."""
    labels = [q.label for q in questions]
    drugs = [q.drug for q in questions]
    return {
        arm: binary_scores(labels, [p.answer for p in of_arm], clusters=drugs, draws=draws)
        for arm, of_arm in predictions.items()
    }


def report_arms(run: Run, scores: Mapping[str, Scores], model: str, printed_model: str) -> None:
    """Report the rerun of the four arms beside the table of one of the paper's models, qwen or llama."""
    for arm in ARMS:
        for metric in METRICS:
            run.rerun(f"side_effects.{MODELS[printed_model]}.{arm}.{metric}", scores[arm][metric], model=model)
        run.rerun(f"side_effects.table3.{arm}.{printed_model}", scores[arm]["accuracy"], model=model)


def explain_missing(run: Run, printed_model: str, why: str) -> None:
    """Say why the rows of one of the paper's models have no rerun."""
    for arm in ARMS:
        for metric in METRICS:
            run.not_run(f"side_effects.{MODELS[printed_model]}.{arm}.{metric}", why)
        run.not_run(f"side_effects.table3.{arm}.{printed_model}", why)
        run.not_run(f"side_effects.table3.{arm}.difference", why)


def paired_tests(right: Mapping[str, NDArray[np.bool_]], drugs: Column, draws: int = DRAWS) -> pd.DataFrame:
    """Paired randomisation test between every two arms, the questions about one drug together; p adjusted by Holm.

    Args:
        right: whether each arm is right, (n,).
        drugs: of each question, (n,).
        draws: of the test and of the bootstrap over drugs.

    Returns:
        A row a pair: better, other, only_better, only_other (pairs that one alone has right), difference, low, high,
        p, p_holm.
    """
    rows = []
    for first, second in combinations(right, 2):
        a, b = (first, second) if right[first].sum() >= right[second].sum() else (second, first)
        test = paired_means(right[a], right[b], clusters=drugs, draws=draws)
        rows.append(
            {
                "better": a,
                "other": b,
                "only_better": test.b,
                "only_other": test.c,
                "difference": test.difference,
                "low": test.low,
                "high": test.high,
                "p": test.p,
            }
        )
    table = pd.DataFrame(rows)
    table["p_holm"] = holm(table.p.tolist())
    return table


@dataclass(frozen=True)
class Calibrated:
    """An arm whose threshold on P(YES) was set on drugs that are not in the test; None where no drug was left."""

    arm: str
    threshold: float | None
    auc: Score
    plain: Score
    calibrated: Score | None


def calibrate(
    arm: str,
    held_out: tuple[Sequence[Question], Sequence[Prediction]],
    test: tuple[Sequence[Question], Sequence[Prediction]],
    draws: int,
) -> Calibrated:
    """AUC of P(YES), and accuracy with the threshold that is best on the held-out drugs.

    A prediction without a probability takes the one that its parsed answer stands for (1, 0, or one half).
    """
    labels, p_yes = [q.label for q in test[0]], _p_yes(test[1])
    drugs = [q.drug for q in test[0]]
    plain = binary_scores(labels, [p.answer for p in test[1]], clusters=drugs, draws=draws)["accuracy"]
    area = auc(labels, p_yes, clusters=drugs)
    if not held_out[0]:
        return Calibrated(arm, None, area, plain, None)
    cut = threshold([q.label for q in held_out[0]], _p_yes(held_out[1]))
    moved = binary_scores(labels, [bool(p >= cut) for p in p_yes], clusters=drugs, draws=draws)["accuracy"]
    return Calibrated(arm, cut, area, plain, moved)


def report_calibrated(run: Run, rows: Sequence[Calibrated]) -> None:
    """Keep AUC and calibrated accuracy in the record; the paper prints neither."""
    for row in rows:
        label = figures.arm_label(row.arm)
        run.extra(f"auc.{row.arm}", f"AUC, {label}", row.auc)
        if row.calibrated:
            run.extra(f"calibrated.{row.arm}", f"accuracy at a held-out threshold, {label}", row.calibrated)


def _p_yes(predictions: Sequence[Prediction]) -> list[float]:
    of_answer = {True: 1.0, False: 0.0, None: 0.5}
    return [of_answer[p.answer] if p.p_yes is None else p.p_yes for p in predictions]


def decide_data_claims(
    run: Run, questions: Sequence[Question], knowledge: Mapping[str, Sequence[str]], longest: int
) -> None:
    """The claims about the benchmark itself: balance, labels, and the length of the longest list."""
    per_drug = pd.crosstab([q.drug for q in questions], [q.label for q in questions])
    balanced = bool((per_drug == 10).all(axis=None)) and len(set(questions)) == len(questions)
    run.claim(
        "side_effects.claim.benchmark_is_balanced",
        verdicts.exactly(balanced),
        f"{len(questions):,} distinct pairs of {len(per_drug):,} drugs; rows a drug and label: "
        f"{per_drug.to_numpy().min()} to {per_drug.to_numpy().max()}.",
    )
    known = {(d, e) for d, effects in knowledge.items() for e in effects}
    unsupported = sum(q.label and (q.drug, q.side_effect) not in known for q in questions)
    contradicted = sum(not q.label and (q.drug, q.side_effect) in known for q in questions)
    run.claim(
        "side_effects.claim.benchmark_labels_hold",
        verdicts.exactly(not unsupported and not contradicted),
        f"{unsupported} positive pairs are not in their drug's document, {contradicted} negative pairs are.",
    )
    run.claim(
        "side_effects.claim.lists_exceed_10000_characters",
        verdicts.exactly(longest > 10_000),
        f"The longest document has {longest:,} characters.",
    )


Answers = Mapping[tuple[str, str], pd.DataFrame]
"""By (arm, model): drug, side_effect, label and answer of each pair, released or rerun."""


def answers_table(questions: Sequence[Question], predictions: Sequence[Prediction]) -> pd.DataFrame:
    """The answers of a run in the form of the released ones."""
    return pd.DataFrame(
        {
            "drug": [q.drug for q in questions],
            "side_effect": [q.side_effect for q in questions],
            "label": [q.label for q in questions],
            "answer": pd.Series([p.answer for p in predictions], dtype=object),
        }
    )


def decide_arm_claims(
    run: Run,
    scores: Mapping[str, Scores],
    questions: Sequence[Question],
    predictions: Mapping[str, Sequence[Prediction]],
    *,
    model: str,
    released: Answers,
    draws: int,
) -> None:
    """The claims about the arms, each by the test that `data/published/side_effects.yml` states for it.

    Args:
        run: takes the verdicts.
        scores: of each arm.
        questions: that were asked.
        predictions: of each arm.
        model: who answered.
        released: the authors' answers, for the comparisons that stand beside this run's; empty for a sample.
        draws: of the tests and bootstraps.
    """
    claim = "side_effects.claim."
    right = {arm: correct(questions, predictions[arm]) for arm in (*ARMS, "lookup")}
    drugs = [q.drug for q in questions]

    def beats(name: str, pairs: Sequence[tuple[str, str]], forced: str = "") -> None:
        found = [paired_means(right[a], right[b], clusters=drugs, draws=draws) for a, b in pairs]
        ps = holm([test.p for test in found])
        words = "; ".join(_gain(pair, test, p) for pair, test, p in zip(pairs, found, ps, strict=True))
        run.claim(
            claim + name,
            verdicts.all_of(verdicts.better(test, p) for test, p in zip(found, ps, strict=True)),
            " ".join(filter(None, (f"{words}.", forced, released_words(run.printed, released, pairs, draws)))),
            p=max(ps),
        )

    closed = scores["closed_book"]["accuracy"]
    run.claim(
        claim + "closed_book_is_unreliable",
        verdicts.below(closed, 0.75),
        f"Closed-book accuracy of {model} is {_percent(closed)}.",
    )
    beats("retrieval_beats_closed_book", [(arm, "closed_book") for arm in ARMS[1:]])
    forced = forced_words(questions, predictions)
    beats("pairs_beat_lists", [("format_b", "format_a")], forced)
    beats("graphrag_beats_text_rag", [("graphrag", "format_a"), ("graphrag", "format_b")], forced)

    graph, ceiling = scores["graphrag"]["accuracy"], scores["lookup"]["accuracy"]
    against = paired_means(right["graphrag"], right["lookup"], clusters=drugs, draws=draws)
    run.claim(
        claim + "graphrag_reaches_ceiling",
        verdicts.on_par(against, margin=verdicts.WORTHWHILE),
        f"GraphRAG is at {_percent(graph)}, a plain lookup at {100 * ceiling.value:.1f} %: "
        f"{_gain(('graphrag', 'lookup'), against, against.p)}.",
        p=against.p,
    )
    wrong = [
        p.evidence == q.label
        for q, p in zip(questions, predictions["graphrag"], strict=True)
        if bool(p.answer) != q.label
    ]
    run.claim(
        claim + "residual_errors_are_llm_mislabels",
        verdicts.exactly(all(wrong)) if wrong else "undecided",
        f"{sum(wrong)} of {len(wrong)} wrong answers had the true fact in the prompt."
        if wrong
        else "GraphRAG answered every pair of this run correctly, so there is no error to explain.",
    )


def _gain(arms: tuple[str, str], test: Paired, p: float) -> str:
    first, second = map(figures.arm_label, arms)
    return f"{first} minus {second}: {figures.points(test)} points ({figures.p_words(p)})"


def forced_words(questions: Sequence[Question], predictions: Mapping[str, Sequence[Prediction]]) -> str:
    """Whether the retrieval arms had anything to differ by: in how many pairs each was handed the true label."""
    arms = ARMS[1:]
    same = sum(
        all(predictions[arm][i].evidence == question.label for arm in arms) for i, question in enumerate(questions)
    )
    told = f"In {same:,} of {len(questions):,} pairs the prompt of all three retrieval arms states the true label"
    if same < 0.98 * len(questions):
        return f"{told}."
    return f"{told}, as an exact filter over error-free labels must: the tie is forced, whatever the form."


def released_words(printed: Published, released: Answers, pairs: Sequence[tuple[str, str]], draws: int) -> str:
    """The same comparisons on the authors' released answers, p adjusted by Holm; empty if there are none."""
    if not released:
        return ""
    found = {(pair, model): _released_gain(released, pair, model, draws) for model in MODELS for pair in pairs}
    ps = holm([test.p for test in found.values()])
    words = "; ".join(
        f"{_gain(pair, test, p)} with {printed.number(_cell(MODELS[model], pair[0], 'accuracy')).model}"
        for ((pair, model), test), p in zip(found.items(), ps, strict=True)
    )
    return f"On the released answers: {words}."


def _released_gain(released: Answers, pair: tuple[str, str], model: str, draws: int) -> Paired:
    first, second = (released[arm, model] for arm in pair)
    both = first.merge(second, on=["drug", "side_effect", "label"], validate="one_to_one")
    right = [(both[answer].eq(True) == both.label).to_numpy() for answer in ("answer_x", "answer_y")]
    return paired_means(*right, clusters=both.drug, draws=draws)


def _percent(score: Score) -> str:
    return f"{100 * score.value:.1f} % [{100 * score.low:.1f}, {100 * score.high:.1f}], n = {score.n:,}"


def model_margin(answers: Answers, draws: int, seed: int = 0) -> Score:
    """By how much the choice of the arm matters more than that of the model, in accuracy.

    The smallest difference between neighbouring arms of one model minus the largest difference between the models in
    an arm, with a bootstrap over drugs.

    Args:
        answers: all four arms of two models, on the same pairs.
        draws, seed: of the bootstrap.
    """
    right = {key: t.answer.eq(True).eq(t.label).groupby(t.drug) for key, t in answers.items()}
    rows = next(iter(right.values())).size().to_numpy()
    hits = np.array([[right[arm, model].sum().to_numpy() for arm in ARMS] for model in MODELS])  # (models, arms, drugs)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=draws)

    def margin(times: NDArray[np.int64]) -> NDArray[np.float64]:
        accuracy = (times @ hits.transpose(0, 2, 1)).transpose(1, 0, 2) / (times @ rows)[:, None, None]
        between_arms = np.abs(np.diff(accuracy, axis=2)).min(axis=(1, 2))
        return between_arms - np.abs(np.diff(accuracy, axis=1)).max(axis=(1, 2))

    value = float(margin(np.ones((1, len(rows)), dtype=np.int64))[0])
    low, high = np.percentile(margin(drawn), [2.5, 97.5])
    return Score(value, int(rows.sum()), float(min(low, value)), float(max(high, value)))


def decide_models_claim(run: Run, released: Answers, rerun: Answers, draws: int) -> None:
    """Whether the choice of model matters less than that of architecture.

    The released answers of the paper's two models decide it; where there are none, this run's, if it asked two models.
    """
    claim = "side_effects.claim.model_difference_small"
    margins = {
        where: model_margin(answers, draws)
        for where, answers in (("on the released answers", released), ("in this run", rerun))
        if answers
    }
    if not margins:
        run.claim(claim, "not run", "The sample has no released answers, and this run asked one model.")
        return
    words = "; ".join(
        f"{where} {figures.signed(100 * m.value, 1)} points [{figures.signed(100 * m.low, 1)}, "
        f"{figures.signed(100 * m.high, 1)}], n = {m.n:,}"
        for where, m in margins.items()
    )
    run.claim(
        claim,
        verdicts.above(next(iter(margins.values())), 0),
        f"Smallest difference between neighbouring arms minus largest difference between the models: {words}.",
    )


# -------------------------------------------------------------------------------------------------------- tables


def rescored_table(printed: Published, rescored: Mapping[tuple[str, str], Scores]) -> pd.DataFrame:
    """The cells of Tables 1 and 2 whose rescored value does not round to the printed digits."""
    rows = []
    for (arm, model), scores in rescored.items():
        for metric in METRICS:
            number = printed.number(_cell(MODELS[model], arm, metric))
            off = scores[metric].value - number.value
            if abs(off) > (number.within("rescored") or 0.0) * (1 + 1e-9):
                rows.append(
                    {
                        "table": number.table,
                        "architecture": figures.arm_label(arm),
                        "score": metric,
                        "printed": number.printed,
                        "rescored": number.show(scores[metric].value, digits=2),
                        "95 % interval over drugs": f"{number.show(scores[metric].low, digits=1)} to "
                        f"{number.show(scores[metric].high, digits=1)}",
                    }
                )
    columns = ["table", "architecture", "score", "printed", "rescored", "95 % interval over drugs"]
    return pd.DataFrame(rows, columns=columns)


def result_table(
    printed: Published, rescored: Mapping[tuple[str, str], Scores], rerun: Mapping[str, Scores], model: str
) -> pd.DataFrame:
    """Accuracy, sensitivity and specificity of each arm: printed, rescored, rerun, and what could not be parsed."""
    rows = []
    for arm in (*ARMS, *(row for row in REFERENCE_ROWS if row in rerun)):
        for metric in ("accuracy", "f1", "sensitivity", "specificity"):
            of_arm = rerun.get(arm)
            paper = printed.number(_cell(MODELS[model], arm, metric)).printed if arm in ARMS else None
            released = rescored.get((arm, model))
            rows.append(
                {
                    "architecture": figures.arm_label(arm) if metric == "accuracy" else "",
                    "score": metric,
                    "printed": paper,
                    "rescored (n = 19,520)": released[metric] if released else None,
                    "rerun here": of_arm[metric] if of_arm else None,
                    "unparsed": of_arm[metric].unparsed if of_arm else None,
                }
            )
    table = pd.DataFrame(rows)
    shown = {"rescored (n = 19,520)", "rerun here"}
    for column in shown:
        table[column] = [None if s is None else figures.score_text(_without_unparsed(s)) for s in table[column]]
    return table


def _without_unparsed(score: Score) -> Score:
    return Score(score.value, score.n, score.low, score.high)


def tests_table(tests: pd.DataFrame) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        {
            "better": [figures.arm_label(arm) for arm in tests.better],
            "other": [figures.arm_label(arm) for arm in tests.other],
            "only the better is right": tests.only_better,
            "only the other is right": tests.only_other,
            "difference in points": [figures.points(row) for _, row in tests.iterrows()],
            "p (Holm)": [figures.p_text(p) for p in tests.p_holm],
        }
    )


def calibration_table(rows: Sequence[Calibrated]) -> pd.DataFrame:
    """AUC, accuracy as answered, and accuracy at the held-out threshold."""
    return pd.DataFrame(
        {
            "architecture": [figures.arm_label(row.arm) for row in rows],
            "AUC": [row.auc for row in rows],
            "accuracy as answered": [_without_unparsed(row.plain) for row in rows],
            "threshold on P(YES)": [row.threshold for row in rows],
            "accuracy at that threshold": [row.calibrated for row in rows],
        }
    )


def report_wordings(
    run: Run, questions: Sequence[Question], answers: Mapping[str, Sequence[Prediction]], draws: int
) -> pd.DataFrame:
    """Closed-book by wording: keep accuracy and AUC in the record, and give the table of both."""
    labels, drugs = [q.label for q in questions], [q.drug for q in questions]
    rows = []
    for wording, predictions in answers.items():
        scores = binary_scores(labels, [p.answer for p in predictions], clusters=drugs, draws=draws)
        area = auc(labels, _p_yes(predictions), clusters=drugs)
        name = "".join(c if c.isalnum() else "_" for c in wording)
        run.extra(f"wording.{name}.accuracy", f"closed-book accuracy, {wording}", scores["accuracy"])
        run.extra(f"wording.{name}.auc", f"closed-book AUC, {wording}", area)
        rows.append(
            {
                "wording": wording,
                "answers YES": share_of([p.answer is True for p in predictions], drugs),
                "accuracy": _without_unparsed(scores["accuracy"]),
                "AUC": area,
                "unparsed": scores["accuracy"].unparsed,
            }
        )
    return pd.DataFrame(rows)


def cut_table(printed: Published, whole: Scores, cut: Scores, at: int) -> pd.DataFrame:
    """Sensitivity and specificity of Format A with whole documents, with cut ones, and as printed."""
    rows = []
    for metric in ("sensitivity", "specificity"):
        rows.append(
            {
                "score": metric,
                "whole documents": _without_unparsed(whole[metric]),
                f"cut at {at:,} characters": _without_unparsed(cut[metric]),
                "printed, Qwen2.5-7B": printed.number(_cell("table1", "format_a", metric)).printed,
                "printed, Llama-3.1-8B": printed.number(_cell("table2", "format_a", metric)).printed,
            }
        )
    return pd.DataFrame(rows)


def differs_words(whole: Scores, cut: Scores, at: int, wordings: pd.DataFrame, model: str) -> str:
    """Two bullets in Markdown on what this run's values say of the model and of the list format.

    Args:
        whole: scores of Format A with whole documents.
        cut: the same with documents cut.
        at: characters after which they were cut.
        wordings: the table of `report_wordings`.
        model: who answered.
    """
    rows = wordings.to_dict("records")
    first, best = rows[0], max(rows, key=lambda row: row["accuracy"].value)
    area = first["AUC"]
    said = (
        f"Asked as the retrieval arms ask, {model} says YES to {figures.score_text(first['answers YES'])} of the "
        f"pairs, and ranks them with an AUC of {figures.number(area.value, 'count', digits=2)}"
        f"{figures.interval(area.low, area.high, 'count', digits=2)}. The most accurate wording ({best['wording']}) is "
        f"right in {figures.score_text(best['accuracy'])}, the first one in {figures.score_text(first['accuracy'])}."
    )
    lists = (
        f"With whole documents Format A finds {figures.score_text(whole['sensitivity'])} of the documented effects, "
        f"cut after {at:,} characters {figures.score_text(cut['sensitivity'])}."
    )
    return f"- **The model.** {said}\n- **The list, whole and cut.** {lists}"


# -------------------------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Cliff:
    """Where one model's Format A answers break off: the offset, and the share found before and after it."""

    model: str
    offset: int
    before: Score
    after: Score


def cliffs(offsets: pd.DataFrame) -> list[Cliff]:
    """The offset that splits found from missed best (fewest wrongly placed), for each model; intervals over drugs.

    Args:
        offsets: columns model, drug, offset, found.
    """
    found = []
    for model, rows in offsets.sort_values("offset").groupby("model"):
        hit = rows.found.to_numpy()
        # wrongly placed if cut before row i: missed before it, and found from it on
        wrong = np.concatenate([[0], np.cumsum(~hit)]) + np.concatenate([np.cumsum(hit[::-1])[::-1], [0]])
        at = int(np.argmin(wrong))
        offset = int(rows.offset.iloc[min(at, len(rows) - 1)])
        found.append(Cliff(str(model), offset, _found(rows[:at]), _found(rows[at:])))
    return found


def _found(rows: pd.DataFrame) -> Score:
    return share_of(rows.found, rows.drug) if len(rows) else Score(0.0, 0, 0.0, 1.0)


def describe_cliff(rows: Sequence[Cliff]) -> str:
    """What `draw_cliff` shows, in words made of its values."""
    parts = (
        f"{row.model} {100 * row.before.value:.0f} % before character {row.offset:,} and {100 * row.after.value:.0f} % "
        "from there on"
        for row in rows
    )
    return f"Share of documented effects that Format A found, by the character at which they stand: {'; '.join(parts)}."


def letters_table(offsets: pd.DataFrame, rows: Sequence[Cliff]) -> pd.DataFrame:
    """Share of documented effects found, by their first letter and by whether they stand before the break.

    The lists are alphabetical, so that letter and place go together; the table takes them apart. Intervals over drugs.

    Args:
        offsets: columns model, drug, side_effect, offset, found.
        rows: the break of each model.
    """
    table = []
    for row in rows:
        of_model = offsets[offsets.model == row.model]
        first = of_model.side_effect.str.startswith("a")
        for letter, mine in (('"a"', of_model[first]), ("another letter", of_model[~first])):
            before = mine.offset < row.offset
            table.append(
                {
                    "model": row.model,
                    "the effect begins with": letter,
                    "effects": len(mine),
                    "found": _found(mine),
                    "before the break": int(before.sum()),
                    "of them found": _found(mine[before]) if before.any() else None,
                    "from the break on": int((~before).sum()),
                    "of these found": _found(mine[~before]) if (~before).any() else None,
                }
            )
    return pd.DataFrame(table)


def report_cliffs(run: Run, rows: Sequence[Cliff]) -> None:
    """Keep the breaks in the record; the paper does not print them."""
    for row in rows:
        name = "".join(c if c.isalnum() else "_" for c in row.model.lower())
        run.extra(f"cliff.{name}.before", f"{row.model}: found before character {row.offset:,}", row.before)
        run.extra(f"cliff.{name}.after", f"{row.model}: found from character {row.offset:,} on", row.after)


def cliff_table(rows: Sequence[Cliff]) -> pd.DataFrame:
    """The break of each model in words and numbers."""
    return pd.DataFrame(
        {
            "model": [row.model for row in rows],
            "breaks off at character": [row.offset for row in rows],
            "found before": [row.before for row in rows],
            "found from there on": [row.after for row in rows],
        }
    )


def draw_cliff(offsets: pd.DataFrame, rows: Sequence[Cliff], width: int = 150, last: int = 4000) -> Figure:
    """Share of documented effects found, by their character offset, with 95 % intervals over drugs a bin.

    Args:
        offsets: columns model, drug, offset, found.
        rows: the breaks, drawn as dashed lines.
        width: of a bin in characters.
        last: offset where the drawing ends; later effects are in the last bin.
    """
    fig, axes = plt.subplots()
    colours = dict(
        zip(
            (row.model for row in rows),
            (figures.arm_colour("format_b"), figures.arm_colour("closed_book")),
            strict=False,
        )
    )
    for row in rows:
        of_model = offsets[offsets.model == row.model]
        bins = of_model.offset.clip(upper=last - 1) // width
        share = [_found(of) for _, of in of_model.groupby(bins)]
        centres = (np.array(sorted(bins.unique())) + 0.5) * width
        axes.plot(
            centres, [s.value for s in share], marker="o", markersize=4, color=colours[row.model], label=row.model
        )
        axes.fill_between(centres, [s.low for s in share], [s.high for s in share], color=colours[row.model], alpha=0.2)
        axes.axvline(row.offset, color=colours[row.model], linestyle="--", linewidth=1.2)
    axes.set(
        xlabel=f"character at which the effect stands (last bin: {last - width:,} and beyond)", ylabel="share found"
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(0, last)
    axes.legend()
    return fig


def draw_confusion(questions: Sequence[Question], predictions: Mapping[str, Sequence[Prediction]]) -> Figure:
    """What each arm answered to the pairs of either label: YES, NO, or nothing readable."""
    words = {True: "YES", False: "NO", None: "unparsed"}
    colours = {"YES": figures.arm_colour("format_b"), "NO": figures.arm_colour("closed_book"), "unparsed": "#808080"}
    fig, panels = plt.subplots(1, 2, sharey=True, figsize=(7.2, 3.2))
    for panel, label in zip(panels, (True, False), strict=True):
        left = np.zeros(len(ARMS))
        for answer, word in words.items():
            share = np.array(
                [
                    np.mean(
                        [
                            p.answer is answer
                            for q, p in zip(questions, predictions[arm], strict=True)
                            if q.label == label
                        ]
                    )
                    for arm in ARMS
                ]
            )
            panel.barh(
                [figures.arm_label(arm) for arm in ARMS], share, left=left, color=colours[word], label=word, height=0.62
            )
            for y, (start, width) in enumerate(zip(left, share, strict=True)):
                if width > 0.08:
                    panel.text(
                        start + width / 2,
                        y,
                        f"{100 * width:.0f} %",
                        ha="center",
                        va="center",
                        color="white",
                        fontsize=9,
                    )
            left += share
        panel.set_title("documented pairs" if label else "pairs that are not linked")
        panel.invert_yaxis() if label else None
        panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        panel.set_xlim(0, 1)
    sns.despine(fig, left=True)
    handles, texts = panels[0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=3)
    return fig
