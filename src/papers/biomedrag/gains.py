"""The paper's own comparison: BiomedRAG's example, added to a fine-tuned or to a prompted model.

Source: biomedrag.md, Tables 1 and 2, and the gains in the text of section 2.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from evaluation import dumbbell, figures
from evaluation.dumbbell import Dumbbell
from evaluation.metrics import ALPHA
from evaluation.outcomes import Comparison, Outcomes, adjust_by_holm
from evaluation.published import Published
from evaluation.record import Run
from papers.biomedrag.corpora import KEYS
from papers.biomedrag.retriever import UNTAUGHT
from papers.biomedrag.study import (
    INTERACTING,
    MAX_UNPARSED,
    comparable,
    name_rows,
    printed_f1,
)

FLOOR: Final = 0.05
"""Two arms that are both below this share right differ near the lowest possible score."""
NO_PAIR_GIVEN: Final = ("GIT", "DDI", "ChemProt")
"""Data sets whose rows ask for a whole triple, which a label alone does not answer."""
_ONCE: Final = (
    "the model was fine-tuned once with the example and once without it, so the "
    "intervals do not account for chance in training."
)
"""What the intervals leave out, a sentence without its capital."""
Gains = dict[str, Comparison]
"""The test of two arms on each data set that both answered."""


@dataclass(frozen=True)
class Added:
    """A way to use a language model, with and without BiomedRAG's example.

    Attributes:
        use: The way, in a word.
        arms: The arms with and without the example.
        rows: Rows of the paper's tables whose model is used in this way.
    """

    use: str
    arms: tuple[str, str]
    rows: tuple[str, ...]


TUNED: Final = Added("fine-tuned", ("lora_rag", "lora"), ("llama2", "medllama"))
PROMPTED: Final = Added("prompted", ("biomedrag", "zero_shot"), ("gpt4",))
_MODELS: Final = {"llama2": "LLaMA2 13B", "medllama": "MedLLaMA 13B", "gpt4": "GPT-4"}
_PLOTTED: Final = (
    ("lora", "llama2", "Fine-tuned"),
    ("lora_rag", "llama2_br", "Fine-tuned with BiomedRAG"),
    ("zero_shot", "gpt4", "Prompted"),
    ("biomedrag", "gpt4_br", "Prompted with BiomedRAG"),
)
"""The arms of the dumbbell plot, with the printed row beside each, and what readers see."""
_KEY: Final = {
    "LLM without BiomedRAG": (figures.HUES["orange"],),
    "with BiomedRAG": (figures.HUES["magenta"],),
    "best without an LLM": tuple(figures.HUES[name] for name in ("blue", "grey")),
}
"""What the colours of the dumbbell plot stand for."""


def gains(out: Outcomes, names: Sequence[str], arms: tuple[str, str]) -> Gains:
    """Compare the accuracy of two arms on the rows that are compared with printed numbers.

    These are the tests of the paper's claims (`rules`); the paper's own gains are in F1.

    Args:
        out: The answers.
        names: The data sets, one family of tests.
        arms: The first arm is compared with the second.

    Returns:
        The comparisons of the data sets whose rows both arms have answered in a form that can be
        parsed, with p adjusted by Holm over them.
    """
    tests: dict[str, Comparison] = {}
    for name in names:
        rows = comparable(out.where(source="rerun", task=name, arm=list(arms)))
        if rows.arms_with("right").issuperset(arms) and _is_readable(rows):
            tests[name] = rows.compare([arms], "right")[0]
    adjusted = adjust_by_holm(list(tests.values()))
    return dict(zip(tests, adjusted, strict=True))


def _is_readable(rows: Outcomes) -> bool:
    """Whether no fine-tuned arm has more unparsed answers than `MAX_UNPARSED`."""
    tuned = rows.frame[rows.frame.arm.str.startswith("lora")]
    unparsed = 1 - tuned.groupby("arm").parsed.mean().astype(float)
    return not (unparsed > MAX_UNPARSED).any()


def is_higher(comparison: Comparison) -> bool:
    """Whether the first arm is significantly better."""
    return comparison.p < ALPHA and comparison.test.difference > 0


def is_lower(comparison: Comparison) -> bool:
    """Whether the first arm is significantly worse."""
    return comparison.p < ALPHA and comparison.test.difference < 0


def summary(run: Run, out: Outcomes, names: Sequence[str]) -> str:
    """Write the page's answer: what the example adds to a fine-tuned model, and to a prompted one.

    Without fine-tuned arms, the answer is about the prompted model alone. The second paragraph has
    the levels, and what the paper prints.

    Args:
        run: The run.
        out: The answers.
        names: The data sets.
    """
    prompted = gains(out, names, PROMPTED.arms)
    tuned = gains(out, names, TUNED.arms)
    if not (tuned or prompted):
        return out.why_not_run("biomedrag") or UNTAUGHT
    first, used = (tuned, TUNED) if tuned else (prompted, PROMPTED)
    prompted_rows = _rows_in_words(out, prompted)
    first_rows = _rows_in_words(out, tuned) if tuned else prompted_rows
    answer = _answer_texts(out, first, first_rows, names, used)
    details = _left_out_texts(out, first)
    once = f"On each data set, {_ONCE}" if len(tuned) > 1 else _ONCE.capitalize()
    details += [once] if tuned else []
    details += _level_texts(out, first, used)
    details += _printed_texts(run.printed, list(first), used)
    if tuned and prompted:
        other = _model(out, PROMPTED.arms[0])
        how = _outcome(prompted, prompted_rows)
        answer.append(f"Prompted with the example, {other} {how}.")
    details += _triples_texts(prompted, prompted_rows)
    details += commonest_texts(out, names)
    return f"{' '.join(answer)}\n\n{' '.join(details)}"


def _answer_texts(
    out: Outcomes,
    tests: Gains,
    rows_by_name: Mapping[str, str],
    names: Sequence[str],
    used: Added,
) -> list[str]:
    """Say where the example helps or harms, and by how much.

    Args:
        out: The answers.
        tests: The differences.
        rows_by_name: The compared rows of each data set in words.
        names: The data sets.
        used: Whether the model is fine-tuned or prompted.
    """
    headline = _outcome(tests, rows_by_name)
    rows_again = {name: _rows_again(name, rows, headline) for name, rows in rows_by_name.items()}
    model = _model(out, used.arms[0])
    return [
        f"**With BiomedRAG's labelled example, {used.use} {model} {headline}.**",
        _changes_text(tests, names, rows_again),
    ]


def _rows_again(name: str, rows: str, sentence: str) -> str:
    """Name rows of a data set after a sentence that may have named them."""
    return f"these rows of {name}" if rows != name and rows in sentence else rows


def _rows_in_words(out: Outcomes, tests: Gains) -> dict[str, str]:
    """Name the rows of each data set that are compared: `GIT`, or which of all that were asked."""
    rows_by_name = {}
    for name, comparison in tests.items():
        n_compared, n_all = comparison.test.n, _n_all_rows(out, name, comparison)
        rows_by_name[name] = name
        if n_compared != n_all:
            rows_by_name[name] = f"the {n_compared:,} of {n_all:,} rows of {name} {INTERACTING}"
    return rows_by_name


def _left_out_texts(out: Outcomes, tests: Gains) -> list[str]:
    """Say how many rows the comparisons leave out; empty for comparisons of all rows."""
    sentences = []
    for name, comparison in tests.items():
        n_left_out = _n_all_rows(out, name, comparison) - comparison.test.n
        if n_left_out:
            sentences.append(
                f"The comparisons on {name} above leave out the {n_left_out:,} test rows that "
                "state no interaction."
            )
    return sentences


def _changes_text(tests: Gains, names: Sequence[str], rows_by_name: Mapping[str, str]) -> str:
    """Give each difference in accuracy, and say in words which are not significant.

    Args:
        tests: The differences.
        names: The data sets.
        rows_by_name: The compared rows of each data set in words.
    """
    clear: list[str] = []
    unclear: list[str] = []
    for name, comparison in tests.items():
        change = change_in_words(comparison)
        listed = clear if is_higher(comparison) or is_lower(comparison) else unclear
        listed.append(f"{change} on {rows_by_name[name]}" if len(names) > 1 else change)
    if not clear:
        verdict = "difference is" if len(unclear) == 1 else "differences are"
        return f"Its accuracy is {figures.listed(unclear)}. The {verdict} not significant."
    changes = figures.listed([*clear, *unclear])
    if len(unclear) == 1:
        return f"Its accuracy is {changes}, where the difference is not significant."
    if unclear:
        n_unclear = figures.in_words(len(unclear))
        return f"Its accuracy is {changes}. The last {n_unclear} differences are not significant."
    return f"Its accuracy is {changes}."


def change_in_words(comparison: Comparison) -> str:
    """Write a difference in accuracy: `5.8 [1.7, 9.9] points lower`."""
    return f"{size_in_words(comparison)} {direction(comparison)}"


def size_in_words(comparison: Comparison) -> str:
    """Write a difference in accuracy without its sign: `5.8 [1.7, 9.9] points`."""
    test = comparison.test
    bounds = (test.low, test.high) if test.difference >= 0 else (-test.high, -test.low)
    texts = [f"{100 * bound:z.1f}".replace("-", figures.MINUS) for bound in bounds]
    return f"{100 * abs(test.difference):.1f} [{texts[0]}, {texts[1]}] points"


def direction(comparison: Comparison) -> str:
    """Say whether the first arm is higher or lower."""
    return "higher" if comparison.test.difference >= 0 else "lower"


def floor_text(
    comparison: Comparison, first_arm: str = "with the example", second_arm: str = "without it"
) -> str:
    """Count the right rows of two arms that have almost no row right; empty for other arms."""
    if any(score.value >= FLOOR for score in comparison.scores):
        return ""
    n = comparison.test.n
    first, second = (round(score.value * n) for score in comparison.scores)
    verb = "is" if first == 1 else "are"
    return f"{first} of {n:,} rows {verb} right {first_arm}, and {second} {second_arm}"


def _triples_texts(tests: Gains, rows_by_name: Mapping[str, str]) -> list[str]:
    """Say how few whole triples the prompted model has right; empty for other data sets."""
    shares = [
        f"{figures.number(comparison.scores[0].value)} on {rows_by_name[name]}"
        for name, comparison in tests.items()
        if name in NO_PAIR_GIVEN
    ]
    if not shares:
        return []
    return [f"The prompted model's accuracy with the example is {figures.listed(shares)}."]


def commonest_texts(out: Outcomes, names: Sequence[str]) -> list[str]:
    """Say where the prompted model with the example is worse or no better than the commonest label.

    A triple needs its pair too, so the data sets of triples are left out.

    Args:
        out: The answers.
        names: The data sets, one family of tests.

    Returns:
        A sentence for each such data set.
    """
    with_labels = [name for name in names if name not in NO_PAIR_GIVEN]
    sentences = []
    for name, comparison in best_floors(out, with_labels, ("majority",)).items():
        if is_higher(comparison):
            continue
        how = "does not differ significantly from"
        if is_lower(comparison):
            how = "is significantly lower than"
        ours, other = (figures.number(score.value) for score in comparison.scores)
        sentences.append(
            f"On {name}, the prompted model's accuracy with the example, {ours}, {how} that of "
            f"always answering the most common label, {other}."
        )
    return sentences


def _model(out: Outcomes, arm: str) -> str:
    return str(out.where(source="rerun", arm=arm).frame.model.iloc[0])


def _outcome(tests: Gains, rows_by_name: Mapping[str, str]) -> str:
    """Say on which data sets a model with the example is significantly better or worse."""
    parts: list[str] = []
    for word, is_so in (("lower", is_lower), ("higher", is_higher)):
        names = [name for name, comparison in tests.items() if is_so(comparison)]
        if names:
            than = "" if parts else " than without it"
            parts.append(f"{word}{than} on {_listed(names, tests, rows_by_name)}")
    if not parts:
        return "does not score significantly higher or lower than without it"
    return f"scores significantly {', and '.join(parts)}"


def _listed(names: Sequence[str], tests: Gains, rows_by_name: Mapping[str, str]) -> str:
    if len(names) == len(tests) > 1:
        return f"{'both' if len(names) == 2 else f'all {figures.in_words(len(names))}'} data sets"
    texts = []
    for name in names:
        near_floor = ", where hardly any answer is right" if floor_text(tests[name]) else ""
        texts.append(f"{rows_by_name[name]}{near_floor}")
    return figures.listed(texts)


def _level_texts(out: Outcomes, tests: Gains, used: Added) -> list[str]:
    """Say for each data set which accuracy the example leads to, and on which rows."""
    sentences = []
    for name, comparison in tests.items():
        score = figures.number(comparison.scores[0].value)
        of_all = _all_rows_text(out, name, comparison)
        kind = f" {INTERACTING}" if of_all else ""
        sentences.append(
            f"With the example, the {used.use} model is right on {score} of "
            f"{comparison.test.n:,} test rows of {name}{kind}."
        )
        near_floor = floor_text(comparison)
        if near_floor:
            rows = "these rows" if of_all else name
            sentences.append(f"Both scores on {rows} are near zero: {near_floor}.")
        if of_all:
            sentences.append(of_all)
    return sentences


def _all_rows_text(out: Outcomes, name: str, comparison: Comparison) -> str:
    """Give the difference on all test rows, where not all are compared with printed numbers."""
    if _n_all_rows(out, name, comparison) == comparison.test.n:
        return ""
    all_rows = _compare_all_rows(out, name, comparison)
    change = change_in_words(all_rows)
    is_clear = is_higher(all_rows) or is_lower(all_rows)
    unclear = "" if is_clear else ", but this difference is not significant"
    return (
        f"On all {all_rows.test.n:,} rows of {name}, accuracy is {change} with the example than "
        f"without it{unclear}."
    )


def _rows_of_arms(out: Outcomes, name: str, comparison: Comparison) -> Outcomes:
    """Return the answers of the arms of a comparison to all test rows of a data set."""
    return out.where(source="rerun", task=name, arm=[comparison.first, comparison.second])


def _n_all_rows(out: Outcomes, name: str, comparison: Comparison) -> int:
    """Count the test rows of a data set that both arms of a comparison answered."""
    answers = _rows_of_arms(out, name, comparison).frame
    arms_by_row = answers.groupby("unit").arm.nunique()
    return int((arms_by_row == 2).sum())


def _compare_all_rows(out: Outcomes, name: str, comparison: Comparison) -> Comparison:
    """Compare the same arms on all test rows of a data set."""
    rows = _rows_of_arms(out, name, comparison)
    return rows.compare([(comparison.first, comparison.second)], "right")[0]


def _printed_texts(printed: Published, names: Sequence[str], used: Added) -> list[str]:
    """Say which gains the paper prints for the first of its models that is used in this way."""
    row = used.rows[0]
    found = {name: printed_gain(printed, name, row) for name in names}
    values = [
        f"{value.removeprefix('+')} points on {name}" for name, value in found.items() if value
    ]
    if not values:
        return []
    return [f"In the paper, BiomedRAG raises the F1 of {_MODELS[row]} by {figures.listed(values)}."]


def printed_gain(printed: Published, name: str, row: str) -> str:
    """Return the points that the paper says BiomedRAG adds to a model; empty if it says none."""
    number = f"biomedrag.text.gain.{KEYS[name]}_{row}"
    numerals = [entry.printed for entry in printed.numbers if entry.id == number]
    return f"+{numerals[0]}" if numerals else ""


def table(run: Run, out: Outcomes, names: Sequence[str], floors: Sequence[str]) -> figures.Html:
    """Show each comparison of BiomedRAG on each data set, tested, with the printed gains beside it.

    Args:
        run: The run.
        out: The answers.
        names: The data sets.
        floors: Arms without a language model, of which the best is compared.
    """
    rows: list[dict[str, Any]] = []
    for added in (TUNED, PROMPTED):
        what = f"{added.use}: with minus without the example"
        for name, comparison in gains(out, names, added.arms).items():
            printed = _printed_gains(run.printed, name, added)
            model = _model(out.where(task=name), comparison.first)
            rows.append(_row(name_rows(out, name), what, comparison, printed, model))
            if _n_all_rows(out, name, comparison) != comparison.test.n:
                all_rows = _compare_all_rows(out, name, comparison)
                rows.append(_row(f"{name}, all test rows", what, all_rows, "", model))
    for what, tests in _other_tests(out, names, floors):
        for name, comparison in tests.items():
            model = _model(out.where(task=name), comparison.first)
            rows.append(_row(name_rows(out, name), what, comparison, "", model))
    caption = (
        "Accuracy with BiomedRAG's example, without it, with other examples, and without a "
        f"language model. A positive difference favours the arm named first.{_left_out_note(names)}"
    )
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def _left_out_note(names: Sequence[str]) -> str:
    """Say which methods without a language model are not compared; empty if all are."""
    if set(NO_PAIR_GIVEN).isdisjoint(names):
        return ""
    return " Methods that are given the gold pair are left out."


def _other_tests(
    out: Outcomes, names: Sequence[str], floors: Sequence[str]
) -> Iterator[tuple[str, Gains]]:
    """Yield what else BiomedRAG is compared with, and the tests."""
    for arm in out.arms:
        if arm.startswith("lora_knn"):
            yield f"BiomedRAG minus {out.label(arm)}", gains(out, names, ("lora_rag", arm))
    yield "prompted: BiomedRAG minus RA-KNN", gains(out, names, ("biomedrag", "knn"))
    yield (
        "prompted: trained scorer minus cosine similarity",
        gains(out, names, ("biomedrag", "cosine")),
    )
    yield (
        "prompted BiomedRAG minus the best method without a language model",
        best_floors(out, names, floors),
    )


def best_floors(out: Outcomes, names: Sequence[str], floors: Sequence[str]) -> Gains:
    """Compare the prompted model with BiomedRAG with the best arm without a language model."""
    tests: dict[str, Comparison] = {}
    for name in names:
        rows = comparable(out.where(source="rerun", task=name))
        if "biomedrag" not in rows.arms_with("right"):
            continue
        rows = rows.where(unit=[*rows.where(arm="biomedrag").frame.unit])
        scores = {arm: rows.score("right", arm).value for arm in rows.arms if arm in floors}
        if scores:
            best = max(scores, key=scores.__getitem__)
            tests[name] = rows.compare([("biomedrag", best)], "right")[0]
    adjusted = adjust_by_holm(list(tests.values()))
    return dict(zip(tests, adjusted, strict=True))


def _printed_gains(printed: Published, name: str, added: Added) -> str:
    found = {row: printed_gain(printed, name, row) for row in added.rows}
    return "; ".join(f"{value} ({_MODELS[row]})" for row, value in found.items() if value)


def _row(name: str, what: str, comparison: Comparison, printed: str, model: str) -> dict[str, Any]:
    with_example, without = comparison.scores
    return {
        "data": name,
        "compared": what,
        "model": model,
        "n": comparison.test.n,
        "accuracy of the first": figures.score_text(with_example),
        "accuracy of the second": figures.score_text(without),
        "difference in points": figures.points(comparison.test),
        "p (Holm)": figures.p_text(comparison.p),
        "printed difference, F1": printed,
    }


def plot(run: Run, out: Outcomes, names: Sequence[str], floors: Sequence[str]) -> figures.Picture:
    """Draw printed and rerun F1 of the models without and with BiomedRAG, and the best floor.

    Args:
        run: The run.
        out: The answers.
        names: The data sets.
        floors: Arms without a language model, of which the best is shown.
    """
    groups: dict[str, list[Dumbbell]] = {}
    best = best_floors(out, names, floors)
    for name in names:
        rows = comparable(out.where(source="rerun", task=name))
        printed = {n.id.split(".")[2]: n.value for n in printed_f1(run.printed, name)}
        lines = []
        for arm, row, label in _PLOTTED:
            lines.append(_dumbbell(rows, arm, label, printed.get(row)))
        if name in best:
            arm = best[name].second
            lines.append(_dumbbell(rows, arm, rows.label(arm), None))
        groups[name_rows(out, name)] = [line for line in lines if not line.is_empty]
    without_llm = ", and by one method without a language model" if best else ""
    caption = (
        f"F1 on {figures.listed(list(names))}, without and with BiomedRAG's example{without_llm}. "
        "A ring shows the printed F1, which is that of LLaMA2 13B beside fine-tuned models and "
        "that of GPT-4 beside prompted ones. A dot shows the F1 of this run with its 95 % "
        "interval, which counts rows with the same text as one unit. Further right is better."
    )
    if best:
        caption += " The best method without a language model is chosen by accuracy."
    caption += _left_out_note(names)
    return figures.figure(
        dumbbell.plot(groups, key=_KEY),
        narrow=dumbbell.plot(groups, is_narrow=True, key=_KEY),
        alt=dumbbell.describe(groups),
        caption=caption,
        sample=out.sample,
    )


def _dumbbell(rows: Outcomes, arm: str, label: str, printed: float | None) -> Dumbbell:
    colour = rows.colours.get(arm, figures.HUES["grey"])
    if arm not in rows.arms_with("f1"):
        return Dumbbell(label, printed, None, colour)
    score = rows.score("f1", arm)
    return Dumbbell(f"{label}, n = {score.n:,}", printed, score, colour)
