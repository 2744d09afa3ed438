"""What notebook 06 reports beside claims.

These are printed numbers (Table II and the running text) and the page's answer.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from evaluation import evidence, figures
from evaluation.metrics import ALPHA, Score
from evaluation.outcomes import Outcomes
from evaluation.published import Number, Published
from evaluation.record import Run
from papers.drug_interactions.answering import ARMS, Arm
from papers.drug_interactions.qa import BASELINES, comparable, is_useful, within_scope
from papers.drug_interactions.rules import (
    GAIN_TOLERANCE,
    SCALES,
    StatedGain,
    rated_rows,
    readings,
    stated_gains,
    worth,
)

PRINTED: dict[Arm, str] = {
    "alone": "no_retrieval",
    "text": "rag_text",
    "agentic": "graphrag",
    "drugrag": "drugrag",
}
"""The row of Table II of each arm; the row called GraphRAG has the rating of agentic RAG."""
RATINGS: dict[str, Arm] = {
    "normalised.drugrag": "drugrag",
    "normalised.rag_text": "text",
    "normalised.no_retrieval": "alone",
    "normalised.agentic": "agentic",
    "agentic": "agentic",
}
GAINS: dict[str, Arm] = {"gain_no_retrieval": "alone", "gain_rag_text": "text"}
TABLE, TEXT = "drug_interactions.table2.", "drug_interactions.text."


def report_numbers(
    run: Run, both: Outcomes, models: Sequence[str], writer: str, truth: Score | None, alone: str
) -> None:
    """Report the printed numbers that these answers measure. A judge at chance fills none.

    Args:
        run: The run that reports.
        both: The rows of all models.
        models: The answering model and, if a second one answered, the smaller one.
        writer: The model that wrote the Cypher.
        truth: The AUC of the judge, right answers against wrong.
        alone: Why one model answers, if one does.
    """
    large = models[0]
    _report_missing_model(run, models, alone)
    rated = _rated_numbers(models)
    if is_useful(truth):
        _report_ratings(run, both, rated)
        _report_gains(run, both, large)
        _report_p(run, both, large)
    else:
        unused = f"We do not use the rating, because {worth(both.where(model=large), truth)}."
        in_text = [TEXT + name for name in (*GAINS, "p")]
        for number in (*rated, *in_text):
            run.not_run(number, unused)
    _report_cosines(run, both, large)
    _report_cypher(run, both, writer)
    _report_seconds(run, both, large)


def _report_missing_model(run: Run, models: Sequence[str], alone: str) -> None:
    if len(models) > 1:
        return
    why = f"In this run, only one model answers. It stands in for the paper's larger model. {alone}"
    for row in PRINTED.values():
        run.not_run(f"{TABLE}{row}.llama_8b", why)


class _Rated(NamedTuple):
    """The model and the arm whose rating a printed number is."""

    model: str
    arm: Arm


def _rated_numbers(models: Sequence[str]) -> dict[str, _Rated]:
    """Return what each printed rating is compared with, by its id."""
    large = models[0]
    rated = {f"{TEXT}{name}": _Rated(large, arm) for name, arm in RATINGS.items()}
    for arm, row in PRINTED.items():
        rated[f"{TABLE}{row}.llama_70b"] = _Rated(large, arm)
        if len(models) > 1:
            rated[f"{TABLE}{row}.llama_8b"] = _Rated(models[1], arm)
    return rated


def _report_ratings(run: Run, both: Outcomes, rated: Mapping[str, _Rated]) -> None:
    for number, (model, arm) in rated.items():
        medquad = both.where(model=model, task="medquad")
        scope = scope_words(rated_rows(medquad))
        note = f"This is the normalised rating of the answers to MedQuAD's questions. {scope}."
        run.rerun(number, medquad.score("rating", arm), model=model, note=note)


def _report_gains(run: Run, both: Outcomes, large: str) -> None:
    medquad = both.where(model=large, task="medquad")
    for name, arm in GAINS.items():
        baseline = medquad.score("rating", arm).value
        if not baseline:
            run.not_run(TEXT + name, "The baseline's rating is zero, so no relative gain exists.")
            continue
        gain = medquad.score("rating", "drugrag").value / baseline - 1
        run.rerun(
            TEXT + name, gain, model=large, note="The gain is relative to the normalised rating."
        )


def _report_p(run: Run, both: Outcomes, large: str) -> None:
    rows = both.where(model=large, task=["known", "medquad"])
    pairs = [("drugrag", baseline) for baseline in BASELINES]
    largest = max(comparison.p for comparison in rows.compare(pairs, "rating"))
    run.rerun(
        f"{TEXT}p", largest, model=large, note="This is the largest of the three p, by the rating."
    )


COSINES: dict[str, Arm] = {"similarity": "drugrag", "similarity_next_best": "agentic"}


def _report_cosines(run: Run, both: Outcomes, large: str) -> None:
    medquad = both.where(model=large, task="medquad")
    for name, arm in COSINES.items():
        score = medquad.score("cosine", arm)
        # the printed scale begins at 0, a cosine does not
        score = replace(
            score, value=max(score.value, 0.0), low=max(score.low, 0.0), high=max(score.high, 0.0)
        )
        note = (
            "This is the cosine to MedQuAD's answer, by the encoder of this run. "
            f"{scope_words(medquad)}. "
            "A mean below zero counts as 0."
        )
        run.rerun(TEXT + name, score, model=large, note=note)


def scope_words(medquad: Outcomes) -> str:
    """Say how many of MedQuAD's questions a graph of drugs can answer, without the full stop."""
    n_questions = medquad.frame.unit.nunique()
    n_in_scope = within_scope(medquad).frame.unit.nunique()
    return (
        f"Of the {n_questions} questions from MedQuAD, {n_in_scope} ask for side effects, "
        "precautions or interactions"
    )


STEP_WORDS = {
    "first_try": "the model's first Cypher statement",
    "repaired": "the model's second Cypher statement, after the first failed or found nothing,",
    "simplified": "a program's less strict form of a statement that failed or found nothing",
}
"""What is right at each step, within a sentence."""


def _report_cypher(run: Run, both: Outcomes, writer: str) -> None:
    written = both.where(task="cypher", arm="example")
    kinds = [strata.get("kind") for strata in written.frame.strata]
    n_branded, n_invented = kinds.count("brand names"), kinds.count("unknown names")
    name = "names" if n_branded == 1 else "name"
    questions_are = "question is" if n_invented == 1 else "questions are"
    for step, statement in STEP_WORDS.items():
        share = written.score(step)
        of_hundred = Score(100 * share.value, share.n, 100 * share.low, 100 * share.high)
        note = (
            f"This is the share of {share.n} questions for which {statement} is right. Of these "
            f"questions, {n_branded} {name} a brand that the graph lacks, so a first Cypher "
            "statement that copies the name cannot be right. Another "
            f"{n_invented} {questions_are} about an invented name, so a valid statement that uses "
            "this name is right."
        )
        run.rerun(f"{TEXT}cypher.{step}", of_hundred, model=writer, note=note)
    note = "The median includes repairs and the time spent waiting for other requests."
    run.rerun(f"{TEXT}cypher_seconds", written.score("median(seconds)"), model=writer, note=note)


def _report_seconds(run: Run, both: Outcomes, large: str) -> None:
    known = both.where(model=large, task="known")
    for end, percentile in (("low", 5), ("high", 95)):
        note = (
            f"This is the {percentile}th percentile of the times of DrugRAG's answers. It includes "
            "the time spent waiting for other requests."
        )
        score = known.score(f"p{percentile}(seconds)", "drugrag")
        run.rerun(f"{TEXT}answer_seconds.{end}", score, model=large, note=note)


def table_two(run: Run, both: Outcomes, models: Sequence[str], truth: Score | None) -> pd.DataFrame:
    """Return Table II: printed ratings, those of this run, and the F1 of the sets.

    Args:
        run: The run, for the printed numbers.
        both: The rows of all models.
        models: The models that answered.
        truth: The AUC of the judge; its ratings count if that is above chance.
    """
    rows = [_table_two_row(run, both.where(arm=arm), arm, models, truth) for arm in ARMS]
    return pd.DataFrame(rows)


def _table_two_row(
    run: Run, answers: Outcomes, arm: Arm, models: Sequence[str], truth: Score | None
) -> dict[str, object]:
    row: dict[str, object] = {"setting": answers.label(arm)}
    for size in ("70b", "8b"):
        row[f"printed, {size.upper()}"] = _printed_rating(run.printed, arm, size)
    for model in models:
        own_answers = answers.where(model=model)
        row[f"rating, {model}"] = "not rated" if truth is None else "judge at chance"
        if is_useful(truth):
            row[f"rating, {model}"] = own_answers.where(task="medquad").score("rating")
        row[f"F1, {model}"] = own_answers.where(task="known").score("f1")
    return row


def _printed_rating(printed: Published, arm: Arm, size: str) -> str | None:
    if arm not in PRINTED:
        return None
    return printed.number(f"{TABLE}{PRINTED[arm]}.llama_{size}").printed


ARM_WORDS = {"alone": "no retrieval", "text": "text RAG", "agentic": "agentic RAG"}
"""The baselines within a sentence."""


def answer(out: Outcomes, model: str) -> str:
    """Return the page's answer in Markdown: its conclusion, then a paragraph of details.

    Args:
        out: The rows of the larger model.
        model: Its name.
    """
    known = out.where(task="known")
    medquad = within_scope(out.where(task="medquad"))
    best = _best_baseline(known)
    conclusion = [
        f"**{_lead(known)}**",
        f"Its F1 is {_f1_text(known, 'drugrag')}, against {_f1_text(known, best)} for the best "
        f"baseline, {ARM_WORDS[best]}.",
        _limits(known, medquad),
    ]
    details = [
        _questions_text(known, medquad, model),
        _unread_text(known, best),
        f"With chapter 05's graph, DrugRAG's F1 is {_f1_text(known, 'ingested')}.",
        _cause_of_loss(medquad),
    ]
    paragraphs = [" ".join(filter(None, texts)) for texts in (conclusion, details)]
    return "\n\n".join(paragraphs)


def _lead(known: Outcomes) -> str:
    """Say which baselines DrugRAG is significantly ahead of by the graph of the questions."""
    graph = "with the graph behind the questions"
    names = "more of the right drugs and effects"
    not_ahead = _not_ahead(known, "drugrag")
    if not_ahead:
        others = figures.listed(not_ahead)
        return f"Even {graph}, DrugRAG does not name significantly {names} than {others}."
    baselines = figures.listed([ARM_WORDS[arm] for arm in BASELINES])
    return f"{graph[0].upper()}{graph[1:]}, DrugRAG names {names} than {baselines}."


def _limits(known: Outcomes, medquad: Outcomes) -> str:
    """Say where DrugRAG has no lead: by a graph that was read from text, and on MedQuAD."""
    limits = []
    not_ahead = _not_ahead(known, "ingested")
    if not_ahead:
        is_behind_all = len(not_ahead) == len(BASELINES)
        over = "" if is_behind_all else f" over {figures.listed(not_ahead)}"
        limits.append(
            f"With chapter 05's graph, read from text, DrugRAG has no significant lead{over}."
        )
    nearer = _nearer(medquad)
    if nearer:
        others = figures.listed(nearer)
        limits.append(
            "DrugRAG's answers are farther from MedQuAD's reference answers than those of "
            f"{others} are."
        )
    return " ".join(limits)


def _not_ahead(known: Outcomes, arm: str) -> list[str]:
    """Return the baselines that an arm is not significantly ahead of, in words."""
    pairs = [(arm, baseline) for baseline in BASELINES]
    not_ahead = []
    for comparison in known.compare(pairs, "f1"):
        is_ahead = comparison.test.value > 0 and comparison.p < ALPHA
        if not is_ahead:
            not_ahead.append(ARM_WORDS[comparison.second])
    return not_ahead


def _nearer(medquad: Outcomes) -> list[str]:
    """Return the baselines that are significantly nearer to MedQuAD's answers, in words."""
    if medquad.frame.empty:
        return []
    pairs = [("drugrag", baseline) for baseline in BASELINES]
    nearer = []
    for comparison in medquad.compare(pairs, "cosine"):
        if comparison.test.value < 0 and comparison.p < ALPHA:
            nearer.append(ARM_WORDS[comparison.second])
    return nearer


def _questions_text(known: Outcomes, medquad: Outcomes, model: str) -> str:
    """Say which questions the model answered."""
    n_questions = known.score("f1", "drugrag").n
    n_medquad = medquad.frame.unit.nunique()
    return (
        f"{model} answered {n_questions} questions drawn from the graph that DrugRAG queries, and "
        f"{n_medquad} of MedQuAD's questions on side effects, precautions and interactions."
    )


def _unread_text(known: Outcomes, best: str) -> str:
    """Say how many answers of DrugRAG and of the best baseline could not be read."""
    n_own, n_best = (known.score("f1", arm).unparsed for arm in ("drugrag", best))
    if not n_own and not n_best:
        return ""
    return (
        f"Replies in which no answer could be read count as wrong ({n_own} by DrugRAG, {n_best} by "
        f"{ARM_WORDS[best]})."
    )


def _cause_of_loss(medquad: Outcomes) -> str:
    """Say how many of DrugRAG's replies are "Not known", if no retrieval is nearer."""
    replies = medquad.rows_with("answered", "drugrag")
    n_silent = sum(measures["answered"][0] == 0 for measures in replies.measures)
    if ARM_WORDS["alone"] not in _nearer(medquad) or not n_silent:
        return ""
    text = (
        f'DrugRAG replied with "Not known" or similar words to {n_silent} of these {len(replies)} '
        'questions of MedQuAD. This project\'s prompt asks for "Not known" where the evidence does '
        "not contain the answer. The baseline without retrieval gets no such instruction, as in "
        "the paper."
    )
    for comparison in comparable(medquad, [("drugrag", "alone")], "cosine_answered"):
        test = comparison.test
        text += (
            f" On the {test.n} questions that both methods answered, the cosine of DrugRAG's "
            "answers to the references minus that of no retrieval is "
            f"{figures.points(test)} points."
        )
    return text


def _best_baseline(known: Outcomes) -> str:
    """Return the baseline with the highest F1."""
    return max(BASELINES, key=lambda arm: known.score("f1", arm).value)


def _f1_text(known: Outcomes, arm: str) -> str:
    """Return an F1 with its interval alone."""
    return figures.score_text(replace(known.score("f1", arm), unparsed=0))


OVER = {"gain_no_retrieval": "over no retrieval", "gain_rag_text": "over both text baselines"}
"""What the abstract's gains are gains over."""


def gains_text(printed: Published) -> str:
    """Say in Markdown on which scales the abstract's gains agree with Table II as printed.

    It is arithmetic on Table II; no answer is rescored.
    """
    paragraphs = (_scales_text(printed), _tolerance_text(printed), _digits_text(printed))
    return "\n\n".join(paragraphs)


def _scales_text(printed: Published) -> str:
    """Say on which scales the stated gains agree with the 70B model's scores."""
    gains = stated_gains(printed)
    sentences = [
        "The abstract states both gains without a scale. With the 70B model's scores, we measure "
        f"each gain {figures.listed(SCALES)}."
    ]
    for name, gain in gains.items():
        sentences += _gain_sentences(gain, OVER[name])
    scales = [set(gain.scales()) for gain in gains.values()]
    if not set.intersection(*scales):
        sentences.append(
            "On no scale do both claims agree with Table II, so both are inconclusive."
        )
    return " ".join(sentences)


def _gain_sentences(gain: StatedGain, over: str) -> Iterator[str]:
    """Say on which scales Table II gives a stated gain, then the gain on each other scale."""
    shown = {}
    for scale, values in gain.by_scale().items():
        amounts = [_amount(value, scale) for value in values]
        shown[scale] = figures.listed(amounts)
    scales = gain.scales()
    stated = f"Table II gives a gain of about {_percent(gain.stated, 0)} {over}"
    if scales:
        amounts = [shown.pop(scale) for scale in scales]
        yield f"**{stated} only {figures.listed(scales)}** ({'; '.join(amounts)})."
    else:
        yield f"**{stated} on none of these scales.**"
    rows = figures.listed([baseline.row for baseline in gain.baselines])
    noun, verb = ("gain", "is") if len(gain.baselines) == 1 else ("gains", "are")
    for scale, amount in shown.items():
        yield f"{evidence.sentence_case(scale)}, the {noun} over {rows} {verb} {amount}."


def _tolerance_text(printed: Published) -> str:
    """Say how the tolerance, another divisor and the 8B model would change the result."""
    no_retrieval, texts = stated_gains(printed).values()
    for_texts = min(texts.distances().values())
    for_both = {}
    for scale, distance in texts.distances().items():
        for_both[scale] = max(distance, no_retrieval.distances()[scale])
    nearest = min(for_both, key=lambda scale: for_both[scale])
    (alone,) = no_retrieval.shares_of_best()
    others = [_percent(share) for share in texts.shares_of_best()]
    tolerance = f"{100 * GAIN_TOLERANCE:.1f} points"
    return (
        f"A gain counts as the stated gain if the two differ by at most {tolerance}. With a "
        f"tolerance of {_tenths_below(for_texts)} points or less, none of the "
        f"{figures.in_words(len(SCALES))} scales gives {_percent(texts.stated, 0)} "
        f"{OVER['gain_rag_text']}. With a tolerance of "
        f"{_tenths(for_both[nearest])} points or more, Table II gives both gains {nearest}. "
        f"Divided by DrugRAG's own score, the gains are {_percent(alone)} over no retrieval, and "
        f"{figures.listed(others)} over the text baselines. These values are near both stated "
        "gains, but a gain is not usually measured in this way. They decide nothing, because we "
        f"computed them after we had fixed the rule. {_small_model_text(printed, tolerance)}"
    )


def _small_model_text(printed: Published, tolerance: str) -> str:
    """Give the 8B model's gains in rating."""
    gains = stated_gains(printed, "8b").values()
    rating = SCALES[2]
    amounts = []
    for gain in gains:
        for baseline, value in zip(gain.baselines, gain.by_scale()[rating], strict=True):
            amounts.append(f"{_percent(value)} over {baseline.row}")
    text = (
        f"{evidence.sentence_case(rating)}, the gains of DrugRAG with the 8B model are "
        f"{figures.listed(amounts)}."
    )
    if any(rating not in gain.scales() for gain in gains):
        return text
    return (
        f"{text} Both stated gains therefore hold within {tolerance} for the 8B model, but the "
        "abstract is about the 70B model."
    )


def _digits_text(printed: Published) -> str:
    """Say which scales of ratings the digits of Table II allow."""
    names = ("questions", "rating_step", "lowest_mark", "highest_mark")
    n, step, low, high = (Decimal(printed.number(TEXT + name).printed) for name in names)
    of_range = 100 * step / (high - low) / n
    cut, to_even, up = (
        _possible(printed, [n_possible(printed, of_range, rounding)]) for rounding in ROUNDINGS
    )
    rating = f"{low:.0f} + {high - low:.0f}x"
    return (
        f"For the rating, we assume that a printed score x stands for {rating}, whereas the paper "
        'calls its scores "out of 100". The digits of Table II do not tell which of the two is '
        f"right. On the scale of {rating}, a mean of {n:.0f} ratings in steps of {step} points is "
        f"a multiple of {float(of_range):g} %. If the authors cut such means off after one "
        f"decimal, {cut} possible. If they rounded halves to even, {to_even} possible. If they "
        f"rounded halves up, {up} possible. If a printed x stands for {high:.0f}x, "
        f"{_possible_as(printed, 100 * step / high / n)} possible, whether cut off or rounded. As "
        f"shares of right answers among {n:.0f} questions, {_possible_as(printed, 100 / n)} "
        "possible."
    )


def _possible_as(printed: Published, step: Decimal) -> str:
    counts = [n_possible(printed, step, rounding) for rounding in ROUNDINGS]
    return _possible(printed, counts)


def _possible(printed: Published, counts: Sequence[int]) -> str:
    """Say how many values of Table II are possible, as a subject with its verb."""
    numbers = _table_two_numbers(printed)
    n_values = figures.in_words(len(numbers))
    words = [figures.in_words(count) for count in sorted(set(counts))]
    if words == [n_values]:
        return f"all {n_values} values of Table II are"
    if not any(counts):
        return f"none of the {n_values} values of Table II is"
    return f"{' or '.join(words)} values are"


ROUNDINGS = (ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP)
"""How the authors may have shortened a mean: cut off, or rounded in two ways."""


def n_possible(printed: Published, step: Decimal, rounding: str) -> int:
    """Count the values of Table II that a multiple of `step` per cent is printed as."""
    digit = Decimal("0.1")
    n_steps = int(100 / step)
    prints = {(k * step).quantize(digit, rounding) for k in range(n_steps + 1)}
    values = [number.printed.removesuffix("%") for number in _table_two_numbers(printed)]
    return sum(Decimal(value) in prints for value in values)


def _table_two_numbers(printed: Published) -> list[Number]:
    return [number for number in printed.numbers if number.table == "Table II"]


def _amount(value: float, scale: str) -> str:
    """Return a gain on a scale, which is in points or relative."""
    return f"{100 * value:.1f}" if scale == SCALES[0] else _percent(value)


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _tenths(distance: float) -> str:
    """Return the smallest tolerance in tenths of a point that allows a distance."""
    return f"{math.ceil(1000 * distance - 1e-6) / 10:.1f}"


def _tenths_below(distance: float) -> str:
    """Return the largest tolerance in tenths of a point that does not allow a distance."""
    return f"{(math.ceil(1000 * distance - 1e-6) - 1) / 10:.1f}"


MARKERS = "o^s"
"""The marker of each of `SCALES`."""


def gains_figure(printed: Published) -> figures.Picture:
    """Draw DrugRAG's printed gain on each baseline, on three scales.

    It is arithmetic on Table II, its larger model; no answer is rescored.
    """
    wide, wide_axes = plt.subplots(figsize=(7.4, 2.6))
    narrow, narrow_axes = plt.subplots(figsize=(4.2, 3.6))
    labels: list[str] = []
    texts = []
    for gain in stated_gains(printed).values():
        for baseline in gain.baselines:
            values = readings(gain.best, baseline.value)
            for axes in (wide_axes, narrow_axes):
                _draw_gain(axes, len(labels), values, gain.stated)
            labels.append(f"over {baseline.row}")
            texts.append(f"Over {baseline.row}, {_gains_text(values, gain.stated)}")
    for axes, characters in ((wide_axes, 40), (narrow_axes, 14)):
        axes.set_yticks(range(len(labels)), [textwrap.fill(label, characters) for label in labels])
        axes.set(ylim=(len(labels) - 0.5, -0.5), xlim=(0, None))
        axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    wide_axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    narrow_axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.15), frameon=False)
    caption = (
        "The gains that the abstract states (lines), beside the gains that Table II gives with the "
        f"70B model on three scales (markers). {'. '.join(texts)}."
    )
    return figures.figure(wide, narrow=narrow, alt=caption, caption=caption)


def _draw_gain(axes: Axes, row: int, gains: Sequence[float], stated: float) -> None:
    """Draw a gain on each scale, and the stated one; the first row labels them."""
    colour = figures.arm_colour("graphrag")
    for marker, scale, gain in zip(MARKERS, SCALES, gains, strict=True):
        axes.plot(gain, row, marker, color=colour, label="" if row else scale)
    label = "" if row else "stated in the abstract"
    axes.plot(stated, row, "|", markersize=22, color=figures.INK, label=label)


def _gains_text(gains: Sequence[float], stated: float) -> str:
    points, relative, rated = (f"{100 * gain:.1f}" for gain in gains)
    return (
        f"the stated gain is {100 * stated:.0f} %, and Table II gives {points} points, "
        f"{relative} % {SCALES[1]}, and {rated} % {SCALES[2]}"
    )
