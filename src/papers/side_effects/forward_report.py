"""What notebook 01 shows beyond its rows of answers.

The data, the printed tables, and where Format A's released answers break off.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation import audit, figures
from evaluation.metrics import Score, ratio
from evaluation.outcomes import Outcomes
from evaluation.published import Number
from evaluation.record import Run
from papers.side_effects.corpus import Question
from papers.side_effects.forward import ARMS, METRICS, MODELS

LABELS = {arm: label for arm, (label, _) in figures.ARMS.items()} | {
    "format_a_cut": "RAG (Format A, documents cut)"
}
COLOURS = {arm: colour for arm, (_, colour) in figures.ARMS.items()} | dict.fromkeys(
    ("format_a", "format_a_cut", "format_b"), figures.arm_colour("format_a")
)
"""One colour for each source: none, texts of either format, the graph."""
MAX_FURTHER_DIGITS = 4
"""How many digits more than the paper prints may show that two values differ."""
NEIGHBOUR = "one contains the asked term, or is contained in it"
NO_NEIGHBOUR = "none does"
"""Whether a listed term of the drug is a neighbour of the asked one."""


def report_data(run: Run, benchmark: Sequence[Question]) -> figures.Html:
    """Report the benchmark's counts and show them beside the printed ones.

    Args:
        run: The run to report to; a sample has no counts to report.
        benchmark: All questions of the benchmark.
    """
    drugs = [question.drug for question in benchmark]
    labels = [question.label for question in benchmark]
    per_label = pd.crosstab(drugs, labels)
    counts = {
        "pairs": len(benchmark),
        "drugs": len(set(drugs)),
        "effects": len({question.side_effect for question in benchmark}),
        "positives_per_drug": per_label[True].mean(),
        "negatives_per_drug": per_label[False].mean(),
    }
    rows = []
    for name, count in counts.items():
        number = run.printed.number(f"side_effects.text.{name}")
        rows.append({"what": number.column, "printed": number.printed, "counted": f"{count:,.6g}"})
        if run.sample:
            run.not_run(number.id, "The data are SAMPLE.", kind="rescored")
        else:
            run.rescored(number.id, float(count), source="side_effects/evaluation_dataset.csv")
    return figures.table(pd.DataFrame(rows), "The benchmark", sample=run.sample)


def answer(outcomes: Outcomes, model: str) -> str:
    """Write the chapter's answer from the rows."""
    rerun = outcomes.where(source="rerun", model=[model, ""])
    closed_book, *others = (rerun.score("accuracy", arm) for arm in ARMS)
    lowest = min(others, key=lambda score: score.value)
    n_right = round(lowest.n * lowest.value)
    own_answer = (
        f"Alone, {model} answers {figures.score_text(closed_book)} of {closed_book.n:,} yes/no "
        "questions correctly, where guessing gives 50 %. If its prompt states what a filter over "
        f"whole texts or a graph query found, the model answers at least {n_right:,} of "
        f"{lowest.n:,} questions correctly."
    )
    released = outcomes.where(source="released")
    if not len(released.frame):
        return own_answer
    return (
        f"{own_answer} In the authors' released answers, where the model reads the retrieved texts "
        "itself, the graph is more accurate than text retrieval by at least "
        f"{_least_gain(released, 'graphrag', 'format_b')} points.\n\n"
        "The graph's lead is smallest over texts with one sentence per pair (Format B). Format B "
        "is in turn more accurate than texts with one list per drug (Format A), by at least "
        f"{_least_gain(released, 'format_b', 'format_a')} points. Most effects that Format A "
        "misses lie beyond character 2,000 of the prompt, as if the prompts had been cut there."
        f"{_lead_by_authors_prompts(rerun, model)}"
    )


def _lead_by_authors_prompts(rerun: Outcomes, model: str) -> str:
    """Give the graph's lead where this run's model reads the texts itself; empty if not run."""
    pair = ("authors_graphrag", "authors_format_b")
    if not rerun.arms_with("accuracy").issuperset(pair):
        return ""
    (comparison,) = rerun.compare([pair], "accuracy")
    return (
        f" With the authors' released prompts, {model} reads the texts itself too. With these "
        "prompts, the accuracy of the graph minus that of Format B is "
        f"{figures.points(comparison.test)} points (n = {comparison.test.n:,})."
    )


def _least_gain(released: Outcomes, first: str, second: str) -> str:
    """Return the smaller gain of an arm over another, of both models' released answers."""
    comparisons = released.compare([(first, second)], "accuracy", within="model")
    least = min(comparisons, key=lambda comparison: comparison.test.difference)
    return figures.points(least.test)


def report_tables(
    run: Run, outcomes: Outcomes, model: str, second_model: str, why_one_model: str
) -> None:
    """Report Tables 1 to 3: the released answers of both models, and this run's.

    Args:
        run: The run to report to.
        outcomes: All rows.
        model: What answered here for the paper's first model.
        second_model: What answered for its second; empty if nothing did.
        why_one_model: Why there is no second model, if so.
    """
    released = outcomes.where(source="released")
    served_models = (model, second_model)
    for (paper_model, table), served in zip(MODELS.items(), served_models, strict=True):
        own_rows = outcomes.where(source="rerun", model=served or "none")
        run.report(released.concat(own_rows), f"side_effects.{table}", METRICS, model=served)
        paper_name = _printed_model(run, paper_model)
        for arm in ARMS:
            number = run.printed.number(f"side_effects.table3.{arm}.{paper_model}")
            if len(released.frame):
                score = released.where(model=paper_name).score("accuracy", arm)
                run.rescored(number.id, score, source=number.rescore_from[0])
            if served:
                run.rerun_of(number.id, own_rows.where(arm=arm), "accuracy", model=served)
    for arm in ARMS:
        _report_difference(run, outcomes.where(arm=arm), arm, model, second_model)
    _report_missing(run, second_model, why_one_model)


def _report_missing(run: Run, second_model: str, why_one_model: str) -> None:
    for number in run.printed.numbers:
        if not second_model and _needs_second_model(number.id):
            run.not_run(number.id, why_one_model)
        elif _is_of_chatgpt(number.id):
            run.cannot_run(number.id, number.why_no_rerun or "")


def _printed_model(run: Run, paper_model: str) -> str:
    number = run.printed.number(f"side_effects.{MODELS[paper_model]}.graphrag.accuracy")
    return number.model or ""


def _needs_second_model(number_id: str) -> bool:
    in_table3 = ".table3." in number_id and not number_id.endswith(".qwen")
    return in_table3 or number_id.startswith("side_effects.table2.")


def _is_of_chatgpt(number_id: str) -> bool:
    return number_id.startswith("side_effects.text.chatgpt_") and not number_id.endswith("_drugs")


def _report_difference(
    run: Run, outcomes: Outcomes, arm: str, model: str, second_model: str
) -> None:
    """Report the difference between two models of Table 3, of the rows of one arm."""
    number = run.printed.number(f"side_effects.table3.{arm}.difference")
    released = outcomes.where(source="released")
    if len(released.frame):
        first, second = _printed_model(run, "qwen"), _printed_model(run, "llama")
        points, note = _difference(released, first, second, number)
        run.rescored(number.id, points, source=number.rescore_from[0], note=note)
    if second_model:
        own_rows = outcomes.where(source="rerun")
        points, note = _difference(own_rows, model, second_model, number)
        run.rerun(number.id, points, model=f"{model} and {second_model}", note=note)


def _difference(outcomes: Outcomes, first: str, second: str, number: Number) -> tuple[Score, str]:
    """Compare two models on the rows of one arm.

    Args:
        outcomes: Rows of one arm by several models.
        first: The model whose accuracy is the minuend.
        second: The other model.
        number: The printed number, for its way of writing.

    Returns:
        The difference in points. Where replies were not parsed, also a note that gives it with as
        many digits as it takes to differ from what it would be if UNKNOWN counted as wrong.
    """
    rows = outcomes.frame
    n_models = rows.groupby("unit").model.transform("nunique")
    rows = rows[n_models == rows.model.nunique()]
    # one arm by two models: each model is an arm of its own here
    by_model = Outcomes(rows.assign(arm=rows.model), draws=outcomes.draws)
    (comparison,) = by_model.compare([(first, second)], "accuracy")
    test = comparison.test
    points = Score(100 * test.difference, test.n, 100 * test.low, 100 * test.high)
    if rows.parsed.all():
        return points, ""
    strict = (rows.predicted == rows.gold).groupby(rows.model).mean()
    strict_points = 100 * (strict[first] - strict[second])
    as_no, if_wrong = _shown_apart(number, points.value, strict_points)
    note = (
        "The answer UNKNOWN counts as NO, as in Tables 1 and 2, and the difference is "
        f"{as_no}. If UNKNOWN counted as wrong, the difference would be {if_wrong}."
    )
    return points, note


def _shown_apart(number: Number, value: float, other: float) -> tuple[str, str]:
    """Write two values with the same number of digits, as few as show their difference."""
    for digits in range(MAX_FURTHER_DIGITS + 1):
        shown = number.show(value, digits)
        other_shown = number.show(other, digits)
        if shown != other_shown:
            return _with_minus(shown), _with_minus(other_shown)
    same = _with_minus(number.show(value))
    return same, same


def _with_minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def sides(outcomes: Outcomes, cut: int) -> str:
    """Describe how often Format A finds documented effects before and beyond a character.

    Args:
        outcomes: Rows with the measure ``place``.
        cut: The character.

    Returns:
        A sentence per model, with Format B's share of the effects before the character.
    """
    rows = outcomes.where(arm="format_a", gold="YES").frame
    rows = rows.assign(place=_places(rows))
    units_before = [*rows.unit[rows.place <= cut].unique()]
    format_b = outcomes.where(arm="format_b", unit=units_before)
    sentences = []
    for model, of_model in rows.groupby("model"):
        before = _share_found(of_model[of_model.place <= cut])
        beyond = _share_found(of_model[of_model.place > cut])
        by_format_b = _share_found(format_b.where(model=str(model)).frame)
        sentences.append(
            f"With {model}, Format A finds {before} of the effects that end before character "
            f"{cut:,}, and {beyond} of the effects that end beyond it. Format B finds "
            f"{by_format_b} of the effects that end before this character in Format A's prompt."
        )
    return " ".join(sentences)


def _places(rows: pd.DataFrame) -> list[float]:
    """Return the measure ``place`` of each row, not a number where it has none."""
    no_place = (np.nan, 1.0)
    return [measures.get(audit.PLACE, no_place)[0] for measures in rows.measures]


def _found_score(rows: pd.DataFrame) -> Score:
    return ratio(rows.predicted == "YES", np.ones(len(rows)), clusters=rows.cluster)


def _share_found(rows: pd.DataFrame) -> str:
    return figures.score_text(_found_score(rows))


def recorded(files: Iterable[Path]) -> list[tuple[bool, float]]:
    """Read whether each released prediction is right, and its confidence; UNKNOWN is NO."""
    predictions = []
    for file in files:
        for row in json.loads(file.read_text("utf-8"))["detailed_results"]:
            is_right = (row["predicted"] == "YES") == bool(row["true_label"])
            predictions.append((is_right, row["confidence"]))
    return predictions


def confidences(predictions: Iterable[tuple[bool, float]]) -> str:
    """Write the confidences of `recorded` in words."""
    words = []
    for (is_right, confidence), n in sorted(Counter(predictions).items()):
        quality = "right" if is_right else "wrong"
        plural = "" if n == 1 else "s"
        words.append(f"{confidence:g} for {n:,} {quality} answer{plural}")
    return f"GraphRAG's recorded confidence is {figures.listed(words)}"


def draw_places(outcomes: Outcomes, cut: int, width: int = 100, last: int = 3000) -> Figure:
    """Draw the share of right answers by the measure `place`, with 95 % intervals over drugs.

    Args:
        outcomes: Rows with the measure; rows without it are left out.
        cut: Where a dashed line is drawn, in characters.
        width: Width of a bin, in characters.
        last: Rows beyond this character are in the last bin.

    Returns:
        The figure, with a line per model.
    """
    rows = outcomes.frame
    rows = rows.assign(place=_places(rows)).dropna(subset="place")
    bins = rows.place.clip(0, last - 1) // width
    rows = rows.assign(bin=bins.astype(int))
    fig, axes = plt.subplots()
    colour = figures.arm_colour("format_a")
    styles = ("o-", "x--")
    for style, (model, of_model) in zip(styles, rows.groupby("model"), strict=True):
        scores = [_found_score(in_bin) for _, in_bin in of_model.groupby("bin")]
        centres = (np.unique(of_model.bin) + 0.5) * width
        shares = [score.value for score in scores]
        lows = [score.low for score in scores]
        highs = [score.high for score in scores]
        axes.plot(centres, shares, style, markersize=4, color=colour, label=model)
        axes.fill_between(centres, lows, highs, color=colour, alpha=0.2)
    axes.axvline(cut, color=figures.INK, linestyle="--", linewidth=1.2)
    beyond = f"last bin: {last - width:,} and beyond"
    axes.set(xlabel=f"character of the prompt at which the effect ends ({beyond})")
    axes.set(ylabel="share found", ylim=(-0.02, 1.02), xlim=(0, last))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.legend()
    return fig


def by_name(outcomes: Outcomes, label: str) -> Outcomes:
    """Split false pairs by arm and model, and by whether the question has the label inside a word.

    Args:
        outcomes: Rows of yes/no questions.
        label: The label, for example ``yes``.

    Returns:
        The rows with the stratum ``name``, those with the label first.
    """
    rows = outcomes.where(gold="NO").frame
    has_label = rows.question.str.contains(label, case=False)
    names = has_label.map({True: f'"{label}" in the name', False: "other names"})
    strata = names.map(lambda name: {"name": name})
    arms = rows.arm.map(outcomes.label) + ", " + rows.model
    # the panel of the few rows comes first
    order = (~has_label).sort_values().index
    return Outcomes(rows.assign(strata=strata, arm=arms).loc[order], draws=outcomes.draws)


ARM_OF_PROMPT = {
    "authors_query": "closed_book",
    "authors_batch": "closed_book",
    "authors_format_a": "format_a",
    "authors_format_b": "format_b",
    "authors_graphrag": "graphrag",
}
"""The architecture of each of the authors' prompts."""


def prompts_table(
    run: Run, outcomes: Outcomes, by_released_prompts: Outcomes, paper_model: str, served: str
) -> figures.Html:
    """Show accuracy by the paper's text and by the released prompts, beside the printed cells.

    Both reruns are of the same pairs.

    Args:
        run: The run, for the printed numbers.
        outcomes: The released answers, and those by the prompts printed in the paper.
        by_released_prompts: The answers by the authors' prompts.
        paper_model: The key of `MODELS` of the paper's model.
        served: What answered for it here.
    """
    released = outcomes.where(source="released", model=_printed_model(run, paper_model))
    own_rows = by_released_prompts.where(model=served)
    same_pairs = outcomes.where(source="rerun", model=served, unit=[*own_rows.frame.unit.unique()])
    rows = []
    for prompt, arm in ARM_OF_PROMPT.items():
        number = run.printed.number(f"side_effects.{MODELS[paper_model]}.{arm}.accuracy")
        row = {
            "architecture and released prompt": own_rows.label(prompt),
            "printed": number.printed,
            "rescored": _accuracy(released, arm),
            "rerun, prompt printed in the paper": _accuracy(same_pairs, arm),
            "rerun, released prompt": _accuracy(own_rows, prompt),
        }
        rows.append(row)
    n_pairs = own_rows.frame.unit.nunique()
    caption = (
        "Accuracy by prompt. The printed and rescored values are those of "
        f"{_printed_model(run, paper_model)} on 19,520 pairs. The values of the reruns are those "
        f"of {served} on {n_pairs:,} pairs, the same pairs with either prompt."
    )
    return figures.table(pd.DataFrame(rows), caption, sample=run.sample)


def _accuracy(outcomes: Outcomes, arm: str) -> str:
    if arm not in outcomes.arms_with("accuracy"):
        return ""
    return figures.score_text(outcomes.score("accuracy", arm))


_WORD = re.compile(r"\w+")


def has_neighbour(effect: str, listed: Iterable[str]) -> bool:
    """Whether a listed term contains all words of another one in a row, or is contained in it."""
    words = _padded_words(effect)
    for term in listed:
        other = _padded_words(term)
        if words in other or other in words:
            return True
    return False


def _padded_words(term: str) -> str:
    return f" {' '.join(_WORD.findall(term.lower()))} "


def by_neighbour(
    outcomes: Outcomes, questions: Iterable[Question], knowledge: Mapping[str, Sequence[str]]
) -> Outcomes:
    """Split false pairs by model, and by whether the drug has a neighbouring term.

    Args:
        outcomes: Rows of one arm.
        questions: The questions that they answer, and perhaps others.
        knowledge: The side effects of each drug.

    Returns:
        The rows with the stratum ``terms of the drug``; the models are the arms.
    """
    rows = outcomes.where(gold="NO").frame
    by_unit = {question.unit: question for question in questions}

    def stratum(unit: str) -> dict[str, str]:
        question = by_unit[unit]
        is_near = has_neighbour(question.side_effect, knowledge[question.drug])
        return {"terms of the drug": NEIGHBOUR if is_near else NO_NEIGHBOUR}

    strata = rows.unit.map(stratum)
    return Outcomes(rows.assign(strata=strata, arm=rows.model), draws=outcomes.draws)


def describe_neighbours(split: Outcomes) -> str:
    """Write the share of wrong answers with and without a neighbouring term, by model.

    The last sentence says how many of all wrong answers have such a term.
    """
    sentences = []
    for model, of_model in split.frame.groupby("arm"):
        rows = split.where(arm=str(model))
        near = rows.where(**{"terms of the drug": NEIGHBOUR})
        far = rows.where(**{"terms of the drug": NO_NEIGHBOUR})
        n_wrong = int((of_model.predicted == "YES").sum())
        n_near = int((near.frame.predicted == "YES").sum())
        share_near = figures.number(n_near / n_wrong if n_wrong else None)
        sentences.append(
            f"{model} wrongly answers YES to {_wrong_share(near)} of the {len(near.frame):,} pairs "
            f"with an overlapping term, and to {_wrong_share(far)} of the {len(far.frame):,} other "
            f"pairs. Pairs with an overlapping term account for {n_near:,} of the {n_wrong:,} "
            f"wrong YES answers of {model} ({share_near})."
        )
    return " ".join(sentences)


def _wrong_share(outcomes: Outcomes) -> str:
    rows = outcomes.frame
    score = ratio(rows.predicted == "YES", np.ones(len(rows)), clusters=rows.cluster)
    return figures.score_text(score)
