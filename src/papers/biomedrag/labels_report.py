"""What the chapters on text classification and link prediction report (biomedrag.md, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from helpers.results import figures
from helpers.results.metrics import DRAWS, Score, proportion
from helpers.results.record import Run
from helpers.results.verdicts import ON_PAR, all_of, better, on_par
from helpers.vectors import Encoder
from papers.biomedrag import method_report as method
from papers.biomedrag.arms import Arm, Prediction, encoded, majority, nearest_label, tfidf
from papers.biomedrag.balance import KEYS
from papers.biomedrag.corpora import Corpus
from papers.biomedrag.experiment import Study
from papers.biomedrag.links import known_names, pair_classifier
from papers.biomedrag.scoring import MEASURES, Scores, right

PROMPTED: Final = {"zero_shot": "gpt4", "biomedrag": "gpt4_br"}
"""The row of Table 2 beside which an arm stands: a prompted model, without and with BiomedRAG."""
KNN: Final = ("ade.top1", "umls.top10", "adint.top15")
"""The points of Figure 2 whose n is told; all are of a fine-tuned model."""
SMALL: Final = "encoded"
"""The trained classifier on which claims about small models are tested, whichever is best on the tested rows: like the
paper's BERT, BioBERT and GatorTron it reads words through an encoder."""
STAND_IN: Final = (
    "stand-in: {label} for BERT, BioBERT and GatorTron, which the paper fine-tunes, and {model}, prompted, for its "
    "language models"
)
QUESTIONS: Final = {
    "ADE-corpus-v2": "Does the sentence tell of an adverse effect that a drug caused?",
    "MTSamples": "To which medical specialty does the report belong?",
}
"""What a prompt asks of a text."""
TRAINED: Final = ("nearest", "tfidf", "encoded", "pair", "pair_new")
"""Arms that learn from the training split without a language model."""
_WHY: Final = {
    "bert": "A fine-tuned encoder; here a logistic regression on a small encoder's vectors stands beside it.",
    "biobert": "A fine-tuned encoder; here a logistic regression on a small encoder's vectors stands beside it.",
    "gatortron": "A fine-tuned encoder; here a logistic regression on a small encoder's vectors stands beside it.",
    "llama2": "A fine-tuned model of 13 billion parameters; this notebook prompts the profile's model.",
    "llama2_br": "A fine-tuned model of 13 billion parameters; this notebook prompts the profile's model.",
    "medllama": "A fine-tuned model of 13 billion parameters; this notebook prompts the profile's model.",
    "medllama_br": "A fine-tuned model of 13 billion parameters; this notebook prompts the profile's model.",
}


def floor_arms(corpus: Corpus, encoder: Encoder) -> dict[str, Arm]:
    """The arms without a language model."""
    arms = {
        "majority": majority(corpus),
        "nearest": nearest_label(corpus, encoder),
        "tfidf": tfidf(corpus),
        "encoded": encoded(corpus, encoder),
    }
    if corpus.task == "links":
        arms |= {"pair": pair_classifier(corpus), "pair_new": pair_classifier(corpus, new=True)}
    return arms


# ------------------------------------------------------------------------------------------------------- the floors


def floors_table(run: Run, floors: Mapping[str, Study], draws: int = DRAWS) -> pd.DataFrame:
    """F1 as printed in Table 2, and of the arms without a language model on the whole test."""
    rows: dict[str, dict[str, object]] = {}
    for name in floors:
        for number in run.printed.numbers:
            if number.table == "Table 2" and number.id.endswith(f".{KEYS[name]}_f1"):
                rows.setdefault(number.row, {"system": number.row, "F1": "printed"})[name] = number.printed
    for name, study in floors.items():
        for arm, scores in study.scores(draws=draws).items():
            row = rows.setdefault(arm, {"system": method.label(arm), "F1": "here"})
            row[name] = figures.score_text(scores["f1"])
            run.extra(f"biomedrag.{KEYS[name]}.{arm}", f"F1 on {name}, whole test: {method.label(arm)}", scores["f1"])
    return pd.DataFrame(list(rows.values()))


def best_trained(study: Study) -> str:
    """The arm without a language model that has most rows right."""
    return max((arm for arm in study.answers if arm in TRAINED), key=lambda arm: sum(study.right(arm)))


def met_table(corpora: Mapping[str, Corpus], floors: Mapping[str, Study]) -> pd.DataFrame:
    """How often each arm is right where training has the row's text, and where it has not."""

    def told(corpus: Corpus, study: Study) -> list[bool]:
        texts = {" ".join(e.text.casefold().split()) for e in corpus.train}
        return [" ".join(e.text.casefold().split()) in texts for e in study.rows]

    met = {name: told(corpora[name], study) for name, study in floors.items()}
    return _apart(floors, met, "text in training", "text not in training")


def names_table(corpora: Mapping[str, Corpus], floors: Mapping[str, Study]) -> pd.DataFrame:
    """How often each arm is right where training has both names of the row, and where it has not."""
    known = {name: known_names(corpora[name]) for name in floors}
    return _apart(floors, known, "both names in training", "not both")


def _apart(floors: Mapping[str, Study], told: Mapping[str, Sequence[bool]], yes: str, no: str) -> pd.DataFrame:
    """How often each arm is right on the rows of which something is told, and on the others."""
    return pd.DataFrame(
        [
            {
                "data": name,
                "arm": method.label(arm),
                yes: _share(given, study, told[name], wanted=True),
                no: _share(given, study, told[name], wanted=False),
            }
            for name, study in floors.items()
            for arm, given in study.answers.items()
        ]
    )


def _share(given: Sequence[Prediction], study: Study, told: Sequence[bool], *, wanted: bool) -> Score | None:
    """How often answers are right on the rows of which something is told."""
    hits = right(study.rows, [p.label for p in given])
    of = [hit for hit, is_so in zip(hits, told, strict=True) if is_so is wanted]
    return proportion(sum(of), len(of)) if of else None


def pairs_words(corpora: Mapping[str, Corpus]) -> str:
    """How many names there are, and how often training knows both of a test pair, in Markdown."""
    said = []
    for name, corpus in corpora.items():
        names = {n for split in corpus.splits.values() for e in split for t in e.triples for n in (t.head, t.tail)}
        known = known_names(corpus)
        said.append(
            f"{name} has {len(names):,} names. Training has both of a test pair in "
            f"{figures.score_text(proportion(sum(known), len(known)))} of the test rows."
        )
    return " ".join(said)


def above_words(run: Run, floors: Mapping[str, Study], draws: int = DRAWS) -> str:
    """Which arms without a language model have their whole interval above all that Table 2 prints, in Markdown."""
    said = []
    for name, study in floors.items():
        top = max(
            (n for n in run.printed.numbers if n.table == "Table 2" and n.id.endswith(f".{KEYS[name]}_f1")),
            key=lambda number: number.value,
        )
        above = [
            f"*{method.label(arm)}* ({figures.score_text(scores['f1'])})"
            for arm, scores in study.scores(draws=draws).items()
            if scores["f1"].low > top.value
        ]
        held = f"above it lies {' and '.join(above)}" if above else "no arm here lies above it with its whole interval"
        said.append(f"The highest F1 printed for **{name}** is {top.printed} ({top.row}); {held}.")
    return " ".join(said)


# ----------------------------------------------------------------------------------------------- the language model


def add_floors(study: Study, whole: Study) -> None:
    """Add the answers of the arms without a language model, for the rows of a study that read some of the test."""
    kept = {row.id for row in study.rows}
    for arm, given in whole.answers.items():
        study.answers[arm] = [p for row, p in zip(whole.rows, given, strict=True) if row.id in kept]


def report_arms(run: Run, name: str, study: Study, model: str, note: str, draws: int = DRAWS) -> dict[str, Scores]:
    """Score the arms on the rows that the model read; prompted arms stand beside Table 2, the rest as extras.

    Args:
        run: takes the scores.
        name: of the data set.
        study: with the answers.
        model: that was asked.
        note: to each rerun.
        draws: of the bootstraps.
    """
    scores = study.scores(draws=draws)
    for arm, of_arm in scores.items():
        if arm in PROMPTED:
            for measure in MEASURES:
                run.rerun(
                    f"biomedrag.table2.{PROMPTED[arm]}.{KEYS[name]}_{measure}", of_arm[measure], model=model, note=note
                )
        else:
            run.extra(
                f"biomedrag.{KEYS[name]}_subset.{arm}", f"F1 on {name}, subset: {method.label(arm)}", of_arm["f1"]
            )
    gain = study.gain("biomedrag", "zero_shot", draws)
    points = Score(100 * gain.value, gain.n, 100 * gain.low, 100 * gain.high)
    run.rerun(f"biomedrag.text.gain.{KEYS[name]}_gpt4", points, model=model, note=note)
    return scores


def explain_rest(run: Run, names: Sequence[str]) -> None:
    """Say why the rows of Table 2 and the gains that need a fine-tuned model have no rerun."""
    for number in run.printed.numbers:
        row = number.id.split(".")[2]
        for name in names:
            if number.table == "Table 2" and row in _WHY and f".{KEYS[name]}_" in number.id:
                run.not_run(number.id, _WHY[row])
            elif ".text.gain." in number.id and f".{KEYS[name]}_" in number.id and not number.id.endswith("_gpt4"):
                run.not_run(number.id, _WHY["llama2"])
    for point in KNN:
        if point.partition(".")[0] in {KEYS[name] for name in names}:
            run.not_run(f"biomedrag.figure2.{point}", _WHY["llama2"])


def beside_printed(run: Run, name: str, scores: Mapping[str, Scores]) -> pd.DataFrame:
    """The arms on one data set, with the printed F1 of GPT-4 where an arm is a prompted model."""
    rows: list[dict[str, object]] = []
    for arm, of_arm in scores.items():
        row = PROMPTED.get(arm)
        printed = run.printed.number(f"biomedrag.table2.{row}.{KEYS[name]}_f1").printed if row else None
        rows.append({"arm": method.label(arm), **{m: of_arm[m] for m in MEASURES}, "printed F1, GPT-4": printed})
    return pd.DataFrame(rows)


def decide_on_par(run: Run, claim: str, studies: Mapping[str, Study], model: str) -> None:
    """A claim that small models do as well: on each data set one is at most `ON_PAR` worse than BiomedRAG.

    Args:
        run: takes the claim.
        claim: its id.
        studies: with the answers of both arms, by data set.
        model: that was asked with BiomedRAG.
    """
    tests = {name: study.against(SMALL, ["biomedrag"])["biomedrag"] for name, study in studies.items()}
    words = "; ".join(f"{name} {figures.points(test)} points, n = {test.n}" for name, test in tests.items())
    run.claim(
        claim,
        all_of(on_par(test) for test in tests.values()),
        f"'{method.label(SMALL)}' minus BiomedRAG: {words}; the margin is {100 * ON_PAR:.0f} points "
        f"({STAND_IN.format(label=method.label(SMALL), model=model)}).",
    )


def decide_prompted(run: Run, study: Study, model: str, note: str) -> None:
    """Whether a prompted model does better on MTSamples than a trained classifier.

    Args:
        run: takes the claim.
        study: with the answers of both arms.
        model: that was asked.
        note: how the data differ from the paper's.
    """
    test = study.against("zero_shot", [SMALL])[SMALL]
    run.claim(
        "biomedrag.claim.prompted_llm_best_on_mtsamples",
        better(test, test.p),
        f"LLM alone minus '{method.label(SMALL)}': {figures.points(test)} points, n = {test.n}. {note} (stand-in: "
        f"{model} for GPT-4, and the classifier for the fine-tuned LLaMA2 13B and MedLLaMA 13B.)",
        p=test.p,
    )


def gap_words(run: Run, floors: Mapping[str, Study], name: str, draws: int = DRAWS) -> str:
    """How far the arms without a language model stay below the encoders of Table 2 on a data set, in Markdown."""
    scores = {arm: of_arm["f1"] for arm, of_arm in floors[name].scores(draws=draws).items()}
    best = max(scores, key=lambda arm: scores[arm].value)
    printed = [
        run.printed.number(f"biomedrag.table2.{row}.{KEYS[name]}_f1") for row in ("bert", "biobert", "gatortron")
    ]
    least = min(printed, key=lambda number: number.value)
    return (
        f"On **{name}** the best arm here is *{method.label(best)}* with {figures.score_text(scores[best])}; the least "
        f"that Table 2 prints for a fine-tuned encoder is {least.printed} ({least.row}). What makes the difference of "
        f"{figures.signed(100 * (least.value - scores[best].value), 1)} points, this run does not tell."
    )


def split_note(whole: Corpus, parts: Corpus, words: int) -> str:
    """How MTSamples differs here from the paper: shares of an own split, and where a report was cut, in words."""
    shares = [f"{100 * len(rows) / len(whole.test):.0f}" for rows in parts.splits.values()]
    cut = f"cut to {words} words" if words else "not cut"
    return f"Own split of the test file ({'/'.join(shares)} per cent); the reports that the model reads are {cut}."


def summary(run: Run, floors: Mapping[str, Study], studies: Mapping[str, Study], model: str, draws: int = DRAWS) -> str:
    """The page's answer, from the values of the run."""
    lines = []
    for name, whole in floors.items():
        best = best_trained(whole)
        full = whole.scores(draws=draws)[best]["f1"]
        printed = run.printed.number(f"biomedrag.table2.llama2_br.{KEYS[name]}_f1").printed
        scores = studies[name].scores(draws=draws)
        gain = studies[name].gain("biomedrag", "zero_shot", draws)
        lines.append(
            f"- **{name}**: without any language model the best is *{method.label(best)}* with "
            f"{figures.score_text(full)} of {full.n:,} test rows; printed is {printed} for LLaMA2 13B + BiomedRAG. "
            f"On {gain.n} rows: {model} alone {figures.score_text(scores['zero_shot']['f1'])}; with BiomedRAG "
            f"{figures.score_text(scores['biomedrag']['f1'])} ({method.points_of(gain)} points); "
            f"*{method.label(best)}* {figures.score_text(scores[best]['f1'])}; always the commonest label "
            f"{figures.score_text(scores['majority']['f1'])}."
        )
    return "\n".join(["**In short.** How far does one get without a language model, and what does it add?", "", *lines])
