"""What a run of BiomedRAG's method reports: scores beside the printed ones, tests, scorers' choices, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from helpers import figures
from helpers.biomedrag.arms import marked_entities, marks_the_pair
from helpers.biomedrag.corpora import Corpus
from helpers.biomedrag.experiment import (
    Lesson,
    Study,
    ceiling,
    cost,
    documents_chosen,
    label_hits,
    single_blanks,
)
from helpers.biomedrag.scoring import MEASURES, PARTS, Scores
from helpers.metrics import DRAWS, Paired, Score, bootstrap, holm, paired_means, proportion
from helpers.record import Run

ARMS: Final = {
    "majority": ("Commonest label", "#808080"),
    "nearest": ("Nearest neighbour's label", "#808080"),
    "tfidf": ("TF-IDF and logistic regression", "#125ee0"),
    "encoded": ("Encoder and logistic regression", "#125ee0"),
    "blanks": ("Blanks and a linear classifier", "#079c6b"),
    "names": ("Known names and a linear classifier", "#079c6b"),
    "zero_shot": ("LLM alone", "#c35410"),
    "knn": ("LLM, nearest sentence (RA-KNN-1)", "#c35410"),
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
COLUMNS: Final = {"GIT": "git", "DDI": "ddi", "ChemProt": "chemprot", "GIT-RE": "git_re"}
SCORERS: Final = {
    "text": "trained, the printed loss",
    "code": "trained, the released code's loss",
    "each": "trained, a loss for each document",
    "kl": "trained, Kullback-Leibler",
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
    """Report the rerun of a corpus beside Table 1, and what the paper does not print as extras."""
    for arm, of_arm in scores.items():
        if row := PRINTED_ROWS.get(arm):
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


def explain_rest(run: Run, prefixes: Sequence[str], why: Mapping[str, str], done: Iterable[str]) -> None:
    """Say of every printed number under some prefixes that was not rerun why it was not.

    Args:
        run: takes the reasons.
        prefixes: beginnings of ids.
        why: reason by the row's name in the id; the empty name is for all other rows.
        done: ids that have a rerun.
    """
    have = set(done)
    for number in run.printed.numbers:
        if number.id in have or number.why_no_rerun or not number.id.startswith(tuple(prefixes)):
            continue
        row = number.id.split(".")[2]
        run.not_run(number.id, why.get(row, why[""]))


WHY_NOT: Final = {
    "": "Another system with code and training of its own; this notebook reruns the paper's method.",
    "gpt4": "A hosted model; name one by LLM_BASE_URL and LLM_MODEL, and its answers stand in the rows of the LLM.",
    "medllama": "This profile asks one model, which stands in the rows of LLaMA2 13B.",
    "medllama_br": "This profile asks one model, which stands in the rows of LLaMA2 13B.",
}


# --------------------------------------------------------------------------------------- what the sentences give away


def blanks_table(run: Run, corpora: Mapping[str, Corpus]) -> pd.DataFrame:
    """How far the text alone decides the answer: repeated texts, and blanks around the gold entities."""
    rows = []
    for name, corpus in corpora.items():
        whole, plain = ceiling(corpus.test), ceiling(corpus.test, single_blanks)
        marked = proportion(sum(marks_the_pair(e) for e in corpus.test), len(corpus.test))
        run.extra(f"{COLUMNS[name]}.marked_pairs", f"{name}: blanks single out the gold pair", marked)
        for kind, of_kind in {"": whole, "_single_blanks": plain}.items():
            best = proportion(round(of_kind.triple * whole.rows), whole.rows)
            run.extra(f"{COLUMNS[name]}.ceiling{kind}", f"{name}: best with one answer a text{kind}", best)
        rows.append(
            {
                "corpus": name,
                "test rows": whole.rows,
                "distinct texts": whole.texts,
                "blanks mark exactly the gold pair": marked,
                "most that one triple a text can reach": whole.triple,
                "the same with single blanks": plain.triple,
                "most for the relation alone": whole.relation,
                "printed F1": printed_value(run, name),
            }
        )
    return pd.DataFrame(rows)


def blanks_words(run: Run, corpora: Mapping[str, Corpus]) -> str:
    """Which printed scores lie above what the text of a row can decide."""
    said = []
    for name, corpus in corpora.items():
        printed = printed_value(run, name)
        whole, plain = ceiling(corpus.test).triple, ceiling(corpus.test, single_blanks).triple
        if printed > whole:
            said.append(
                f"On **{name}** the printed F1 ({_percent(printed)}) is above the most that any extractor can have "
                f"right that sees the released sentence and gives one answer to it ({_percent(whole)}): rows repeat a "
                "sentence with other pairs. The paper's rows held more than the sentence, or were counted otherwise."
            )
        elif printed > plain:
            said.append(
                f"On **{name}** the printed F1 ({_percent(printed)}) is above what the words can decide "
                f"({_percent(plain)}): without the blanks that mark the pair, rows of the same words differ in their "
                "answers."
            )
    return "\n\n".join(said) or "No printed score lies above what the text of the rows can decide."


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
                "printed F1, LLaMA2 13B": printed_value(run, name, row) if row else None,
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
                "difference": _points(test),
                "p (Holm)": _p(p),
            }
            for (where, other, test), p in zip(flat, adjusted, strict=True)
        ]
    )


def decide_gain(run: Run, claim: str, tests: Mapping[str, Paired]) -> None:
    """A claim that one arm beats another on each corpus: every difference positive and significant after Holm."""
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    holds = all(t.difference > 0 and adjusted[name] < 0.05 for name, t in tests.items())
    words = "; ".join(f"{name}: {_points(t)} (p {_p(adjusted[name])})" for name, t in tests.items())
    run.claim(claim, "agrees" if holds else "differs", f"{words}; n = {_n(tests.values())}.", p=max(adjusted.values()))


def _n(tests: Iterable[Paired]) -> str:
    return ", ".join(f"{test.n:,}" for test in tests)


# ------------------------------------------------------------------------------------------------------ the scorers


def choices_table(run: Run, name: str, lesson: Lesson, draws: int = DRAWS) -> pd.DataFrame:
    """What each scorer chose for inputs outside its training folds, measured by the LLM's own likelihood."""
    choices = lesson.choices
    tests = choice_tests(lesson, draws)
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    rows = []
    for scorer, words in SCORERS.items():
        mean = bootstrap(choices.values[scorer], draws=draws)
        run.extra(f"{COLUMNS[name]}.scorer.{scorer}", f"{name}: mean log P(y | chosen document, x), {words}", mean)
        test = tests.get(scorer)
        rows.append(
            {
                "scorer": words,
                "mean log P(y | d, x)": figures.score_text(mean, "count", digits=2),
                "less cosine": f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]" if test else None,
                "p (Holm)": _p(adjusted[scorer]) if test else None,
                "same document as cosine": float((choices.rows[scorer] == choices.rows["cosine"]).mean()),
                "different documents": documents_chosen(choices, lesson.taught, scorer),
                "has the true label": label_hits(choices, lesson.taught, scorer),
            }
        )
    return pd.DataFrame(rows)


def choice_tests(lesson: Lesson, draws: int = DRAWS) -> dict[str, Paired]:
    """Each scorer against plain cosine: paired randomisation test of log P_LLM(y | chosen document, x)."""
    values = lesson.choices.values
    return {
        scorer: paired_means(values[scorer], values["cosine"], draws=draws) for scorer in SCORERS if scorer != "cosine"
    }


def choices_words(lessons: Mapping[str, Lesson], draws: int = DRAWS) -> str:
    """Who won, the trained scorer or plain cosine, on each corpus."""
    said = []
    for name, lesson in lessons.items():
        test = choice_tests(lesson, draws)["text"]
        won = "neither won" if test.p >= 0.05 else "the trained scorer won" if test.difference > 0 else "cosine won"
        said.append(
            f"{name}: {won} (difference in log-likelihood {test.difference:+.2f}, p {_p(test.p)}, n = {test.n})"
        )
    return "; ".join(said) + "."


def draw_losses(lessons: Mapping[str, Lesson]) -> Figure:
    """Training loss by epoch, a panel an objective, a line a corpus, each as a share of its first value."""
    names = ("text", "each", "kl")
    fig, panels = plt.subplots(1, len(names), figsize=(9.0, 3.0), sharex=True)
    colours = ("#125ee0", "#c35410", "#079c6b", "#af219d")
    for panel, objective in zip(panels, names, strict=True):
        for colour, (name, lesson) in zip(colours, lessons.items(), strict=False):
            panel.plot(lesson.choices.losses[objective], color=colour, label=name)
        panel.set_title(SCORERS[objective].removeprefix("trained, "), fontsize=10.5)
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
            f"{o} {_of(lesson.choices.losses[o][0])} to {_of(lesson.choices.losses[o][-1])}"
            for o in ("text", "each", "kl")
        )
        + "."
        for name, lesson in lessons.items()
    )


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
                    "prompt tokens": spent["prompt"],
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


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _points(test: Paired) -> str:
    return f"{100 * test.difference:+.1f} points [{100 * test.low:+.1f}, {100 * test.high:+.1f}]"
