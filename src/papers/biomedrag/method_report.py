"""What a run of BiomedRAG's method reports: scores beside the printed ones, tests, scorers' choices, figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from helpers.lora import TrainingLog
from helpers.results import figures
from helpers.results.metrics import DRAWS, Paired, Score, bootstrap, holm, paired_means, proportion
from helpers.results.record import Run
from helpers.results.verdicts import ALPHA, WORTHWHILE, above, all_of, below, better
from helpers.vectors import Encoder
from papers.biomedrag.adapted import Adapted
from papers.biomedrag.arms import marked_entities, marks_the_pair
from papers.biomedrag.balance import KEYS, Balance
from papers.biomedrag.corpora import Corpus
from papers.biomedrag.encoder_tuning import TUNED, UNTUNED
from papers.biomedrag.experiment import (
    Lesson,
    Study,
    cost,
    documents_chosen,
    label_hits,
)
from papers.biomedrag.memory import pair_vectors
from papers.biomedrag.scorer import Floats, Scorer, cosine_scorer
from papers.biomedrag.scoring import MEASURES, PARTS, Scores, compare, shared_texts

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
PROMPTED: Final = {"zero_shot": "gpt4"}
"""The row of Table 1 beside which an arm stands: a prompted model that is told the labels' definitions
(section 4.3.1)."""
SHOWN_BESIDE: Final = {"zero_shot": ("gpt4", "GPT-4, prompted"), "biomedrag": ("llama2_br", "LLaMA2 13B, fine-tuned")}
"""The row of Table 1 that a page shows beside an arm, and its model."""
ENOUGH_SENTENCES: Final = 20
"""The least n that RA-KNN-n must be tried with to say what many sentences do; the paper goes to 30."""
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
    """Report the prompted model beside GPT-4's row of Table 1, and arms that no row of the paper is like as extras."""
    for arm, of_arm in scores.items():
        if row := PROMPTED.get(arm):
            for measure in MEASURES:
                identity = f"biomedrag.table1.{row}.{COLUMNS[name]}_{measure}"
                run.rerun(identity, of_arm[measure], model=model, note=note)
        else:
            run.extra(f"{COLUMNS[name]}.{arm}.f1", f"F1 on {name}: {label(arm)}", of_arm["f1"])


def report_gain(run: Run, name: str, gain: Score) -> None:
    """Keep the F1 with BiomedRAG minus that of the model alone; the text states it of fine-tuned models only."""
    run.extra(f"{COLUMNS[name]}.gain.f1", f"{name}: F1 with BiomedRAG minus F1 of the same model alone", gain)


def report_parts(run: Run, name: str, parts: Mapping[str, Scores]) -> None:
    """Keep the F1 of the triples and of their parts; Table 3 has fine-tuned models only."""
    for part, of_part in parts.items():
        run.extra(f"{COLUMNS[name]}.{part}.f1", f"F1 on {name}, {part}: {label('biomedrag')}", of_part["f1"])


FINE_TUNED: Final = (
    "A fine-tuned model of 13 billion parameters. This notebook prompts the profile's model, as the paper prompts "
    "GPT-4; its scores with retrieval are kept as values that the paper does not print."
)
OTHER_SYSTEM: Final = "Another system with code and training of its own; this notebook reruns the paper's method."
_ADAPTED: Final = ("llama2", "llama2_br", "medllama", "medllama_br")


def explain_rest(run: Run, names: Sequence[str]) -> None:
    """Say of the printed numbers of some corpora that have no rerun why they have none."""
    for number in run.printed.numbers:
        _, table, row, column = number.id.split(".", 3)
        if number.why_no_rerun:
            continue
        keys, key = {COLUMNS[name] for name in names}, column.rsplit("_", 1)[0]
        if table == "table1" and key in keys and row not in PROMPTED.values():
            run.not_run(number.id, FINE_TUNED if row in _ADAPTED else OTHER_SYSTEM)
        elif table == "table3" and "GIT" in names:
            run.not_run(number.id, FINE_TUNED if row.startswith("llama2_br_") else OTHER_SYSTEM)
        elif (table == "text" and row == "gain" and key in keys) or number.id in {
            f"biomedrag.figure2.{key}.top1" for key in keys
        }:
            run.not_run(number.id, FINE_TUNED)
        elif table == "text" and row in keys:
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
    """Scores of the arms on one corpus, and the F1 that Table 1 prints for the arm's namesake, with its model."""
    rows = []
    for arm, of_arm in scores.items():
        row, system = SHOWN_BESIDE.get(arm, ("", ""))
        rows.append(
            {
                "arm": label(arm),
                **{measure: of_arm[measure] for measure in MEASURES},
                "printed F1": f"{_percent(printed_value(run, name, row))} ({system})" if row else None,
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


def tests_table(
    tests: Mapping[str, Mapping[str, Paired]], arm: str = "biomedrag", claimed: Collection[str] = ()
) -> pd.DataFrame:
    """Paired tests of an arm against others.

    Args:
        tests: by corpus, then by the other arm.
        arm: the first of each pair.
        claimed: other arms that a claim is about. Only their p is adjusted, over the corpora, as where the claim is
            decided (`decide_gain`); the other comparisons decide nothing.
    """
    families = {
        other: adjusted({where: of_one[other] for where, of_one in tests.items() if other in of_one})
        for other in claimed
    }
    rows = []
    for where, of_one in tests.items():
        for other, test in of_one.items():
            row = {
                "corpus": where,
                "against": label(other),
                f"only {label(arm)} right": test.b,
                "only the other right": test.c,
                "difference, points": figures.points(test),
                "p": figures.p_text(test.p),
            }
            if claimed:
                row["p (Holm), of the claim"] = figures.p_text(families[other][where]) if other in families else None
            rows.append(row)
    return pd.DataFrame(rows)


def adjusted(tests: Mapping[str, Paired]) -> dict[str, float]:
    """The p-values of one family of tests, adjusted by Holm."""
    return dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))


def decide_gain(
    run: Run, claim: str, tests: Mapping[str, Paired], *, floors: Mapping[str, Score] | None = None, note: str = ""
) -> None:
    """A claim that one arm beats another on each corpus: every difference positive and significant after Holm.

    Args:
        run: takes the claim.
        claim: its id.
        tests: one family, by corpus.
        floors: what the commonest label alone reaches on the same rows, named in the reason.
        note: a sentence more for the reason.
    """
    ps = adjusted(tests)
    words = "; ".join(f"{name}: {figures.points(t)} points ({figures.p_words(ps[name])})" for name, t in tests.items())
    why = f"{words}; n = {_n(tests.values())}."
    if floors:
        said = "; ".join(f"{name} {figures.score_text(floor)}" for name, floor in floors.items())
        why += f" Always the commonest label has, on these rows: {said}."
    verdict = all_of(better(test, ps[name]) for name, test in tests.items())
    run.claim(claim, verdict, f"{why} {note}".strip(), p=max(ps.values()))


def points_of(gain: Score) -> str:
    """A difference of two F1 in points, with its interval."""
    low, high = (figures.signed(100 * bound, 1) for bound in (gain.low, gain.high))
    return f"{figures.signed(100 * gain.value, 1)} [{low}, {high}]"


def readable(scores: Mapping[str, Scores]) -> bool:
    """Whether nine answers of ten could be read in every arm: else a comparison is one of formats."""
    return all(of_arm["f1"].unparsed <= of_arm["f1"].n / 10 for of_arm in scores.values())


def _n(tests: Iterable[Paired]) -> str:
    return ", ".join(f"{test.n:,}" for test in tests)


# ------------------------------------------------------------------------------------------------------ the scorers


def choices_table(run: Run, name: str, lesson: Lesson, draws: int = DRAWS) -> pd.DataFrame:
    """What each scorer chose for inputs outside its training folds, measured by the LLM's own likelihood.

    Where no encoder was fine-tuned, a row says so.
    """
    choices = lesson.choices
    tests = choice_tests(lesson, draws)
    ps = adjusted(tests)
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
                "minus cosine": figures.difference(test, 2) if test else None,
                "p (Holm)": figures.p_text(ps[scorer]) if test else None,
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
    """Each scorer against plain cosine: paired randomisation test of log P_LLM(y | chosen document, x), by text."""
    values, clusters = lesson.choices.values, shared_texts([t.example for t in lesson.taught])
    return {
        scorer: paired_means(values[scorer], values["cosine"], clusters=clusters, draws=draws)
        for scorer in SCORERS
        if scorer != "cosine" and scorer in values
    }


def choices_words(lessons: Mapping[str, Lesson], draws: int = DRAWS) -> str:
    """Who won, the trained scorer or plain cosine, on each corpus; and the fine-tuned encoder, where one was.

    The p-values are adjusted as in `choices_table`, over its scorers.
    """
    said = []
    for name, lesson in lessons.items():
        tests = choice_tests(lesson, draws)
        ps = adjusted(tests)
        words = f"{name}: {_won(tests['text'], ps['text'])}"
        tuned = f" and, with the encoder fine-tuned, {_won(tests[TUNED], ps[TUNED])}" if TUNED in tests else ""
        said.append(words + tuned)
    return "; ".join(said) + "."


def _won(test: Paired, p: float) -> str:
    won = "neither is shown to win" if p >= ALPHA else "the trained scorer won" if test.difference > 0 else "cosine won"
    apart = figures.difference(test, 2)
    return f"{won} (trained minus cosine {apart} in log-likelihood, {figures.p_words(p)}, n = {test.n})"


def report_lesson(run: Run, lesson: Lesson, name: str = "") -> None:
    """Report what teaching took, and the encoder that was fine-tuned, if one was.

    Args:
        name: of the corpus, where a page has several.
    """
    of = f"{name}: " if name else ""
    run.timing(f"{of}likelihoods", lesson.seconds["likelihoods"], pairs=lesson.requests)
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
    gains: Mapping[str, Score],
    lessons: Mapping[str, Lesson],
    model: str,
    draws: int,
) -> str:
    """What the chapter on triples found, for the top of its page: the answer in words, then the figures.

    Args:
        run: has decided whether BiomedRAG improves the model.
        corpora: by name.
        floors: on the whole test.
        scores: on the rows that the model answered.
        gains: F1 with BiomedRAG minus that of the model alone.
        lessons: of the scorers.
        model: that was asked.
        draws: of the bootstraps.
    """
    shares = {name: sum(map(marks_the_pair, corpus.test)) / len(corpus.test) for name, corpus in corpora.items()}
    given_away = " and ".join(name for name, share in shares.items() if share > 0.5)
    verdict = {claim.id: claim.verdict for claim in run.claims}.get("biomedrag.claim.beats_llm_triples")
    answers = {
        "agrees": f"BiomedRAG improves {model}, prompted, on every data set.",
        "differs": f"BiomedRAG does not improve {model}, prompted, on every data set.",
    }
    undecided = f"Whether BiomedRAG improves {model}, prompted, so few rows do not tell."
    read = "; ".join(
        f"{name} {figures.score_text(of_one['blanks']['f1'])}, and {figures.score_text(of_one['names']['f1'])} without"
        for name, of_one in floors.items()
    )
    added = "; ".join(
        f"{name}: with it {figures.score_text(of_one['biomedrag']['f1'])}, alone "
        f"{figures.score_text(of_one['zero_shot']['f1'])} ({points_of(gains[name])} points)"
        for name, of_one in scores.items()
    )
    opening = (
        f"In the released sentences of {given_away}, blanks give away the two entities that are asked for."
        if given_away
        else "In none of these sentences do blanks give the two entities away."
    )
    return "\n".join(
        [
            f"**In short.** {opening} {answers.get(verdict or '', undecided)}",
            "",
            f"- **Blanks** mark exactly the gold pair in "
            f"{', '.join(f'{_percent(share)} of {name}' for name, share in shares.items())}.",
            f"- **A linear classifier that reads blanks** has an F1 of: {read}.",
            f"- **Printed** for LLaMA2 13B, fine-tuned, with BiomedRAG: "
            f"{', '.join(f'{_percent(printed_value(run, name))} on {name}' for name in scores)}.",
            f"- **BiomedRAG with {model}**, prompted. {added}.",
            f"- **Trained scorer against plain cosine**: {choices_words(lessons, draws)}",
        ]
    )


def relations_summary(
    run: Run,
    *,
    floors: Mapping[str, Scores],
    scores: Mapping[str, Scores],
    gain: Score,
    adapted: Mapping[str, Scores],
    lesson: Lesson,
    model: str,
    draws: int,
) -> str:
    """What the chapter on relations found, for the top of its page."""
    best = max(FLOORS, key=lambda arm: floors[arm]["f1"].value)
    f1 = {arm: figures.score_text(of_arm["f1"]) for arm, of_arm in scores.items()}
    said = (
        f"**In short.** F1 on the same {gain.n} rows of GIT-RE: BiomedRAG with {model}, prompted, "
        f"{f1['biomedrag']}; the model alone {f1['zero_shot']} ({points_of(gain)} points); always the commonest label "
        f"{f1['majority']}. On all {floors[best]['f1'].n} test rows the best of {len(FLOORS)} arms without a language "
        f"model, *{label(best)}*, has {figures.score_text(floors[best]['f1'])}. The paper prints "
        f"{_percent(printed_value(run, 'GIT-RE', 'llama2'))} and, with BiomedRAG, "
        f"{_percent(printed_value(run, 'GIT-RE'))} for LLaMA2 13B, fine-tuned. "
        f"Trained scorer against plain cosine: {choices_words({'GIT-RE': lesson}, draws)}"
    )
    if adapted:
        said += (
            " Of the answers of a smaller model, "
            + ", ".join(
                f"{of_arm['f1'].unparsed} of {of_arm['f1'].n} could not be read in the arm *{label(arm)}*"
                for arm, of_arm in adapted.items()
            )
            + "."
        )
        if not readable(adapted):
            said += " So its arms are not compared: they differ in the format of their answers."
    return said


# ----------------------------------------------------------------------------------------------------- the ablation


def ablation_table(run: Run, studies: Mapping[str, Study], draws: int) -> pd.DataFrame:
    """Table 4: the whole, without scorer, without diversity, printed and rerun; each rerun is kept as an extra."""
    places = {"GIT": "te", "GIT-RE": "re"}
    rows = []
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        for arm, row in {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}.items():
            run.extra(f"{COLUMNS[name]}.{arm}.f1", f"F1 on {name}: {label(arm)}", scores[arm]["f1"])
            printed = run.printed.number(f"biomedrag.table4.{places[name]}_{row}.f1")
            rows.append({"data": name, "arm": label(arm), "printed F1": printed.printed, "rerun F1": scores[arm]["f1"]})
    return pd.DataFrame(rows)


def chunk_table(run: Run, studies: Mapping[str, Mapping[int, Study]], draws: int) -> pd.DataFrame:
    """Figure 3: F1 by length of a chunk, printed and rerun; each rerun is kept as an extra."""
    rows = []
    for name, of_one in studies.items():
        for words, study in of_one.items():
            by_part = {part: study.scores(part, draws)["biomedrag"] for part in (PARTS if name == "GIT" else PARTS[:1])}
            for part, scores in by_part.items():
                identity = f"{COLUMNS[name]}.m{words}.{part}_f1"
                run.extra(identity, f"F1 on {name}, {part}: chunks of {words} words", scores["f1"])
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
    permuted: int,
    draws: int,
) -> None:
    """The claims of the ablation chapter, each by the test that `data/published/biomedrag.yml` states.

    Args:
        run: takes the claims.
        studies: with all arms, by corpus.
        chunks: BiomedRAG by length of a chunk, by corpus.
        counts: n of RA-KNN-n.
        permuted: retrieved pairs that are permuted.
        draws: of the bootstraps.
    """
    claim = "biomedrag.claim."

    def against(other: str) -> dict[str, Paired]:
        return {name: study.against("biomedrag", [other])[other] for name, study in studies.items()}

    decide_gain(run, claim + "scorer_beats_cosine", against("cosine"))
    decide_gain(
        run,
        claim + "diversity_helps",
        against("plain"),
        note=f"With permutations the scorer chooses among the best {permuted} retrieved pairs, without them among all: "
        "the pool differs too.",
    )
    lengths = {
        f"{name}, m = 5 against {words}": compare(
            of_one[5].right("biomedrag"), study.right("biomedrag"), shared_texts(study.rows)
        )
        for name, of_one in chunks.items()
        for words, study in of_one.items()
        if words != 5 and 5 in of_one
    }
    if lengths:
        decide_gain(
            run,
            claim + "longest_chunks_best",
            lengths,
            note="The length of a chunk also decides how many pairs are fetched: the pool differs too.",
        )
    else:
        run.claim(claim + "longest_chunks_best", "not run", "This profile tries one length of chunk.")
    run.claim(
        claim + "five_words_elsewhere",
        "not run",
        "Lengths of a chunk are tried on GIT and GIT-RE alone, where the paper prints them.",
    )
    run.claim(claim + "less_training_time", "not run", "No model is fine-tuned here, so no training time is measured.")
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
    most = max(counts)
    if most >= ENOUGH_SENTENCES and 1 in counts:
        steps = {name: study.against(knn_name(most), [knn_name(1)])[knn_name(1)] for name, study in studies.items()}
        run.claim(
            claim + "more_documents_do_not_help",
            all_of(below(test, WORTHWHILE) for test in steps.values()),
            f"n = {most} minus n = 1: "
            + "; ".join(f"{name} {figures.points(test)} points" for name, test in steps.items())
            + f"; n = {_n(steps.values())} rows.",
        )
    else:
        run.claim(
            claim + "more_documents_do_not_help",
            "not run",
            f"This profile tries n = {', '.join(map(str, counts))}; the claim is about many sentences, and needs n = 1 "
            f"and one of {ENOUGH_SENTENCES} or more.",
        )
    longer = {
        f"{name}, n = {n}": more
        for name, study in studies.items()
        for n in retrieved
        if n >= 5 and (more := _more_tokens(study, knn_name(n), draws))
    }
    if longer:
        run.claim(
            claim + "shorter_input",
            all_of(above(more, 0) for more in longer.values()),
            "RA-KNN-n has, in prompt tokens more than BiomedRAG: "
            + "; ".join(f"{name}: {figures.score_text(more, 'count')}" for name, more in longer.items())
            + ". Training time was not measured.",
        )
    else:
        run.claim(claim + "shorter_input", "not run", "This profile tries no n of 5 or more.")


def _more_tokens(study: Study, arm: str, draws: int) -> Score | None:
    """Prompt tokens of an arm minus those of BiomedRAG, over the rows that both were asked; None if there are none."""
    more = [
        theirs.prompt_tokens - ours.prompt_tokens
        for theirs, ours in zip(study.answers[arm], study.answers["biomedrag"], strict=True)
        if theirs.prompt_tokens and ours.prompt_tokens
    ]
    return bootstrap(more, draws=draws) if more else None


def ablation_summary(studies: Mapping[str, Study], counts: Sequence[int], draws: int, model: str) -> str:
    """What the ablation found, for the top of its page."""
    said = []
    for name, study in studies.items():
        scores = {arm: of_arm["f1"] for arm, of_arm in study.scores(draws=draws).items()}
        top = max(counts, key=lambda n, of=scores: of[knn_name(n)].value)  # type: ignore[misc]
        said.append(
            f"On {name} ({len(study.rows)} rows) BiomedRAG has {figures.score_text(scores['biomedrag'])}; minus plain "
            f"cosine {points_of(study.gain('biomedrag', 'cosine', draws))} points, minus the variant without "
            f"permutations {points_of(study.gain('biomedrag', 'plain', draws))} points. Of the n tried, RA-KNN-n is "
            f"highest at n = {top} with {figures.score_text(scores[knn_name(top)])}."
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


def knn_table(run: Run, studies: Mapping[str, Study], counts: Sequence[int], draws: int) -> pd.DataFrame:
    """F1 and cost of RA-KNN-n and of BiomedRAG; each F1 of RA-KNN-n is kept as an extra."""
    rows = []
    for name, study in studies.items():
        scores = study.scores(draws=draws)
        arms = {f"{n} nearest" if n else "none": (knn_name(n), n) for n in counts} | {"BiomedRAG": ("biomedrag", None)}
        for words, (arm, n) in arms.items():
            if n is not None:
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


def explain_figures(run: Run) -> None:
    """Say why Table 4, Figure 2 on GIT and GIT-RE, and Figure 3 have no rerun: all are of fine-tuned models."""
    for number in run.printed.numbers:
        _, table, row, _ = number.id.split(".", 3)
        ours = table in ("table4", "figure3") or (table == "figure2" and row in ("git", "git_re"))
        if ours and not number.why_no_rerun:
            run.not_run(number.id, FINE_TUNED)
