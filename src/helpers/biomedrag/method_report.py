"""What a run of BiomedRAG's method reports: scores beside the printed ones, tests, scorers' choices, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from helpers import figures
from helpers.biomedrag.adapted import Adapted
from helpers.biomedrag.arms import marked_entities, marks_the_pair
from helpers.biomedrag.balance import KEYS, Balance
from helpers.biomedrag.corpora import Corpus
from helpers.biomedrag.encoder_tuning import TUNED, UNTUNED
from helpers.biomedrag.experiment import (
    Lesson,
    Study,
    cost,
    documents_chosen,
    label_hits,
)
from helpers.biomedrag.memory import pair_vectors
from helpers.biomedrag.scorer import Floats, Scorer, cosine_scorer
from helpers.biomedrag.scoring import MEASURES, PARTS, Scores
from helpers.lora import TrainingLog
from helpers.metrics import DRAWS, Paired, Score, bootstrap, holm, mcnemar, paired_means, proportion
from helpers.record import Run
from helpers.vectors import Encoder

ARMS: Final = {
    "majority": ("Commonest label", "#808080"),
    "nearest": ("Nearest neighbour's label", "#808080"),
    "tfidf": ("TF-IDF and logistic regression", "#125ee0"),
    "encoded": ("Encoder and logistic regression", "#125ee0"),
    "pair": ("Head and tail, logistic regression", "#079c6b"),
    "pair_new": ("Head and tail, no triple twice", "#079c6b"),
    "blanks": ("Blanks and a linear classifier", "#079c6b"),
    "names": ("Known names and a linear classifier", "#079c6b"),
    "zero_shot": ("LLM alone", "#c35410"),
    "told": ("LLM, told what blanks mark", "#c35410"),
    "knn": ("LLM, nearest sentence (RA-KNN-1)", "#c35410"),
    "knn_n": ("LLM, n nearest inputs (RA-KNN-n)", "#c35410"),
    "cosine": ("BiomedRAG without scorer", "#af219d"),
    "plain": ("BiomedRAG without diversity", "#af219d"),
    "biomedrag": ("BiomedRAG", "#af219d"),
    "small": ("Small LLM alone", "#c35410"),
    "lora": ("Small LLM, LoRA", "#c35410"),
    "lora_rag": ("Small LLM, LoRA and BiomedRAG", "#af219d"),
}
"""Label and colour of each arm."""
FLOORS: Final = ("majority", "nearest", "tfidf", "encoded")
PRINTED_ROWS: Final = {"zero_shot": "llama2", "biomedrag": "llama2_br"}
"""The row of Table 1 beside which an arm stands: the paper's main model without and with BiomedRAG."""
COLUMNS: Final = KEYS
SCORERS: Final = {
    "text": "trained, the printed loss",
    "code": "trained, the released code's loss",
    "each": "trained, a loss for each document",
    "kl": "trained, Kullback-Leibler",
    TUNED: "encoder fine-tuned",
    UNTUNED: "that encoder before, plain cosine",
    "cosine": "plain cosine",
    "random": "random, never trained",
    "first": "always the nearest sentence",
    "best": "the LLM's own choice (ceiling)",
}


def label(arm: str) -> str:
    """The name of an arm as a reader sees it."""
    return ARMS[arm][0]


# ------------------------------------------------------------------------------------------------- printed numbers


def printed_table(run: Run, names: Sequence[str]) -> pd.DataFrame:
    """Table 1 as printed: F1 of each system on these corpora."""
    rows: dict[str, dict[str, str]] = {}
    for number in run.printed.numbers:
        _, table, _, column = number.id.split(".", 3)
        for name in names:
            if table == "table1" and column == f"{COLUMNS[name]}_f1":
                rows.setdefault(number.row, {})[name] = number.printed
    return pd.DataFrame([{"system": row} | of_row for row, of_row in rows.items()])


def printed_value(run: Run, name: str, row: str = "llama2_br", measure: str = "f1") -> float:
    """One cell of Table 1."""
    return run.printed.number(f"biomedrag.table1.{row}.{COLUMNS[name]}_{measure}").value


def report_scores(run: Run, name: str, scores: Mapping[str, Scores], model: str, note: str) -> None:
    """Report the rerun of a corpus beside Table 1 and Figure 2, and what the paper does not print as extras."""
    nearest = f"biomedrag.figure2.{COLUMNS[name]}.top1"
    for arm, of_arm in scores.items():
        if arm == "knn" and any(number.id == nearest for number in run.printed.numbers):
            run.rerun(nearest, of_arm["f1"], model=model, note=note)
        elif row := PRINTED_ROWS.get(arm):
            for measure in MEASURES:
                identity = f"biomedrag.table1.{row}.{COLUMNS[name]}_{measure}"
                run.rerun(identity, of_arm[measure], model=model, note=note)
        else:
            run.extra(f"{COLUMNS[name]}.{arm}.f1", f"F1 on {name}: {label(arm)}", of_arm["f1"])


def report_gain(run: Run, name: str, test: Paired, model: str, note: str) -> None:
    """Report BiomedRAG less the model alone, which the text states in points of F1."""
    gain = Score(100 * test.difference, test.n, 100 * test.low, 100 * test.high)
    run.rerun(f"biomedrag.text.gain.{COLUMNS[name]}_llama2", gain, model=model, note=note)


def report_parts(run: Run, name: str, parts: Mapping[str, Scores], model: str, note: str) -> None:
    """Report the parts of the triples beside Table 3."""
    for part, of_part in parts.items():
        for measure in MEASURES:
            identity = f"biomedrag.table3.llama2_br_{COLUMNS[name]}.{part}_{measure}"
            run.rerun(identity, of_part[measure], model=model, note=note)


OTHER_SYSTEM: Final = "Another system with code and training of its own; this notebook reruns the paper's method."
WHY_NOT: Final = {
    "gpt4": "A hosted model; name one by LLM_BASE_URL and LLM_MODEL, and its answers stand in the rows of LLaMA2 13B.",
    "medllama": "This run asks one model, which stands in the rows of LLaMA2 13B.",
    "medllama_br": "This run asks one model, which stands in the rows of LLaMA2 13B.",
}


def explain_rest(run: Run, names: Sequence[str]) -> None:
    """Say of the printed numbers of some corpora that have no rerun why they have none."""
    for number in run.printed.numbers:
        _, table, row, column = number.id.split(".", 3)
        if number.why_no_rerun:
            continue
        key = column.rsplit("_", 1)[0]
        if table == "table1" and key in {COLUMNS[n] for n in names} and row not in PRINTED_ROWS.values():
            run.not_run(number.id, WHY_NOT.get(row, OTHER_SYSTEM))
        elif table == "table3" and "GIT" in names and not row.startswith("llama2_br_"):
            run.not_run(number.id, OTHER_SYSTEM)
        elif table == "text" and row == "gain" and column in {f"{COLUMNS[n]}_medllama" for n in names}:
            run.not_run(number.id, WHY_NOT["medllama"])
        elif table == "text" and row in {COLUMNS[n] for n in names}:
            run.not_run(number.id, OTHER_SYSTEM)


# --------------------------------------------------------------------------------------- what the sentences give away


def blanks_table(run: Run, corpora: Mapping[str, Corpus], floors: Mapping[str, Mapping[str, Scores]]) -> pd.DataFrame:
    """How often blanks mark the gold pair, and what a classifier gains by reading them."""
    rows = []
    for name, corpus in corpora.items():
        marked = proportion(sum(marks_the_pair(e) for e in corpus.test), len(corpus.test))
        run.extra(f"{COLUMNS[name]}.marked_pairs", f"{name}: blanks single out the gold pair", marked)
        rows.append(
            {
                "data": name,
                "blanks mark exactly the gold pair": marked,
                "F1, reading the blanks": floors[name]["blanks"]["f1"],
                "F1, without": floors[name]["names"]["f1"],
                "printed F1, LLaMA2 13B": _percent(printed_value(run, name, "llama2")),
                "with BiomedRAG": _percent(printed_value(run, name)),
            }
        )
    return pd.DataFrame(rows)


def ceilings_words(run: Run, balances: Sequence[Balance], related: Mapping[str, Balance]) -> str:
    """Which printed scores lie above what the text of a row can decide.

    Args:
        run: has the printed numbers.
        balances: of the test files.
        related: of those rows alone that state a relation, where a file has others too.
    """
    said = []
    for b in balances:
        printed = printed_value(run, b.name)
        if printed > b.ceiling_as_released.value:
            words = (
                f"On **{b.name}** the printed F1 ({_percent(printed)}) is above the most that any extractor can have "
                f"right that sees the released sentence and gives one answer to it "
                f"({_percent(b.ceiling_as_released.value)}): rows repeat a sentence with other pairs. So it was "
                "counted on other rows, or with more than the sentence."
            )
            if other := related.get(b.name):
                words += (
                    f" Of the {other.rows:,} rows that state a relation, one answer a text can have "
                    f"{_percent(other.ceiling_as_released.value)} right."
                )
            said.append(words)
        elif printed > b.ceiling.value:
            said.append(
                f"On **{b.name}** the printed F1 ({_percent(printed)}) is above what the words can decide "
                f"({_percent(b.ceiling.value)}): rows of the same words differ in their answers, and only the blanks "
                "tell them apart."
            )
    return "\n\n".join(said) or "No printed F1 lies above what the text of the rows can decide."


def blanks_example(corpora: Mapping[str, Corpus]) -> list[dict[str, str]]:
    """The first test sentence of each corpus whose blanks mark its pair, blanks made visible."""
    shown = []
    for name, corpus in corpora.items():
        found = next((e for e in corpus.test if marks_the_pair(e)), None)
        if found:
            text = found.text.replace("  ", "\N{OPEN BOX}\N{OPEN BOX}")
            shown.append({"role": name, "content": f"{text}\n\nread off it: {', '.join(marked_entities(found.text))}"})
    return shown


# ------------------------------------------------------------------------------------------------------------ scores


def scores_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """Precision, recall and F1 of each arm, with intervals."""
    return pd.DataFrame([{"arm": label(arm)} | {m: of_arm[m] for m in MEASURES} for arm, of_arm in scores.items()])


def beside_printed(run: Run, name: str, scores: Mapping[str, Scores]) -> pd.DataFrame:
    """F1 of the arms on one corpus, with the printed one where an arm stands beside a row of Table 1."""
    rows = []
    for arm, of_arm in scores.items():
        row = PRINTED_ROWS.get(arm)
        rows.append(
            {
                "arm": label(arm),
                **{measure: of_arm[measure] for measure in MEASURES},
                "printed F1, LLaMA2 13B": _percent(printed_value(run, name, row)) if row else None,
            }
        )
    return pd.DataFrame(rows)


def parts_table(parts: Mapping[str, Mapping[str, Scores]], measure: str = "f1") -> pd.DataFrame:
    """Table 3: F1 of the whole triple and of each part, a row a corpus and arm."""
    return pd.DataFrame(
        [{"": where} | {part: of_part[measure] for part, of_part in of_arm.items()} for where, of_arm in parts.items()]
    )


def all_parts(study: Study, arm: str, draws: int) -> dict[str, Scores]:
    """The scores of one arm's triples and of their parts."""
    one = Study(study.task, study.rows, {arm: study.answers[arm]})
    return {part: one.scores(part, draws)[arm] for part in PARTS}


def tests_table(tests: Mapping[str, Mapping[str, Paired]], arm: str = "biomedrag") -> pd.DataFrame:
    """McNemar's tests of an arm against others, p adjusted by Holm over all rows of the table.

    Args:
        tests: by corpus, then by the other arm.
        arm: the first of each pair.
    """
    flat = [(where, other, test) for where, of_one in tests.items() for other, test in of_one.items()]
    adjusted = holm([test.p for _, _, test in flat])
    return pd.DataFrame(
        [
            {
                "corpus": where,
                "against": label(other),
                f"only {label(arm)} right": test.b,
                "only the other right": test.c,
                "difference, points": figures.points(test),
                "p (Holm)": figures.p_text(p),
            }
            for (where, other, test), p in zip(flat, adjusted, strict=True)
        ]
    )


def decide_gain(run: Run, claim: str, tests: Mapping[str, Paired]) -> None:
    """A claim that one arm beats another on each corpus: every difference positive and significant after Holm."""
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    holds = all(t.difference > 0 and adjusted[name] < 0.05 for name, t in tests.items())
    words = "; ".join(
        f"{name}: {figures.points(t)} points ({figures.p_words(adjusted[name])})" for name, t in tests.items()
    )
    run.claim(claim, "agrees" if holds else "differs", f"{words}; n = {_n(tests.values())}.", p=max(adjusted.values()))


def _n(tests: Iterable[Paired]) -> str:
    return ", ".join(f"{test.n:,}" for test in tests)


# ------------------------------------------------------------------------------------------------------ the scorers


def choices_table(run: Run, name: str, lesson: Lesson, draws: int = DRAWS) -> pd.DataFrame:
    """What each scorer chose for inputs outside its training folds, measured by the LLM's own likelihood.

    Where no encoder was fine-tuned, a row says so.
    """
    choices = lesson.choices
    tests = choice_tests(lesson, draws)
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    rows: list[dict[str, object]] = []
    for scorer in SCORERS:
        words = scorer_words(lesson, scorer)
        if scorer not in choices.values:
            if scorer == TUNED:
                rows.append({"scorer": f"{words}: did not run, for tuned_encoder names no encoder"})
            continue
        mean = bootstrap(choices.values[scorer], draws=draws)
        run.extra(f"{COLUMNS[name]}.scorer.{scorer}", f"{name}: mean log P(y | chosen document, x), {words}", mean)
        test = tests.get(scorer)
        rows.append(
            {
                "scorer": words,
                "mean log P(y | d, x)": figures.score_text(mean, "count", digits=2),
                "less cosine": figures.difference(test, 2) if test else None,
                "p (Holm)": figures.p_text(adjusted[scorer]) if test else None,
                "same document as cosine": float((choices.rows[scorer] == choices.rows["cosine"]).mean()),
                "different documents": documents_chosen(choices, lesson.taught, scorer),
                "shows the true label": label_hits(choices, lesson.taught, scorer),
            }
        )
    return pd.DataFrame(rows, dtype=object)


def scorer_words(lesson: Lesson, scorer: str) -> str:
    """A scorer in words; of a fine-tuned encoder with its loss."""
    if scorer == TUNED and lesson.tuned:
        return f"{SCORERS[TUNED]}, {SCORERS[lesson.tuned.settings['objective']].removeprefix('trained, ')}"
    return SCORERS[scorer]


def choice_tests(lesson: Lesson, draws: int = DRAWS) -> dict[str, Paired]:
    """Each scorer against plain cosine: paired randomisation test of log P_LLM(y | chosen document, x)."""
    values = lesson.choices.values
    return {
        scorer: paired_means(values[scorer], values["cosine"], draws=draws)
        for scorer in SCORERS
        if scorer != "cosine" and scorer in values
    }


def choices_words(lessons: Mapping[str, Lesson], draws: int = DRAWS) -> str:
    """Who won, the trained scorer or plain cosine, on each corpus; and the fine-tuned encoder, where one was."""
    said = []
    for name, lesson in lessons.items():
        tests = choice_tests(lesson, draws)
        words = f"{name}: {_won(tests['text'])}"
        said.append(f"{words} and, with the encoder fine-tuned, {_won(tests[TUNED])}" if TUNED in tests else words)
    return "; ".join(said) + "."


def _won(test: Paired) -> str:
    won = "neither won" if test.p >= 0.05 else "the trained scorer won" if test.difference > 0 else "cosine won"
    return (
        f"{won} (difference in log-likelihood {figures.signed(test.difference, 2)}, {figures.p_words(test.p)}, "
        f"n = {test.n})"
    )


def report_lesson(run: Run, lesson: Lesson, name: str = "") -> None:
    """Report what teaching took, and the encoder that was fine-tuned, if one was.

    Args:
        name: of the corpus, where a page has several.
    """
    of = f"{name}: " if name else ""
    run.timing(f"{of}likelihoods", lesson.seconds["likelihoods"], requests=lesson.requests)
    run.timing(f"{of}training the scorers", lesson.seconds["training"])
    if log := lesson.tuned:
        run.timing(f"{of}fine-tuning the encoder", log.seconds, inputs=len(lesson.taught), parameters=log.parameters)
        encoder = lesson.scorer.encoder
        run.model(
            f"{log.base}, fine-tuned",
            log.sha256,
            engine="encoder",
            version=encoder.engine if encoder else None,
            role=f"{of}scores documents",
        )


def draw_losses(lessons: Mapping[str, Lesson]) -> Figure:
    """Training loss by epoch, a panel a loss of the projection and one of the fine-tuned encoder, a line a corpus."""
    names = _drawn(lessons)
    fig, panels = plt.subplots(1, len(names), figsize=(3.0 * len(names), 3.0))
    colours = ("#125ee0", "#c35410", "#079c6b", "#af219d")
    for panel, objective in zip(panels, names, strict=True):
        for colour, (name, lesson) in zip(colours, lessons.items(), strict=False):
            losses = lesson.choices.losses[objective]
            panel.plot(losses, "o-" if len(losses) < 20 else "-", color=colour, label=name, markersize=3)
            panel.set_title(scorer_words(lesson, objective).removeprefix("trained, "), fontsize=10.5)
        panel.set_xlabel("epoch")
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("loss")
    handles, texts = panels[0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=len(lessons))
    return fig


def losses_words(lessons: Mapping[str, Lesson]) -> str:
    """The losses in words: first and last of each objective and corpus."""
    return "Training loss by epoch, mean of the folds. " + " ".join(
        f"{name}: "
        + ", ".join(
            f"{o} {_of(lesson.choices.losses[o][0])} to {_of(lesson.choices.losses[o][-1])}" for o in _drawn(lessons)
        )
        + "."
        for name, lesson in lessons.items()
    )


def _drawn(lessons: Mapping[str, Lesson]) -> tuple[str, ...]:
    """The scorers whose losses are drawn."""
    tuned = all(lesson.tuned for lesson in lessons.values())
    return ("text", "each", "kl", TUNED) if tuned else ("text", "each", "kl")


def _of(value: float) -> str:
    return f"{value:.3f}"


# ------------------------------------------------------------------------------------------------------------ costs


def cost_table(study: Study) -> pd.DataFrame:
    """Prompt tokens and seconds of one answer, by arm with a language model."""
    rows = []
    for arm, given in study.answers.items():
        spent = cost(given)
        if spent["prompt"]:
            rows.append(
                {
                    "arm": label(arm) if arm in ARMS else arm,
                    "prompt tokens": round(spent["prompt"]),
                    "longest prompt": spent["longest"],
                    "generated tokens": spent["generated"],
                    "seconds, with others at once": spent["seconds"],
                    "did not fit": spent["overflows"],
                }
            )
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------------------------- figures


def draw_scores(scores: Mapping[str, Mapping[str, Scores]], printed: Mapping[str, float]) -> Figure:
    """F1 of each arm with its interval, a panel a corpus; a dashed line is the printed F1 of LLaMA2 13B + BiomedRAG."""
    arms = list(dict.fromkeys(arm for of_one in scores.values() for arm in of_one))
    fig, axes = plt.subplots(
        1, len(scores), figsize=(3.1 + 2.3 * len(scores), 0.42 * len(arms) + 1.4), sharey=True, squeeze=False
    )
    for panel, (name, of_one) in zip(axes[0], scores.items(), strict=True):
        for y, arm in enumerate(arms):
            if arm not in of_one:
                continue
            f1, colour = of_one[arm]["f1"], ARMS[arm][1]
            panel.hlines(y, f1.low, f1.high, color=colour, linewidth=2.2)
            panel.plot(f1.value, y, "o", color=colour, markersize=6)
        if name in printed:
            panel.axvline(printed[name], color="#808080", linestyle="--", linewidth=1.4)
        panel.set_title(name)
        panel.set_xlim(0, 1)
        panel.grid(axis="x")
        panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        panel.tick_params(axis="y", length=0)
    axes[0][0].set_yticks(range(len(arms)), [label(arm) for arm in arms])
    axes[0][0].set_ylim(len(arms) - 0.5, -0.5)
    return fig


def scores_words(scores: Mapping[str, Mapping[str, Scores]]) -> str:
    """The best and the worst arm of each corpus, and BiomedRAG's F1, in words."""
    said = []
    for name, of_one in scores.items():
        ranked = sorted(of_one, key=lambda arm: -of_one[arm]["f1"].value)
        said.append(
            f"{name}: highest {label(ranked[0])} ({_percent(of_one[ranked[0]]['f1'].value)}), lowest "
            f"{label(ranked[-1])} ({_percent(of_one[ranked[-1]]['f1'].value)})"
            + (f", BiomedRAG {_percent(of_one['biomedrag']['f1'].value)}" if "biomedrag" in of_one else "")
        )
    return "F1 by arm, with 95 % intervals. " + "; ".join(said) + "."


# ----------------------------------------------------------------------------------------------------------- wording


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


# ---------------------------------------------------------------------------------------------- what stands on a page


def candidates_table(lesson: Lesson, encoder: Encoder, row: int = 0) -> pd.DataFrame:
    """The documents of one input, with what the LLM and two scorers make of each.

    Args:
        lesson: what was taught.
        encoder: of plain cosine, and of a scorer that has none of its own.
        row: which input.
    """
    taught, scorer = lesson.taught[row], lesson.scorer

    def weights(scorer: Scorer) -> Floats:
        inputs, documents = pair_vectors([taught.example.text], [taught.documents], scorer.encoder or encoder)
        return scorer.weights(inputs[0], documents[0])

    return pd.DataFrame(
        {
            "document": [" + ".join(f"{s.text} → {s.label}" for s in d.shots) for d in taught.documents],
            "log P(y | d, x)": [f"{value:.2f}" for value in taught.loglikelihoods],
            "cosine, as P(d | x)": weights(cosine_scorer(encoder.dimension, scorer.eta)),
            "scorer, P(d | x)": weights(scorer),
        }
    )


def triples_summary(
    run: Run,
    *,
    corpora: Mapping[str, Corpus],
    floors: Mapping[str, Mapping[str, Scores]],
    scores: Mapping[str, Mapping[str, Scores]],
    tests: Mapping[str, Mapping[str, Paired]],
    lessons: Mapping[str, Lesson],
    model: str,
    draws: int,
) -> str:
    """What the chapter on triples found, for the top of its page."""
    marked = ", ".join(
        f"{_percent(sum(map(marks_the_pair, corpus.test)) / len(corpus.test))} of {name}"
        for name, corpus in corpora.items()
    )
    read = ", ".join(
        f"{_percent(of_one['blanks']['f1'].value)} on {name} ({_percent(of_one['names']['f1'].value)} without them)"
        for name, of_one in floors.items()
    )
    gains = "; ".join(
        f"{name} {_percent(of_one['biomedrag']['f1'].value)} against {_percent(of_one['zero_shot']['f1'].value)} alone "
        f"({figures.points(tests[name]['zero_shot'])} points)"
        for name, of_one in scores.items()
    )
    printed = ", ".join(f"{_percent(printed_value(run, name))} on {name}" for name in scores)
    return (
        "**In short.** Extra blanks single out the two entities of the gold triple in the released test sentences: in "
        f"{marked}. A linear classifier that reads blanks has an F1 of {read}. The paper prints {printed} for LLaMA2 "
        f"13B, fine-tuned, with BiomedRAG. Prompted {model} with BiomedRAG: {gains}. "
        f"Trained scorer against plain cosine: {choices_words(lessons, draws)}"
    )


def relations_summary(
    run: Run,
    *,
    floors: Mapping[str, Scores],
    scores: Mapping[str, Scores],
    test: Paired,
    adapted: Mapping[str, Scores],
    lesson: Lesson,
    model: str,
    draws: int,
) -> str:
    """What the chapter on relations found, for the top of its page."""
    best = max(FLOORS, key=lambda arm: floors[arm]["f1"].value)
    said = (
        f"**In short.** On GIT-RE the best arm without a language model ({label(best).lower()}) has "
        f"{_percent(floors[best]['f1'].value)}, the commonest label {_percent(floors['majority']['f1'].value)}. "
        f"Prompted {model} has {_percent(scores['zero_shot']['f1'].value)} alone and "
        f"{_percent(scores['biomedrag']['f1'].value)} with BiomedRAG ({figures.points(test)} points); the paper prints "
        f"{_percent(printed_value(run, 'GIT-RE', 'llama2'))} and {_percent(printed_value(run, 'GIT-RE'))} for "
        f"LLaMA2 13B, fine-tuned. Trained scorer against plain cosine: {choices_words({'GIT-RE': lesson}, draws)}"
    )
    if adapted:
        said += (
            " Adapted by LoRA for a few steps, a smaller model reaches "
            f"{_percent(adapted['lora']['f1'].value)}, and {_percent(adapted['lora_rag']['f1'].value)} with "
            "BiomedRAG's documents in training and test."
        )
    return said


# ----------------------------------------------------------------------------------------------------- the ablation


def ablation_table(run: Run, studies: Mapping[str, Study], draws: int, model: str, note: str) -> pd.DataFrame:
    """Table 4: the whole, without scorer, without diversity, printed and rerun; each rerun is reported."""
    places = {"GIT": "te", "GIT-RE": "re"}
    rows = []
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        for arm, row in {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}.items():
            for measure in MEASURES:
                identity = f"biomedrag.table4.{places[name]}_{row}.{measure}"
                run.rerun(identity, scores[arm][measure], model=model, note=note)
            printed = run.printed.number(f"biomedrag.table4.{places[name]}_{row}.f1")
            rows.append({"data": name, "arm": label(arm), "printed F1": printed.printed, "rerun F1": scores[arm]["f1"]})
    return pd.DataFrame(rows)


def chunk_table(
    run: Run, studies: Mapping[str, Mapping[int, Study]], draws: int, model: str, note: str
) -> pd.DataFrame:
    """Figure 3: F1 by length of a chunk, printed and rerun; each rerun is reported (m = 5 is the row of Table 1)."""
    rows = []
    for name, of_one in studies.items():
        for words, study in of_one.items():
            by_part = {part: study.scores(part, draws)["biomedrag"] for part in (PARTS if name == "GIT" else PARTS[:1])}
            for part, scores in by_part.items():
                middle = f"git_{part}" if name == "GIT" else "git_re"
                for measure in MEASURES if words != 5 else ():
                    identity = f"biomedrag.figure3.{middle}_{measure}.m{words}"
                    run.rerun(identity, scores[measure], model=model, note=note)
            printed = (
                printed_value(run, name)
                if words == 5
                else run.printed.number(
                    f"biomedrag.figure3.{'git_triple' if name == 'GIT' else 'git_re'}_f1.m{words}"
                ).value
            )
            rows.append(
                {
                    "data": name,
                    "m": words,
                    "printed F1": _percent(printed),
                    **{f"rerun F1, {part}": scores["f1"] for part, scores in by_part.items()},
                }
            )
    return pd.DataFrame(rows)


def knn_name(n: int) -> str:
    """The arm RA-KNN-n in a study."""
    return f"knn_{n}"


def draw_knn(studies: Mapping[str, Study], counts: Sequence[int], draws: int) -> Figure:
    """Figure 2: F1 against n, and the prompt's length beside it, a line a corpus; dots at the right are BiomedRAG."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6))
    for colour, (name, study) in zip(("#125ee0", "#c35410"), studies.items(), strict=False):
        scores = study.scores(draws=draws)
        f1 = [scores[knn_name(n)]["f1"] for n in counts]
        at = range(len(counts))
        left.errorbar(
            at,
            [s.value for s in f1],
            yerr=[[s.value - s.low for s in f1], [s.high - s.value for s in f1]],
            color=colour,
            marker="o",
            capsize=3,
            label=name,
        )
        best = scores["biomedrag"]["f1"]
        left.errorbar(
            len(counts),
            best.value,
            yerr=[[best.value - best.low], [best.high - best.value]],
            color=colour,
            marker="D",
            capsize=3,
        )
        right.plot(at, [cost(study.answers[knn_name(n)])["prompt"] for n in counts], color=colour, marker="o")
        right.plot(len(counts), cost(study.answers["biomedrag"])["prompt"], "D", color=colour)
    for panel, words in ((left, "F1"), (right, "prompt tokens")):
        panel.set_xticks(range(len(counts) + 1), [*map(str, counts), "BR"])
        panel.set_xlabel("n nearest sentences; BR: BiomedRAG")
        panel.set_ylabel(words)
        panel.set_ylim(bottom=0)
    fig.legend(loc="outside lower center", ncols=len(studies))
    return fig


def knn_words(studies: Mapping[str, Study], counts: Sequence[int], draws: int) -> str:
    """The curves in words."""
    said = []
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        curve = ", ".join(f"n = {n}: {_percent(scores[knn_name(n)]['f1'].value)}" for n in counts)
        said.append(f"{name}: {curve}, BiomedRAG: {_percent(scores['biomedrag']['f1'].value)}")
    return "F1 and prompt length by number of nearest sentences. " + "; ".join(said) + "."


def decide_ablation(
    run: Run,
    studies: Mapping[str, Study],
    chunks: Mapping[str, Mapping[int, Study]],
    counts: Sequence[int],
    draws: int,
) -> None:
    """The claims of the ablation chapter, each by the test that `data/published/biomedrag.yml` states."""
    claim = "biomedrag.claim."
    for identity, other in (("scorer_beats_cosine", "cosine"), ("diversity_helps", "plain")):
        decide_gain(run, claim + identity, {n: s.against("biomedrag", [other])[other] for n, s in studies.items()})
    lengths = {
        f"{name}, m = 5 against {words}": mcnemar(of_one[5].right("biomedrag"), study.right("biomedrag"))
        for name, of_one in chunks.items()
        for words, study in of_one.items()
        if words != 5 and 5 in of_one
    }
    if lengths:
        decide_gain(run, claim + "longest_chunks_best", lengths)
    else:
        run.claim(claim + "longest_chunks_best", "not run", "This profile tries one length of chunk.")
    retrieved = [n for n in counts if n]
    decide_gain(
        run,
        claim + "one_chunk_beats_many",
        {
            f"{name}, n = {n}": study.against("biomedrag", [knn_name(n)])[knn_name(n)]
            for name, study in studies.items()
            for n in retrieved
        },
    )
    tops, shorter = {}, {}
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        tops[name] = max(counts, key=lambda n, of=scores: of[knn_name(n)]["f1"].value)  # type: ignore[misc]
        ours = cost(study.answers["biomedrag"])["prompt"]
        shorter[name] = {n: cost(study.answers[knn_name(n)])["prompt"] - ours for n in retrieved if n >= 5}
    run.claim(
        claim + "more_documents_do_not_help",
        "agrees" if all(top < max(counts) for top in tops.values()) else "differs",
        "F1 is highest at "
        + ", ".join(f"n = {top} on {name}" for name, top in tops.items())
        + f"; the largest n tried is {max(counts)}.",
    )
    if any(shorter.values()):
        run.claim(
            claim + "shorter_input",
            "agrees" if all(more > 0 for of in shorter.values() for more in of.values()) else "differs",
            "RA-KNN-n has, in prompt tokens more than BiomedRAG: "
            + "; ".join(
                f"{name}, n = {n}: {figures.signed(more, 0)}" for name, of in shorter.items() for n, more in of.items()
            )
            + ".",
        )
    else:
        run.claim(claim + "shorter_input", "not run", "This profile tries no n of 5 or more.")


def ablation_summary(studies: Mapping[str, Study], counts: Sequence[int], draws: int, model: str) -> str:
    """What the ablation found, for the top of its page."""
    said = []
    for name, study in studies.items():
        scores = {arm: of_arm["f1"] for arm, of_arm in study.scores(draws=draws).items()}
        tests = study.against("biomedrag", ["cosine", "plain"])
        top = max(counts, key=lambda n, of=scores: of[knn_name(n)].value)  # type: ignore[misc]
        said.append(
            f"On {name} ({len(study.rows)} rows) BiomedRAG has {_percent(scores['biomedrag'].value)}; less plain "
            f"cosine {figures.points(tests['cosine'])} points, less the variant without permutations "
            f"{figures.points(tests['plain'])} points. The "
            f"best of n nearest sentences is n = {top} with {_percent(scores[knn_name(top)].value)}."
        )
    return f"**In short** ({model}). " + " ".join(said)


# ---------------------------------------------------------------------------------------------------------- training


def report_adapted(run: Run, name: str, adapted: Adapted, scores: Mapping[str, Scores]) -> None:
    """Keep the adapted model, its training and its scores in the record; the paper adapts other models."""
    endpoint = adapted.base.endpoint
    run.model(
        endpoint.model,
        endpoint.model_sha256,
        engine=endpoint.engine,
        version=endpoint.version,
        role="is adapted by LoRA",
    )
    for arm, of_arm in scores.items():
        run.extra(f"{COLUMNS[name]}.{arm}.f1", f"F1 on {name}: {label(arm)} ({endpoint.model})", of_arm["f1"])
    for arm, log in adapted.logs.items():
        run.timing(f"LoRA training, {label(arm)}", log.seconds, steps=log.settings["steps"], pairs=log.pairs)


def draw_training(logs: Mapping[str, TrainingLog]) -> Figure:
    """LoRA's losses by step: training full, validation dashed, a colour an adapter."""
    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    for name, log in logs.items():
        colour = ARMS[name][1]
        ax.plot([loss.step for loss in log.train], [loss.value for loss in log.train], color=colour, label=label(name))
        validation = [(loss.step, loss.value) for loss in log.validation]
        ax.plot(*zip(*validation, strict=True), color=colour, linestyle="--")
    ax.set_xlabel("step")
    ax.set_ylabel("loss of an answer's token")
    ax.set_ylim(bottom=0)
    fig.legend(loc="outside lower center", ncols=len(logs))
    return fig


def training_words(logs: Mapping[str, TrainingLog]) -> str:
    """The losses in words."""
    return " ".join(
        f"{label(name)}: training loss {log.train[0].value:.2f} to {log.train[-1].value:.2f}, validation loss "
        f"{log.validation[0].value:.2f} to {log.validation[-1].value:.2f}, in {log.settings['steps']:.0f} steps."
        for name, log in logs.items()
    )


def knn_table(
    run: Run, studies: Mapping[str, Study], counts: Sequence[int], draws: int, model: str, note: str
) -> pd.DataFrame:
    """F1 and cost of RA-KNN-n and of BiomedRAG; what Figure 2 prints for a known n is reported."""
    printed = {number.id for number in run.printed.numbers}
    rows = []
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        arms = {f"{n} nearest" if n else "none": (knn_name(n), n) for n in counts} | {"BiomedRAG": ("biomedrag", None)}
        for words, (arm, n) in arms.items():
            identity = f"biomedrag.figure2.{COLUMNS[name]}.llama2_top{n}"
            if identity in printed:
                run.rerun(identity, scores[arm]["f1"], model=model, note=note)
            elif n is not None:
                run.extra(f"{COLUMNS[name]}.{arm}.f1", f"F1 on {name}: RA-KNN-{n}", scores[arm]["f1"])
            spent = cost(study.answers[arm])
            rows.append(
                {
                    "data": name,
                    "shown": words,
                    "F1": scores[arm]["f1"],
                    "prompt tokens": round(spent["prompt"]),
                    "longest prompt": spent["longest"],
                    "seconds, with others at once": spent["seconds"],
                    "did not fit": spent["overflows"],
                }
            )
    return pd.DataFrame(rows)


def draw_chunks(studies: Mapping[str, Mapping[int, Study]], draws: int) -> Figure:
    """Figure 3: F1 of BiomedRAG by words of a chunk, a line a corpus."""
    fig, ax = plt.subplots(figsize=(5.6, 3.2))
    for shift, colour, (name, of_one) in zip((-0.04, 0.04), ("#125ee0", "#c35410"), studies.items(), strict=False):
        f1 = {m: study.scores(draws=draws)["biomedrag"]["f1"] for m, study in of_one.items()}
        ax.errorbar(
            [m + shift for m in f1],
            [s.value for s in f1.values()],
            yerr=[[s.value - s.low for s in f1.values()], [s.high - s.value for s in f1.values()]],
            color=colour,
            marker="o",
            capsize=3,
            label=name,
        )
        ax.set_xticks(list(f1))
    ax.set_xlabel("m, words of a chunk")
    ax.set_ylabel("F1")
    ax.set_ylim(bottom=0)
    fig.legend(loc="outside lower center", ncols=len(studies))
    return fig


def chunks_words(studies: Mapping[str, Mapping[int, Study]], draws: int) -> str:
    """The figure in words."""
    return "F1 of BiomedRAG. " + " ".join(
        f"{name}: "
        + ", ".join(f"m = {m} {_percent(s.scores(draws=draws)['biomedrag']['f1'].value)}" for m, s in of_one.items())
        + "."
        for name, of_one in studies.items()
    )


def explain_figures(run: Run, counts: Sequence[int], words: Sequence[int], model: str) -> None:
    """Say of the printed points of Figures 2 and 3 that were not rerun why they were not."""
    for number in run.printed.numbers:
        _, table, row, column = number.id.split(".", 3)
        if number.why_no_rerun:
            continue
        if table == "figure2" and row in ("git", "git_re") and column not in {f"llama2_top{n}" for n in counts}:
            why = (
                f"This run asks one model, {model}, which stands beside LLaMA2 13B."
                if column.startswith("medllama")
                else f"This profile tries n = {', '.join(map(str, counts))}."
            )
            run.not_run(number.id, why)
        elif table == "figure3" and column not in {f"m{m}" for m in words}:
            run.not_run(number.id, f"This profile tries chunks of {', '.join(map(str, words))} words.")
