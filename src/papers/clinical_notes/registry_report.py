"""Tables, figures, the page's answer and the verdicts of the notebook on the registry (12_notes_registry)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from helpers.results import figures
from helpers.results.metrics import Paired, Score, proportion
from helpers.results.record import Run
from helpers.results.verdicts import above, better
from papers.clinical_notes.charts import (
    CONTEXTS,
    LABELS,
    SPLITS,
    Chart,
    Charts,
    Context,
    ContextMention,
    Note,
    Wording,
)
from papers.clinical_notes.extraction import Passage, Reading, Training, clean
from papers.clinical_notes.registry import (
    ATTRIBUTES,
    SCHEMA,
    Hit,
    Scores,
    by_wording,
    fired,
    gold_status,
    gold_values,
    label_scores,
    matched,
    read_spans,
    read_values,
    span_hits,
    span_items,
    status_scores,
    template_and_paraphrase,
    value_scores,
)
from papers.clinical_notes.wording import PARAPHRASES
from papers.clinical_notes.wording import words as word_list

EXTRACTORS: dict[str, tuple[str, str, str]] = {
    "rules_exact": ("Rules, exact names", "#808080", "s"),
    "rules": ("Rules, one slip allowed", "#125ee0", "o"),
    "ner": ("Small spaCy model", "#c35410", "^"),
    "med7": ("Med7", "#af219d", "v"),
    "llm": ("Language model", "#079c6b", "D"),
    "rules_default": ("Rules, with medspaCy's own ConText rules", "#808080", "x"),
}
"""Label, colour and marker of each extractor, as in every figure."""
CLASSIFIERS = {
    "affirmed": "Always affirmed (floor)",
    "default": "ConText, medspaCy's own rules",
    "own": "ConText, with the project's rules",
    "llm": "Language model",
}
PAPER_MED7 = "en_core_med7_trf"
GOOD_DRUGS, GOOD_SPANS = 0.9, 0.8
"""F1 above which drugs read as taken, and Med7's spans, count as extracted: bounds of this project, not the paper's."""
UNSEEN: tuple[Wording, ...] = ("held out", "paraphrased")
"""Whose words no training note is in."""
SNIPPET = 60
"""Characters to either side of an error that a table shows."""


def label(extractor: str) -> str:
    """An extractor's name as a reader sees it."""
    return EXTRACTORS[extractor][0]


def marked(charts: Charts, caption: str) -> str:
    """A caption that says first what the charts are."""
    return f"{charts.mark}. {caption}"


# --------------------------------------------------------------------------------------------------------- charts


def charts_table(charts: Charts) -> pd.DataFrame:
    """What there is of each split."""
    rows = []
    for split in SPLITS:
        of = charts.split(split)
        notes = charts.notes(split)
        wordings = [m.wording for c in of for m in c.spans]
        rows.append(
            {
                "split": split,
                "patients": len(of),
                "notes": len(notes),
                "characters a note": round(float(np.mean([len(n.text) for n in notes]))) if notes else None,
                "medication events": sum(len(c.medications) for c in of),
                "drug spans": sum(m.label == "DRUG" for c in of for m in c.mentions),
                "seizures and symptoms": sum(len(c.contexts) for c in of),
                "copied passages": len(
                    {(f.note_id, f.start) for c in of for f in c.facts if f.copied_from is not None}
                ),
                **{
                    f"in {wording} wording": proportion(wordings.count(wording), len(wordings)).value
                    if wordings
                    else None
                    for wording in UNSEEN
                },
            }
        )
    return pd.DataFrame(rows)


def example(charts: Sequence[Chart]) -> Note:
    """A note to show: a call that names a dose and gives no identifier away, or else any note that gives none away."""
    open_ones = [n for c in charts for n in c.notes if not any(i in n.text for i in c.identifiers)]
    calls = [n for n in open_ones if n.kind == "phone call" and " mg" in n.text and clean(n.text).text != n.text]
    return (calls or open_ones)[0]


def cleaning_table(notes: Sequence[Note]) -> pd.DataFrame:
    """What cleaning changed in these notes: how many notes, and characters before and after."""
    cleaned = [clean(note.text) for note in notes]
    redacted = sum(c.text.count("[REDACTED]") for c in cleaned)
    return pd.DataFrame(
        [
            {
                "notes": len(notes),
                "changed": sum(c.text != n.text for c, n in zip(cleaned, notes, strict=True)),
                "redactions and numbers masked": redacted,
                "characters before": sum(len(n.text) for n in notes),
                "characters after": sum(len(c.text) for c in cleaned),
            }
        ]
    )


def training_table(training: Training) -> pd.DataFrame:
    """Micro F1 on the development notes after each pass."""
    return pd.DataFrame([{"pass": i, "F1 on development notes": f1} for i, f1 in enumerate(training.f1, start=1)])


# --------------------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class Measured:
    """All scores of the extractors, each on the notes that it read, by extractor.

    Attributes:
        exact, lenient: spans by label; the latter counts an overlap as found.
        values: what is said of a drug, linked to it, by attribute.
        hits: each gold span, and whether it was read exactly.
        recalls: recall of spans in shared and in held-out wording.
        statuses: accuracy of the seizure status.
        floor: the commonest status and its share.
        not_run: why an extractor has no scores.
    """

    exact: dict[str, dict[str, Scores]]
    lenient: dict[str, dict[str, Scores]]
    values: dict[str, dict[str, Scores]]
    hits: dict[str, list[Hit]]
    recalls: dict[str, dict[Wording, Score]]
    statuses: dict[str, Score]
    floor: tuple[str, Score]
    not_run: dict[str, str]


def measure(
    charts: Sequence[Chart], readings: Mapping[str, Sequence[Reading]], not_run: Mapping[str, str], draws: int
) -> Measured:
    """Score every extractor; the language model gives no spans, and neither dosage nor duration.

    Args:
        charts: the test charts.
        readings: what each extractor read; they need not have read the same notes.
        not_run: why an extractor has none.
        draws: of the bootstrap over patients.
    """
    with_spans = {name: of for name, of in readings.items() if name != "llm"}
    values = {name: value_scores(charts, of, draws) for name, of in readings.items()}
    for name in ("dosage", "duration"):
        values.get("llm", {}).pop(name, None)
    every = {r.note_id for of in readings.values() for r in of}
    hits = {name: span_hits(charts, of) for name, of in with_spans.items()}
    return Measured(
        {name: label_scores(charts, of, draws) for name, of in with_spans.items()},
        {name: label_scores(charts, of, draws, lenient=True) for name, of in with_spans.items()},
        values,
        hits,
        {name: by_wording(of, draws) for name, of in hits.items()},
        {name: status_scores(charts, of, draws) for name, of in readings.items()},
        majority(charts, every),
        dict(not_run),
    )


def report_measured(run: Run, measured: Measured) -> None:
    """Keep all scores in the record."""
    report_scores(run, measured.exact, "spans", "Spans")
    report_scores(run, measured.lenient, "overlaps", "Spans, overlap counts")
    report_scores(run, measured.values, "values", "Values linked to their drug")
    for name, recall in measured.recalls.items():
        for wording, score in recall.items():
            key = f"wording.{name}.{wording.replace(' ', '_')}"
            run.extra(key, f"Recall of spans, {wording} wording, {label(name)}, synthetic charts", score)
    for name, score in measured.statuses.items():
        run.extra(f"status.{name}", f"Seizure status right, {label(name)}, synthetic charts", score)


def report_scores(run: Run, scores: Mapping[str, Mapping[str, Scores]], kind: str, words: str) -> None:
    """Keep precision, recall and F1 of each extractor in the record."""
    for extractor, of in scores.items():
        for name, score in of.items():
            for measure in ("precision", "recall", "f1"):
                run.extra(
                    f"{kind}.{extractor}.{name.lower()}.{measure}",
                    f"{words}, {name}, {measure}, {label(extractor)}, synthetic charts",
                    getattr(score, measure),
                )


def f1_table(measured: Measured) -> pd.DataFrame:
    """F1 by label, a column an extractor: the exact span, and for all labels also counting overlaps."""
    rows: list[dict[str, object]] = []
    for scores, name in [*((measured.exact, name) for name in (*LABELS, "all")), (measured.lenient, "all")]:
        row: dict[str, object] = {"label": name + (", overlap counts" if scores is measured.lenient else "")}
        for extractor, of in scores.items():
            row[label(extractor)] = of[name].f1 if name in of else None
        rows.append(row | {label(extractor): "not run" for extractor in measured.not_run})
    return pd.DataFrame(rows)


def precision_recall_table(measured: Measured) -> pd.DataFrame:
    """Precision and recall of exact spans by label, two columns an extractor."""
    rows: list[dict[str, object]] = []
    for name in (*LABELS, "all"):
        row: dict[str, object] = {"label": name}
        for extractor, of in measured.exact.items():
            row["in the gold"] = of[name].gold if name in of else None
            row[f"{label(extractor)}: precision"] = of[name].precision if name in of else None
            row[f"{label(extractor)}: recall"] = of[name].recall if name in of else None
        rows.append(row)
    return pd.DataFrame(rows)


def values_table(measured: Measured) -> pd.DataFrame:
    """F1 of what is said of a drug, linked to it, by attribute, a column an extractor."""
    rows: list[dict[str, object]] = []
    for name in ATTRIBUTES:
        row: dict[str, object] = {"attribute": name}
        for extractor, of in measured.values.items():
            row[label(extractor)] = of[name].f1 if name in of else None
        rows.append(row | {label(extractor): "not run" for extractor in measured.not_run})
    return pd.DataFrame(rows)


def wording_table(measured: Measured) -> pd.DataFrame:
    """Recall of spans in wording that training notes share and in wording held out of them."""
    return pd.DataFrame(
        [
            {
                "extractor": label(name),
                "recall, shared wording": recall.get("shared"),
                "recall, held-out wording": recall.get("held out"),
            }
            for name, recall in measured.recalls.items()
        ]
    )


def paraphrases_table() -> pd.DataFrame:
    """What became of the paraphrases that a model was asked for, from the file that keeps them."""
    file = word_list(PARAPHRASES)
    kept = sum(len(of) for of in file["paraphrases"].values())
    rows = [(f"asked of {file['made']['model']}", file["asked"])]
    rows += [(f"refused by a check: {reason}", n) for reason, n in file["refused"].items()]
    rows += [("taken out on reading", len(file["removed"])), ("kept", kept)]
    return pd.DataFrame(rows, columns=["paraphrases", "number"])


def paraphrase_examples(n: int = 5) -> pd.DataFrame:
    """Some templates with a paraphrase each, evenly from the whole file."""
    pairs = [(template, of[0]) for template, of in word_list(PARAPHRASES)["paraphrases"].items()]
    shown = [pairs[i * len(pairs) // n] for i in range(min(n, len(pairs)))] if pairs else []
    return pd.DataFrame(shown, columns=["template", "paraphrase"])


Reworded = dict[str, tuple[Score, Score]]
"""By reader: what is right in templates' own words, and in paraphrases of the same templates."""


def reworded(hits: Mapping[str, Sequence[Hit]], draws: int) -> Reworded:
    """Scores of each reader whose mentions were worded both ways.

    Args:
        hits: each gold mention, by who read it: a key of `EXTRACTORS` or `CLASSIFIERS`.
        draws: of the bootstrap over patients.
    """
    scores = {name: template_and_paraphrase(of, draws) for name, of in hits.items()}
    return {name: both for name, both in scores.items() if both}


def report_reworded(run: Run, scores: Reworded, what: str) -> None:
    """Keep them in the record.

    Args:
        run: the run.
        scores: by reader.
        what: is right, as "Recall of spans".
    """
    for name, (own, paraphrase) in scores.items():
        words = f"{what}, {_reader(name)}, synthetic charts"
        run.extra(f"reworded.{name}.template", f"{words}, in the templates' own words", own)
        run.extra(f"reworded.{name}.paraphrase", f"{words}, in paraphrases of the same templates", paraphrase)


def _reader(name: str) -> str:
    return label(name) if name in EXTRACTORS else CLASSIFIERS[name]


def reworded_table(scores: Reworded) -> pd.DataFrame:
    """A row a reader: how many mentions there are each way, and how many of them are right."""
    return pd.DataFrame(
        [
            {
                "read by": _reader(name),
                "in the template's words": own.n,
                "right, template": own,
                "in the model's words": paraphrase.n,
                "right, paraphrase": paraphrase,
            }
            for name, (own, paraphrase) in scores.items()
        ],
        columns=["read by", "in the template's words", "right, template", "in the model's words", "right, paraphrase"],
    )


def status_scores_by_reader(measured: Measured, asked: Measured) -> dict[str, Score]:
    """Accuracy of the seizure status by who gives it; ConText's is the same whoever names the drugs."""
    scores = {
        CLASSIFIERS["default"]: measured.statuses["rules_default"],
        CLASSIFIERS["own"]: measured.statuses["rules"],
        f"Always {measured.floor[0]} (floor)": measured.floor[1],
    }
    if "llm" in asked.statuses:
        here = asked.statuses["llm"].n
        scores[f"{CLASSIFIERS['llm']}, {here} notes"] = asked.statuses["llm"]
        scores[f"{CLASSIFIERS['own']}, the same {here} notes"] = asked.statuses["rules"]
    return scores


def status_table(scores: Mapping[str, Score]) -> pd.DataFrame:
    """Accuracy of the seizure status, a row a reader."""
    return pd.DataFrame([{"status by": name, "notes": score.n, "right": score} for name, score in scores.items()])


# -------------------------------------------------------------------------------------------------------- ConText


def context_table(scores: Mapping[str, Mapping[str, Score]]) -> pd.DataFrame:
    """Share of the mentions of each class that get it, a row a classifier."""
    rows = []
    for name, of in scores.items():
        row: dict[str, object] = {"classifier": CLASSIFIERS[name], "mentions": of["all"].n}
        rows.append(row | {context: of.get(context) for context in (*CONTEXTS, "all")})
    return pd.DataFrame(rows)


def draw_confusion(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Gold class against given class, a panel a classifier; a row's colours are shares of that row."""
    fig, axes = plt.subplots(1, len(tables), figsize=(3.7 * len(tables) + 1.2, 3.9), sharey=True, squeeze=False)
    for axis, (name, counts) in zip(axes[0], tables.items(), strict=True):
        shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
        share = shares.to_numpy(dtype=float)
        text = counts.map(lambda n: f"{n:,}" if n else "")
        sns.heatmap(
            shares,
            annot=text,
            fmt="",
            ax=axis,
            vmin=0,
            vmax=1,
            cbar=False,
            cmap=sns.light_palette("#125ee0", as_cmap=True),
            linewidths=0.5,
            linecolor="#808080",
            annot_kws={"fontsize": 9.5},
        )
        for cell in axis.texts:
            # on the colour of its own cell, whatever the theme
            x, y = (int(v) for v in cell.get_position())
            cell.set_color("#ffffff" if share[y, x] > 0.5 else "#111111")
        axis.set_title(CLASSIFIERS[name], fontsize=10.5)
        axis.set_xlabel("given")
        axis.set_ylabel("gold" if axis is axes[0][0] else "")
        axis.tick_params(axis="x", rotation=40)
        axis.tick_params(axis="y", rotation=0)
    return fig


def confusion_in_words(tables: Mapping[str, pd.DataFrame]) -> str:
    """In words, for who cannot see the figure: the share that is right of each class, by classifier."""
    parts = []
    for name, table in tables.items():
        counts = table.to_numpy(dtype=float)
        right = [
            f"{context} {figures.number(counts[i, i] / counts[i].sum(), digits=0)}"
            for i, context in enumerate(CONTEXTS)
            if counts[i].sum()
        ]
        parts.append(f"{CLASSIFIERS[name]}: right are {', '.join(right)}")
    return "; ".join(parts) + "."


def draw_labels(scores: Mapping[str, Mapping[str, Scores]], names: Sequence[str]) -> Figure:
    """F1 with its interval by label and extractor."""
    fig, axis = plt.subplots(figsize=(7.2, 0.62 * len(names) + 1.4))
    step = 0.8 / max(len(scores), 1)
    for i, (extractor, of) in enumerate(scores.items()):
        words, colour, marker = EXTRACTORS[extractor]
        there = [(y, of[name].f1) for y, name in enumerate(names) if name in of]
        at = [y + step * (i - (len(scores) - 1) / 2) for y, _ in there]
        value = [s.value for _, s in there]
        error = [[s.value - s.low for _, s in there], [s.high - s.value for _, s in there]]
        axis.errorbar(
            value,
            at,
            xerr=error,
            color=colour,
            marker=marker,
            markersize=6,
            linestyle="none",
            label=words,
            clip_on=False,
        )
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, 1)
    axis.grid(axis="x")
    axis.set_xlabel("F1")
    axis.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    fig.legend(loc="outside lower center", ncols=min(len(scores), 3), fontsize=9)
    return fig


def best_and_worst(scores: Mapping[str, Mapping[str, Scores]], names: Sequence[str]) -> str:
    """In words, for who cannot see the figure: each extractor's best and worst F1."""
    parts = []
    for extractor, of in scores.items():
        there = {name: of[name].f1.value for name in names if name in of}
        if there:
            best, worst = max(there, key=lambda n: there[n]), min(there, key=lambda n: there[n])
            parts.append(
                f"{label(extractor)} from {figures.number(there[worst])} ({worst}) to {figures.number(there[best])} "
                f"({best})"
            )
    return "; ".join(parts)


# --------------------------------------------------------------------------------------------------------- errors


def _snippet(text: str, start: int, end: int) -> str:
    shown = clean(text[max(0, start - SNIPPET) : end + SNIPPET]).text.replace("\n", " ")
    return f"... {shown} ..."


def error_table(
    charts: Sequence[Chart], readings: Mapping[str, Sequence[Reading]], notes: Sequence[Note], shown: int = 2
) -> pd.DataFrame:
    """Examples of what each extractor missed or made up, label by label, from the commonest kind of error on."""
    text, rows = {note.note_id: note.text for note in notes}, []
    for extractor, of in readings.items():
        if not any(r.entities for r in of):
            continue
        here = {r.note_id for r in of}
        kinds: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
        for name in LABELS:
            gold = set(span_items(charts, here, name))
            found = matched(gold, read_spans(of, name))
            for what, items in (("missed", gold - found), ("made up", found - gold)):
                kinds[name, what] = sorted((i[0], int(i[1]), int(i[2])) for i in items)
        for (kind, what), places in sorted(kinds.items(), key=lambda kv: -len(kv[1]))[:3]:
            counts = Counter(text[n][s:e].lower() for n, s, e in places)
            for words, _ in counts.most_common(shown):
                at = next(i for i in places if text[i[0]][i[1] : i[2]].lower() == words)
                rows.append(
                    {
                        "extractor": label(extractor),
                        "label": kind,
                        "error": what,
                        "such errors": len(places),
                        "the words": words,
                        "times": counts[words],
                        "for example": _snippet(text[at[0]], at[1], at[2]),
                    }
                )
    return pd.DataFrame(rows)


def value_error_table(
    charts: Sequence[Chart], readings: Mapping[str, Sequence[Reading]], shown: int = 3
) -> pd.DataFrame:
    """Examples of linked values that are wrong: read and not in the gold, or in the gold and not read."""
    rows = []
    for extractor, of in readings.items():
        here, found = {r.note_id for r in of}, read_values(of)
        for name in ("drug", "strength"):
            gold = {item for c in charts for item in gold_values(c)[name] if item[0] in here}
            for what, items in (("missed", gold - found[name]), ("made up", found[name] - gold)):
                counts = Counter(" ".join(item[1:]) for item in items)
                rows.append(
                    {
                        "extractor": label(extractor),
                        "attribute": name,
                        "error": what,
                        "such errors": len(items),
                        "most often": ", ".join(f"{words} ({n})" for words, n in counts.most_common(shown)) or None,
                    }
                )
    return pd.DataFrame(rows)


def context_error_table(
    mentions: Sequence[tuple[Note, ContextMention]], classes: Sequence[Context], shown: int = 8
) -> pd.DataFrame:
    """Mentions that got a wrong class: one example of each commonest pair of classes."""
    wrong = [(n, m, c) for (n, m), c in zip(mentions, classes, strict=True) if m.context != c]
    counts = Counter((m.context, c) for _, m, c in wrong)
    rows = []
    for (gold, given), n in counts.most_common(shown):
        note, mention, _ = next(w for w in wrong if (w[1].context, w[2]) == (gold, given))
        rows.append(
            {
                "gold": gold,
                "given": given,
                "times": n,
                "for example": _snippet(note.text, mention.start, mention.end),
                "wording": mention.wording,
            }
        )
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------ notes from elsewhere


def dose_table(scores: Mapping[str, Scores | None]) -> pd.DataFrame:
    """Scores of drug-dose pairs by arm."""
    return pd.DataFrame(
        [
            {
                "drugs named by": name,
                "pairs in the gold": score.gold if score else None,
                "pairs read": score.read if score else None,
                "precision": score.precision if score else None,
                "recall": score.recall if score else None,
                "F1": score.f1 if score else None,
            }
            for name, score in scores.items()
        ]
    )


def unseen_table(passages: Sequence[Passage], readings: Mapping[str, Sequence[Reading]]) -> pd.DataFrame:
    """How often each label and class fires in notes without gold, for a thousand words."""
    length = sum(len(p.text.split()) for p in passages)
    counts = {name: fired(of) for name, of in readings.items()}
    kinds = [*LABELS, *(f"{kind}, {context}" for kind in ("seizure", "symptom") for context in CONTEXTS)]
    rows = []
    for kind in kinds:
        row: dict[str, object] = {"given": kind}
        for name, of in counts.items():
            row[f"{label(name)}: times"] = of[kind]
            row[f"{label(name)}: in 1,000 words"] = f"{1000 * of[kind] / length:.1f}" if length else None
        rows.append(row)
    return pd.DataFrame(rows)


def unseen_drugs_table(passages: Sequence[Passage], readings: Mapping[str, Sequence[Reading]]) -> pd.DataFrame:
    """The words that each extractor called a drug most often, to be judged by eye."""
    text, rows = {p.note_id: p.text for p in passages}, []
    for name, of in readings.items():
        counts = Counter(
            " ".join(text[r.note_id][e.start : e.end].lower().split())
            for r in of
            for e in r.entities
            if e.label == "DRUG"
        )
        rows.append(
            {
                "extractor": label(name),
                "distinct": len(counts),
                "most often called a drug": ", ".join(f"{words} ({n})" for words, n in counts.most_common(12)) or None,
            }
        )
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------- registry


def schema_table(registry: pd.DataFrame) -> pd.DataFrame:
    """The registry's columns with their types, and in how many of the rows each is filled."""
    filled = {
        name: sum(len(v) > 0 if name == "seizure_symptoms" else not pd.isna(v) for v in registry[name])
        for name in SCHEMA.names
    }
    return pd.DataFrame(
        [
            {
                "column": field.name,
                "type": str(field.type),
                "rows with a value": proportion(filled[field.name], len(registry)).value,
                "distinct": registry[field.name].map(str).nunique(),
            }
            for field in SCHEMA
        ]
    )


# ------------------------------------------------------------------------------------------------- answer, verdicts


def majority(charts: Sequence[Chart], notes: set[str]) -> tuple[str, Score]:
    """The commonest seizure status of these notes, and its share: what always answering it is worth."""
    statuses = [s for c in charts for n, s in gold_status(c).items() if n in notes]
    name, count = Counter(statuses).most_common(1)[0]
    return name, proportion(count, len(statuses))


def decide_claims(run: Run, measured: Measured, gain: Paired, med7: str, why_not_med7: str) -> None:
    """The claims on the registry, by the tests that `data/published/clinical_notes.yml` states.

    Args:
        run: the run.
        measured: scores on the test notes; `rules_default` among its statuses.
        gain: what `registry.status_gain` says of `rules_default`.
        med7: the name of the model that was asked for as Med7.
        why_not_med7: why it was not run, if it was not.
    """
    text = figures.score_text
    run.rerun(
        "clinical_notes.text.registry_columns",
        len(SCHEMA.names),
        note="Columns of the Parquet file that this run wrote.",
    )
    instead = "" if med7 == PAPER_MED7 else f" Stand-in: {med7} for {PAPER_MED7}."
    drugs = {name: of["drug"].f1 for name, of in measured.values.items() if "drug" in of}
    bar = f"bar {figures.number(GOOD_DRUGS, digits=0)}"
    if "med7" in drugs:
        run.claim(
            "clinical_notes.claim.registry_from_notes",
            above(drugs["med7"], GOOD_DRUGS),
            f"F1 of drugs read as taken, Med7, is {text(drugs['med7'])} on synthetic charts; {bar}.{instead}",
        )
    else:
        spans = measured.exact["rules"]["all"].f1
        run.claim(
            "clinical_notes.claim.registry_from_notes",
            "not run",
            f"The paper's extractor was not run: {why_not_med7.rstrip('.')}. Stand-in: rules with this project's "
            f"dictionary; their F1 of drugs read as taken is {text(drugs['rules'])} on synthetic charts, {bar}, and "
            f"their F1 of exact spans {text(spans)}.",
        )
    if "med7" in measured.lenient:
        score = measured.lenient["med7"]["all"].f1
        run.claim(
            "clinical_notes.claim.med7_extracts",
            above(score, GOOD_SPANS),
            f"Med7's F1 of spans of all labels, counting overlaps, is {text(score)} on synthetic charts; bar "
            f"{figures.number(GOOD_SPANS, digits=0)}.{instead}",
        )
    else:
        run.claim("clinical_notes.claim.med7_extracts", "not run", why_not_med7)
    name, floor = measured.floor
    run.claim(
        "clinical_notes.claim.context_gives_status",
        better(gain, gain.p),
        f"{label('rules_default')}: the status is right in {text(measured.statuses['rules_default'])} of the notes; "
        f"bar: always {name}, {figures.number(floor.value)}; {figures.points(gain)} points over it.",
        p=gain.p,
    )


def answer(charts: Charts, measured: Measured, asked: Measured) -> str:
    """The page's answer in a few sentences, in Markdown; all else stands in the tables.

    Args:
        charts: all of them.
        measured: on all test notes.
        asked: on those that the language model read.
    """
    text, rules = figures.score_text, label("rules")
    lines = [
        f"**On {charts.mark}, {len(charts.split('test'))} test patients: of the drugs that a note says are taken, "
        f"{rules.lower()} reach F1 {text(measured.values['rules']['drug'].f1)}; bar of this project: "
        f"{figures.number(GOOD_DRUGS, digits=0)}.**"
    ]
    recall = measured.recalls["rules"]
    if "shared" in recall and "held out" in recall:
        lines.append(
            f"Unseen wording costs: their recall of spans is {text(recall['shared'])} in wording that they were "
            f"written for, {text(recall['held out'])} in wording held out."
        )
    if "llm" in asked.values and "drug" in asked.values["llm"]:
        model, same = asked.values["llm"]["drug"].f1, asked.values["rules"]["drug"].f1
        lines.append(
            f"On {asked.statuses['llm'].n} of the notes a language model reaches F1 {text(model)} of drugs, the rules "
            f"on the same {text(same)}."
        )
    if measured.not_run:
        lines.append(f"{' and '.join(label(name) for name in measured.not_run)} was not run.")
    return " ".join(lines)
