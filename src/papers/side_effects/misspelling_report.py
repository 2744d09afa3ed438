"""What a run on misspelt drug names (side_effects.md, Table 5) reports: rescoring, tables, figures, claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from helpers.results import figures, verdicts
from helpers.results.metrics import DRAWS, Column, Score, binary_scores, holm, mcnemar, paired_means, proportion
from helpers.results.published import Published
from helpers.results.record import Run
from papers.side_effects.misspelling import (
    EDITS,
    Answered,
    Normalised,
    Query,
    correction,
    group,
    over_drugs,
    recovered,
    right,
    share_where,
    spelt,
    whose,
)

ARMS = ("format_b", "graphrag")
"""The architectures of Table 5."""
CONDITIONS = {"correct": "names spelt right", "misspelt": "names misspelt", "normalised": "misspelt, then normalised"}
RELEASED_CONDITIONS = {"correct": "perfect", "misspelt": "raw_misspelled", "normalised": "llm_corrected"}

NORMALISERS = {
    "none": ("no normalisation", "#808080", "x"),
    "llm": ("LLM writes the name (the paper's way)", "#c35410", "o"),
    "edits": ("edit distance", "#125ee0", "s"),
    "winkler": ("Jaro-Winkler", "#6a7fdb", "D"),
    "ngrams": ("letter n-grams in FAISS", "#079c6b", "^"),
    "dictionary": ("drug-named-entity-recognition", "#9a7400", "v"),
    "choice": ("LLM chooses among candidates", "#af219d", "P"),
    "in_turn": ("dictionary, then edit distance", "#0b7a8f", "*"),
}
"""Label, colour and marker of each normaliser."""
AROUND = "in_turn"
"""Drawn large and hollow: on misspelt names it does what edit distance does, and would hide it."""

GROUPS = {"misspelt": "misspelt", "brand": "trade names", "spelling": "other spellings", "synonym": "other names"}
PROMPTED = ("floxetine", "ropirinole", "grisefulvin")
"""Names of the paper's list that stand with their answers in the authors' prompt: FEWSHOT_PROMPT_TEMPLATE in their
src/utils/spell_corrector.py, the same at commits dff2716 and 10e9091 of the repository of the released files. The
released reports say that this prompt was used (`use_fewshot`)."""

NAMES = "side_effects/misspelling/names.csv"
PAIRS = {
    condition: f"side_effects/misspelling/{file}.csv"
    for condition, file in {"correct": "correct", "misspelt": "misspelled", "normalised": "llm_corrected"}.items()
}
_RELEASED = "side_effects/released/"
SPELLING_RUNS = ("20251109_141744", "20251109_151823", "20251129_143712", "20251129_162614")
RECOVERY_RUNS = ("20251109_152804", "20251129_144011", "20251129_163320")
MISSPELLING_RUNS = ("20251104_142351", "20251129_134526", "20251129_155639")
PRINTED_RECOVERY = f"{_RELEASED}recovery_results_{RECOVERY_RUNS[0]}.json"
PRINTED_SPELLING = f"{_RELEASED}spelling_corrections_{SPELLING_RUNS[1]}.csv"
RELEASED = (
    NAMES,
    *PAIRS.values(),
    *(f"{_RELEASED}spelling_corrections_{run}.csv" for run in SPELLING_RUNS),
    *(f"{_RELEASED}spelling_accuracy_{run}.json" for run in SPELLING_RUNS),
    *(f"{_RELEASED}recovery_results_{run}.json" for run in RECOVERY_RUNS),
    *(f"{_RELEASED}misspelling_details_{run}.json" for run in MISSPELLING_RUNS),
)
"""Registry names of all that is rescored."""


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


def label(normaliser: str) -> str:
    """The name of a normaliser as a reader sees it."""
    return NORMALISERS[normaliser][0]


def printed_table(printed: Published) -> pd.DataFrame:
    """Table 5 as printed."""
    return pd.DataFrame(
        [
            {"condition": words}
            | {f"F1, {figures.arm_label(arm)}": printed.number(_cell(condition, arm)).printed for arm in ARMS}
            for condition, words in CONDITIONS.items()
        ]
    )


def _cell(condition: str, arm: str) -> str:
    return f"side_effects.table5.{condition}.{arm}"


def _ratio_ids(arm: str) -> tuple[str, str, str]:
    """Ids of the recovered share, of the share lost to misspelling, and of the share still lost in the end."""
    return tuple(f"side_effects.text.{name}.{arm}" for name in ("recovery", "degradation", "degradation_left"))  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------- the released files


@dataclass(frozen=True)
class Counts:
    """One confusion matrix, as the released results state it."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def f1(self) -> Score:
        """F1, its interval bootstrapped over single answers."""
        n = (self.tp, self.fp, self.fn, self.tn)
        labels, answers = np.repeat([True, False, True, False], n), np.repeat([True, True, False, False], n)
        return binary_scores(labels, answers)["f1"]


def read_recovery(path: Path) -> dict[tuple[str, str], Counts]:
    """A released recovery run: confusion counts by (architecture, condition)."""
    return {
        (entry["architecture"], condition): _counts(entry["results"][released]["metrics"])
        for entry in json.loads(path.read_text(encoding="utf-8"))
        for condition, released in RELEASED_CONDITIONS.items()
    }


def read_degradation(path: Path) -> dict[tuple[str, str], Counts]:
    """A released misspelling run, which has no normalisation: confusion counts by (architecture, condition)."""
    return {
        (entry["architecture"], condition): _counts(entry[f"{released}_metrics"])
        for entry in json.loads(path.read_text(encoding="utf-8"))
        for condition, released in {"correct": "correct", "misspelt": "misspelled"}.items()
    }


def _counts(metrics: Mapping[str, float]) -> Counts:
    return Counts(*(int(metrics[name]) for name in ("tp", "fp", "fn", "tn")))


def rescore(run: Run, files: Mapping[str, Path], drugs: Sequence[str]) -> dict[str, Score]:
    """Recompute every printed number on misspellings from the released files, and report it.

    Args:
        run: takes the values.
        files: path by registry name, for all of `RELEASED`.
        drugs: the drugs of the knowledge.

    Returns:
        The rescored cells of Table 5 by (condition.arm), and `all`, `prompted_left_out`: the released corrections, with
        and without the names that stand in the authors' prompt.
    """
    names = pd.read_csv(files[NAMES], encoding="utf-8-sig")["Original"].str.strip().str.lower()
    run.rescored("side_effects.text.misspelt_names", float(len(names)), source=NAMES)
    run.rescored("side_effects.text.mapped_names", float(names.isin(set(drugs)).sum()), source=NAMES)

    counts = read_recovery(files[PRINTED_RECOVERY])
    scores = {}
    for arm in ARMS:
        for condition in CONDITIONS:
            score = counts[arm, condition].f1
            scores[f"{condition}.{arm}"] = score
            run.rescored(_cell(condition, arm), score, source=PRINTED_RECOVERY, note="interval over single answers")
        whole, lost, kept = (scores[f"{condition}.{arm}"].value for condition in CONDITIONS)
        ratios = (kept / whole, 1 - lost / whole, 1 - kept / whole)
        n = scores[f"correct.{arm}"].n
        for id, value in zip(_ratio_ids(arm), ratios, strict=True):
            run.rescored(id, value, n=n, source=PRINTED_RECOVERY)

    made = read_corrections(files[PRINTED_SPELLING])
    scores["all"] = spelt(made.correction.tolist(), made.right.tolist())
    run.rescored("side_effects.text.spelling_accuracy", scores["all"], source=PRINTED_SPELLING)
    fair = made[~made.typed.isin(PROMPTED)]
    scores["prompted_left_out"] = spelt(fair.correction.tolist(), fair.right.tolist())
    run.extra(
        "released.corrected_without_prompted",
        "released corrections, without the names in the authors' prompt",
        scores["prompted_left_out"],
    )
    return scores


def explain_unscored(run: Run, why: str) -> None:
    """Say why no number on misspellings is rescored."""
    ids = [_cell(c, arm) for c in CONDITIONS for arm in ARMS] + [id for arm in ARMS for id in _ratio_ids(arm)]
    for id in (
        *ids,
        *(f"side_effects.text.{name}" for name in ("misspelt_names", "mapped_names", "spelling_accuracy")),
    ):
        run.not_run(id, why, kind="rescored")


def read_corrections(path: Path) -> pd.DataFrame:
    """Released corrections: columns typed, correction, right."""
    table = pd.read_csv(path, keep_default_na=False)
    columns = {"misspelled_input": "typed", "qwen_correction": "correction", "ground_truth": "right"}
    return table[list(columns)].rename(columns=columns).apply(lambda column: column.str.strip().str.lower())


def _when(run: str) -> str:
    at = datetime.strptime(run, "%Y%m%d_%H%M%S")  # the files tell no time zone
    return f"{at.day} {at:%B %Y, %H:%M}"


def spelling_runs_table(files: Mapping[str, Path]) -> pd.DataFrame:
    """The released correction runs side by side."""
    rows = []
    for run in SPELLING_RUNS:
        report = json.loads(files[f"{_RELEASED}spelling_accuracy_{run}.json"].read_text(encoding="utf-8"))
        made = read_corrections(files[f"{_RELEASED}spelling_corrections_{run}.csv"])
        fair = made[~made.typed.isin(PROMPTED)]
        over = report["overcorrection_test"]
        rows.append(
            {
                "run of": _when(run),
                "temperature": f"{report['model_info']['temperature']}",
                "corrected": spelt(made.correction.tolist(), made.right.tolist()),
                "without the names in the prompt": spelt(fair.correction.tolist(), fair.right.tolist()),
                "empty answers": int((made.correction == "").sum()),
                "right names changed": proportion(over["over_correction_count"], over["tested_count"]),
            }
        )
    return pd.DataFrame(rows)


def released_runs_table(files: Mapping[str, Path]) -> pd.DataFrame:
    """F1 of each released run, architecture and condition, and the share recovered."""
    released = {run: read_degradation(files[f"{_RELEASED}misspelling_details_{run}.json"]) for run in MISSPELLING_RUNS}
    released |= {run: read_recovery(files[f"{_RELEASED}recovery_results_{run}.json"]) for run in RECOVERY_RUNS}
    rows = []
    for architecture in ("pure_llm", "format_a", "format_b", "graphrag"):
        for run, counts in sorted(released.items()):
            if (architecture, "correct") not in counts:
                continue
            values = {c: counts[architecture, c].f1.value for c in CONDITIONS if (architecture, c) in counts}
            gap = values["correct"] - values["misspelt"]
            kept = values["normalised"] - values["misspelt"] if "normalised" in values else None
            rows.append(
                {
                    "architecture": figures.arm_label({"pure_llm": "closed_book"}.get(architecture, architecture)),
                    "run of": _when(run),
                    **{f"F1, {CONDITIONS[c]}": values.get(c) for c in CONDITIONS},
                    "share of the loss recovered": None if kept is None else figures.number(kept / gap),
                    "in Table 5": "yes" if run == RECOVERY_RUNS[0] and architecture in ARMS else "",
                }
            )
    return pd.DataFrame(rows)


def released_lookup(corrected: Path, knowledge: Mapping[str, Sequence[str]]) -> Counts:
    """The released corrected questions answered by looking the pair up in memory: no model, no graph server."""
    table = pd.read_csv(corrected)
    truth = table.label.astype(bool)
    found = pd.Series([e in knowledge.get(d, ()) for d, e in zip(table.drug, table.side_effect, strict=True)])
    return Counts(*(int(x.sum()) for x in (truth & found, ~truth & found, truth & ~found, ~truth & ~found)))


# ----------------------------------------------------------------------------------------------------- the benchmark


def benchmark_table(queries: Sequence[Query]) -> pd.DataFrame:
    """How many names of which kind, with an example."""
    words = {
        "insert": "a letter put in",
        "delete": "a letter left out",
        "substitute": "a letter for another",
        "transpose": "two letters swapped",
        "brand": "a trade name",
        "spelling": "British, American or INN spelling",
        "synonym": "another generic name",
        "correct": "spelt right",
        "absent": "no drug of the knowledge",
    }
    rows = []
    for kind, meaning in words.items():
        mine = [q for q in queries if q.kind == kind]
        if not mine:
            continue
        example = max(mine, key=lambda q: (q.edits == 1, -abs(len(q.typed) - 11)))
        by_edits = {f"{n} edit{'s' * (n > 1)}": sum(q.edits == n for q in mine) for n in (1, 2, 3)}
        rows.append(
            {"names": meaning}
            | {column: (count if kind in EDITS else None) for column, count in by_edits.items()}
            | {"all": len(mine), "example": f"{example.typed} ({example.drug or 'none'})"}
        )
    return pd.DataFrame(rows)


Outcomes = Mapping[str, Sequence[Normalised]]
"""The outcomes of each normaliser on the same queries."""


def accuracy_table(queries: Sequence[Query], outcomes: Outcomes) -> pd.DataFrame:
    """Each normaliser by what was asked: share given the right drug; right names kept; names of no drug left alone."""
    columns = GROUPS | {"correct": "right names kept", "absent": "no drug: left alone"}
    return pd.DataFrame(
        [
            {"normaliser": label(name)} | {words: correction(queries, results, of) for of, words in columns.items()}
            for name, results in outcomes.items()
        ]
    )


def edits_table(queries: Sequence[Query], outcomes: Outcomes) -> pd.DataFrame:
    """Share corrected by kind of edit (all numbers of edits together) and by number of edits (all kinds together)."""
    rows = []
    for name, results in outcomes.items():
        row: dict[str, object] = {"normaliser": label(name)}
        for edits in (1, 2, 3):
            row[f"{edits} edit{'s' * (edits > 1)}"] = _where(queries, results, edits=edits)
        for kind in EDITS:
            row[kind] = _where(queries, results, kind=kind)
        rows.append(row)
    return pd.DataFrame(rows)


def _where(
    queries: Sequence[Query], results: Sequence[Normalised], *, kind: str | None = None, edits: int | None = None
) -> Score | None:
    return share_where(
        queries, results, lambda q: q.kind in EDITS and kind in (None, q.kind) and edits in (None, q.edits)
    )


def report_outcomes(run: Run, queries: Sequence[Query], outcomes: Outcomes, of: str) -> None:
    """Keep the accuracies in the record; the paper prints none of them.

    Args:
        run: takes the values.
        queries: what was asked.
        outcomes: of each normaliser.
        of: `all` or `subset`, for the ids.
    """
    for name, results in outcomes.items():
        for what in (*GROUPS, "correct", "absent"):
            if score := correction(queries, results, what):
                run.extra(f"normaliser.{name}.{of}.{what}", f"{label(name)}, {what}: right outcomes ({of})", score)
        for edits in (1, 2, 3):
            if score := _where(queries, results, edits=edits):
                run.extra(f"normaliser.{name}.{of}.edits_{edits}", f"{label(name)}, {edits} edits ({of})", score)


def mistakes_table(queries: Sequence[Query], outcomes: Outcomes, shown: int = 3) -> pd.DataFrame:
    """What a misspelt name became where it did not become its drug: nothing, or, which is worse, another drug."""
    rows = []
    for name, results in outcomes.items():
        mine = [(q, r) for q, r in zip(queries, results, strict=True) if group(q) == "misspelt"]
        asked = [q for q, _ in mine]
        other = [(q, r) for q, r in mine if r.drug not in (None, q.drug)]
        rows.append(
            {
                "normaliser": label(name),
                "no drug": over_drugs(asked, [r.drug is None for _, r in mine]),
                "another drug": over_drugs(asked, [r.drug not in (None, q.drug) for q, r in mine]),
                "for example": "; ".join(f"{q.typed}: {r.drug}, meant {q.drug}" for q, r in other[:shown]),
            }
        )
    return pd.DataFrame(rows)


def cost_table(outcomes: Outcomes) -> pd.DataFrame:
    """Time and tokens a name. A language model's time is the median from sending to the last token."""
    rows = []
    for name, results in outcomes.items():
        seconds = np.array([r.seconds for r in results])
        rows.append(
            {
                "normaliser": label(name),
                "names": len(results),
                "milliseconds a name": 1000 * float(np.median(seconds)),
                "tokens a name": float(np.mean([r.tokens for r in results])),
            }
        )
    return pd.DataFrame(rows)


def paper_names_table(queries: Sequence[Query], truths: Mapping[str, str], outcomes: Outcomes) -> pd.DataFrame:
    """The paper's names one by one; of the language model what it wrote."""
    rows = []
    for i, query in enumerate(queries):
        row: dict[str, str | None] = {
            "typed": query.typed,
            "meant": truths[query.typed] + ("" if query.drug else " (not in the knowledge)"),
        }
        for name, results in outcomes.items():
            row[label(name)] = (results[i].words if name == "llm" else results[i].drug) or None
        rows.append(row)
    return pd.DataFrame(rows)


def paired_table(queries: Sequence[Query], outcomes: Outcomes) -> pd.DataFrame:
    """Paired randomisation test between every two normalisers, a drug's names together; p adjusted by Holm."""
    tests = paired_tests({name: right(queries, results) for name, results in outcomes.items()}, whose(queries))
    return pd.DataFrame(
        {
            "better": [label(name) for name in tests.better],
            "other": [label(name) for name in tests.other],
            "only the better is right": tests.only_better,
            "only the other is right": tests.only_other,
            "difference in points": [figures.points(row) for _, row in tests.iterrows()],
            "p (Holm)": [figures.p_text(p) for p in tests.p_holm],
        }
    )


# -------------------------------------------------------------------------------------------------------- downstream


def f1_score(answered: Answered, draws: int) -> Score:
    """F1 with its interval over drugs."""
    return binary_scores(answered.labels, answered.answers, clusters=answered.drugs, draws=draws)["f1"]


def downstream_table(run: Run, sets: Mapping[str, Mapping[str, Answered]], draws: int) -> pd.DataFrame:
    """F1 of the graph after each normaliser, a column a set of names; kept in the record too.

    Args:
        run: takes the values.
        sets: answers by normaliser, by the name of the set; the ids number the sets as they come.
        draws: of the bootstrap over drugs.
    """
    rows: dict[str, dict[str, object]] = {}
    for number, (words, of_set) in enumerate(sets.items(), start=1):
        for name, answered in of_set.items():
            score = f1_score(answered, draws)
            rows.setdefault(name, {"normaliser": label(name)})[words] = score
            run.extra(f"downstream.set_{number}.{name}", f"F1 of the graph, {label(name)}, {words}", score)
    return pd.DataFrame([rows[name] for name in NORMALISERS if name in rows])


Table5 = Mapping[tuple[str, str], Answered]
"""Answers of Table 5 by (condition, arm)."""


def report_table5(run: Run, table5: Table5, model: str, draws: int) -> dict[str, Score]:
    """Report the rerun of Table 5 and of the shares that the text derives from it.

    Returns:
        F1 by `condition.arm`, and the recovered share by `recovery.arm` where there is something to recover.
    """
    scores = {}
    for (condition, arm), of in table5.items():
        scores[f"{condition}.{arm}"] = score = f1_score(of, draws)
        run.rerun(_cell(condition, arm), score, model=model)
    for arm in ARMS:
        recovery, degradation, left = _ratio_ids(arm)
        whole, lost, kept = (table5[condition, arm] for condition in CONDITIONS)
        kept_share, lost_share = recovered(whole, kept, draws), recovered(whole, lost, draws)
        if kept_share is None or lost_share is None:
            for id in (recovery, degradation, left):
                run.not_run(id, "F1 with names spelt right is 0 in this run, so there is nothing to recover.")
            continue
        scores[f"recovery.{arm}"] = kept_share
        run.rerun(recovery, kept_share, model=model)
        run.rerun(degradation, _complement(lost_share), model=model)
        run.rerun(left, _complement(kept_share), model=model)
    return scores


def _complement(score: Score) -> Score:
    return Score(1 - score.value, score.n, 1 - score.high, 1 - score.low, score.unparsed)


def table5_table(
    printed: Published, rescored: Mapping[str, Score], rerun: Mapping[str, Score], alone: Mapping[str, Score]
) -> pd.DataFrame:
    """Table 5: printed, rescored, rerun, and retrieval alone without the language model's answer."""
    return pd.DataFrame(
        [
            {
                "condition": words if arm == ARMS[0] else "",
                "architecture": figures.arm_label(arm),
                "printed": printed.number(_cell(condition, arm)).printed,
                "rescored": _plain(rescored.get(f"{condition}.{arm}")),
                "rerun here": _plain(rerun[f"{condition}.{arm}"]),
                "unparsed": rerun[f"{condition}.{arm}"].unparsed,
                "retrieval alone": _plain(alone[f"{condition}.{arm}"]),
            }
            for condition, words in CONDITIONS.items()
            for arm in ARMS
        ]
    )


def _plain(score: Score | None) -> str | None:
    if score is None:
        return None
    return f"{score.value:.4f} [{score.low:.2f}, {score.high:.2f}]"


def decide_claims(run: Run, scores: Mapping[str, Score], model: str) -> None:
    """The claims on misspellings, by the tests that `data/published/side_effects.yml` states.

    Args:
        run: takes the verdicts.
        scores: of `report_table5`.
        model: who corrects the names.
    """
    misspelt = {arm: scores[f"misspelt.{arm}"] for arm in ARMS}
    run.claim(
        "side_effects.claim.misspelling_breaks_retrieval",
        # an arm that finds nothing under the right name either says nothing about misspelling
        verdicts.exactly(all(s.value == 0 for s in misspelt.values()))
        if all(scores[f"correct.{arm}"].value for arm in ARMS)
        else "undecided",
        "; ".join(
            f"F1 with misspelt names is {_plain(s)} for {figures.arm_label(arm)}, with right ones "
            f"{_plain(scores[f'correct.{arm}'])}"
            for arm, s in misspelt.items()
        )
        + ".",
    )
    shares = {arm: scores.get(f"recovery.{arm}") for arm in ARMS}
    found = {arm: share for arm, share in shares.items() if share is not None}
    whole = len(found) == len(ARMS)
    run.claim(
        "side_effects.claim.normalisation_recovers",
        verdicts.all_of(verdicts.above(s, 0.5) for s in found.values()) if whole else "undecided",
        f"Recovered share of F1, names corrected by {model}: "
        + "; ".join(f"{figures.arm_label(arm)} {figures.score_text(share)}" for arm, share in shares.items())
        + ".",
    )


def decide_larger_claim(
    run: Run,
    truths: Sequence[str],
    words: Sequence[str],
    larger: tuple[str, Sequence[str]] | None,
    why: str = "This run asked one model; set larger_model to ask a second.",
) -> None:
    """Whether a larger model corrects more of the same names.

    Args:
        run: takes the verdict.
        truths: the right names.
        words: what the first model wrote.
        larger: name and words of the larger model, if one was asked.
        why: none was asked.
    """
    claim = "side_effects.claim.larger_models_spell_better"
    if larger is None:
        run.claim(claim, "not run", why)
        return
    name, other = larger
    test = mcnemar(*([w == t for w, t in zip(of, truths, strict=True)] for of in (other, words)))
    run.claim(
        claim,
        verdicts.better(test, test.p),
        f"{name} corrects {test.b} names that the first model does not, and {test.c} the other way round: "
        f"{figures.points(test)} points.",
        p=test.p,
    )


# ----------------------------------------------------------------------------------------------------------- figures


Drawn = Mapping[str, tuple[Sequence[Query], Sequence[Normalised]]]
"""Queries and outcomes of each normaliser, which need not have been asked the same ones."""


def describe_edits(drawn: Drawn) -> str:
    """What `draw_edits` shows, in words made of its values: per cent given the right drug, by number of edits."""
    parts = []
    for name, (asked, results) in drawn.items():
        edits = [correction(asked, results, "correct"), *(_where(asked, results, edits=n) for n in (1, 2, 3))]
        parts.append(f"{label(name)} {', '.join(_per_cent(score) for score in edits)}")
    return (
        "Share of names given the right drug, in per cent, for right names and after one, two and three edits: "
        f"{'; '.join(parts)}."
    )


def describe_trade_off(curves: Mapping[str, pd.DataFrame], drawn: Drawn, forced: float = 0.1) -> str:
    """What `draw_trade_off` shows, in words made of its values.

    Args:
        curves: as drawn.
        drawn: as drawn.
        forced: the share of names of no drug at which the lines are read off.
    """
    marks = [
        f"{label(name)} {_per_cent(hit)} and {100 * (1 - left.value):.0f}"
        for name, (asked, results) in drawn.items()
        if (hit := correction(asked, results, "misspelt")) and (left := correction(asked, results, "absent"))
    ]
    lines = [
        f"{label(name)} {100 * curve.corrected[curve.forced <= forced].max():.0f}"
        for name, curve in curves.items()
        if (curve.forced <= forced).any()
    ]
    return (
        "Misspelt names corrected against names of no drug forced onto one, in per cent. "
        f"The marks: {'; '.join(marks)}. "
        f"Where at most {100 * forced:.0f} per cent are forced, the lines reach: {'; '.join(lines)}."
    )


def _per_cent(score: Score | None) -> str:
    return "none asked" if score is None else f"{100 * score.value:.0f}"


def draw_edits(queries: Sequence[Query], outcomes: Drawn) -> Figure:
    """Share of right outcomes by the number of edits, 0 being the right name, with 95 % intervals.

    Args:
        queries: the whole benchmark, for the axis.
        outcomes: of each normaliser.
    """
    fig, axes = plt.subplots(figsize=(7.2, 4.6))
    edits = sorted({q.edits for q in queries if q.kind in (*EDITS, "correct")})
    step = 0.07
    for i, (name, (asked, results)) in enumerate(outcomes.items()):
        words, colour, marker = NORMALISERS[name]
        scores = [correction(asked, results, "correct") if n == 0 else _where(asked, results, edits=n) for n in edits]
        points = [(n + step * (i - (len(outcomes) - 1) / 2), s) for n, s in zip(edits, scores, strict=True) if s]
        x = [at for at, _ in points]
        y = [s.value for _, s in points]
        error = [[s.value - s.low for _, s in points], [s.high - s.value for _, s in points]]
        n = sum(s.n for _, s in points)
        label_n = f"{words} ({n:,})"
        axes.errorbar(x, y, yerr=error, color=colour, marker=marker, linewidth=1.2, label=label_n, **_mark(name, 6))
    axes.set_xticks(edits, ["right name" if n == 0 else f"{n} edit{'s' * (n > 1)}" for n in edits])
    axes.set(ylabel="given the right drug", ylim=(-0.02, 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    fig.legend(loc="outside lower center", ncols=2, fontsize=9)
    return fig


def _mark(name: str, size: float) -> dict[str, Any]:
    return {"markersize": 1.9 * size, "markerfacecolor": "none"} if name == AROUND else {"markersize": size}


def draw_trade_off(curves: Mapping[str, pd.DataFrame], points: Drawn) -> Figure:
    """Misspelt names corrected against names of no drug that are forced onto one.

    Args:
        curves: `trade_off` of the normalisers that have a cut-off.
        points: of each normaliser as it was run.
    """
    fig, axes = plt.subplots(figsize=(7.2, 4.4))
    for name, curve in curves.items():
        axes.plot(curve.forced, curve.corrected, color=NORMALISERS[name][1], linewidth=1.4, alpha=0.8)
    for name, (asked, results) in points.items():
        words, colour, marker = NORMALISERS[name]
        hit, left = correction(asked, results, "misspelt"), correction(asked, results, "absent")
        if hit and left:
            x, y = 1 - left.value, hit.value
            axes.errorbar(
                x,
                y,
                xerr=[[left.high - left.value], [left.value - left.low]],
                yerr=[[hit.value - hit.low], [hit.high - hit.value]],
                color=colour,
                marker=marker,
                linewidth=1,
                linestyle="none",
                label=words,
                clip_on=False,
                **_mark(name, 8),
            )
    axes.set(xlabel="names of no drug forced onto one", ylabel="misspelt names corrected", ylim=(-0.02, 1.02))
    axes.set_xlim(-0.02, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    fig.legend(loc="outside lower center", ncols=2, fontsize=9)
    return fig
