"""What a run of the retriever over clinical notes reports: metrics, paired tests, ablations, claims, figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import ir_measures
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from ir_measures import AP, RR, P, R, nDCG
from matplotlib.figure import Figure
from tqdm import tqdm

from helpers.results import figures
from helpers.results.metrics import DRAWS, Paired, Score, bootstrap, holm, p50, p95, paired_means, proportion
from helpers.results.record import Run
from helpers.results.verdicts import ALPHA, Tested, Verdict, all_of, below, better, exactly
from papers.clinical_notes.gold import Charts
from papers.clinical_notes.query import INTENTS, parse
from papers.clinical_notes.questions import Question
from papers.clinical_notes.retrieval import (
    PAPER,
    PAPER_ENCODER,
    PAPER_RERANKER,
    Candidates,
    Chunk,
    Floats,
    LlmYes,
    Reranker,
    Retriever,
    Settings,
    best_fused,
    min_max,
    weighted,
)

MEASURES = {"P@5": P @ 5, "R@10": R @ 10, "MRR": RR, "AP": AP, "nDCG@10": nDCG @ 10}
"""The paper's four metrics ("Evaluation framework"), and nDCG, which tells a sentence from its copy."""
MAIN = "nDCG@10"
COMPONENTS = ("rerank", "semantic", "lexical", "medication")
COLOURS = {"rerank": "#af219d", "semantic": "#125ee0", "lexical": "#c35410", "medication": "#808080"}
HYBRID = "hybrid, the paper's weights"
HYBRID_COLOUR = "#079c6b"
CLAIM = "clinical_notes.claim."
SAME_ORDER = 0.95
"""A rank correlation from which on two scores count as one; a bound of this project."""


# ------------------------------------------------------------------------------------------------------- one ranking


@dataclass(frozen=True)
class Prepared:
    """A question with all that its rankings are made of, so that other weights cost no other search.

    Attributes:
        question: with its labels.
        grades: passage -> grade of those that answer it.
        found: candidates with raw scores.
        reranks: reranker -> raw score of each candidate.
    """

    question: Question
    grades: Mapping[str, int]
    found: Candidates
    reranks: Mapping[str, Floats]


@dataclass(frozen=True)
class Arm:
    """One way of ranking: weights, and which reranker gives the first of the scores."""

    settings: Settings
    reranker: str | None


def prepare(
    retriever: Retriever,
    questions: Sequence[Question],
    grades: Mapping[str, Mapping[str, int]],
    rerankers: Sequence[Reranker],
    settings: Settings = PAPER,
    label: str = "search",
) -> list[Prepared]:
    """Search once for each question, and let each reranker score all candidates."""
    prepared = []
    for question in tqdm(questions, desc=label, unit="question"):
        found = retriever.candidates(parse(question.text, retriever.lexicon), settings)
        scores = {r.name: r.score(question.text, found.rows) if len(found.rows) else np.zeros(0) for r in rerankers}
        prepared.append(Prepared(question, grades[question.id], found, scores))
    return prepared


def ranking(of: Prepared, arm: Arm, chunks: Sequence[Chunk]) -> list[str]:
    """Passages of one question from best to worst."""
    chosen = best_fused(of.found, arm.settings)
    reranks = of.reranks[arm.reranker][chosen] if arm.reranker else np.zeros(len(chosen))
    total = weighted(of.found, chosen, reranks, arm.settings).sum(axis=1)
    return [chunks[int(of.found.rows[chosen[i]])].id for i in np.lexsort((chosen, -total))]


def measure(grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Every measure of every question by ir-measures; a question without any result has 0 in each.

    Args:
        grades: question -> passage -> grade.
        rankings: question -> passages, best first.

    Returns:
        One row a question, in the order of `rankings`; one column a measure.
    """
    # a score for each place, so that nothing is tied
    run = {q: {passage: 1 / place for place, passage in enumerate(of, start=1)} for q, of in rankings.items()}
    names = {measure: name for name, measure in MEASURES.items()}
    table = pd.DataFrame(0.0, index=list(rankings), columns=list(MEASURES))
    wanted = {q: dict(grades[q]) for q in rankings}
    for metric in ir_measures.iter_calc(list(MEASURES.values()), wanted, {q: of for q, of in run.items() if of}):
        table.loc[metric.query_id, names[metric.measure]] = metric.value
    return table


def evaluate(prepared: Sequence[Prepared], arm: Arm, chunks: Sequence[Chunk]) -> pd.DataFrame:
    """The measures of one arm, one row a question, and the `cluster` of each."""
    return _measured(prepared, {p.question.id: ranking(p, arm, chunks) for p in prepared})


def _measured(prepared: Sequence[Prepared], rankings: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    table = measure({p.question.id: p.grades for p in prepared}, rankings)
    return table.assign(cluster=[p.question.cluster for p in prepared])


def mean(table: pd.DataFrame, name: str = MAIN, draws: int = DRAWS) -> Score:
    """The mean of a measure over the questions of a table that `evaluate` made, with its interval over clusters."""
    return bootstrap(table[name].to_numpy(), clusters=table.cluster.to_numpy(), draws=draws)


def share(flags: Sequence[bool], clusters: Sequence[str], unparsed: int = 0) -> Score:
    """A share with its interval: Wilson's, or where several rows belong together a bootstrap over clusters."""
    if len(set(clusters)) == len(clusters):
        return proportion(sum(flags), len(flags), unparsed=unparsed)
    return replace(bootstrap([float(flag) for flag in flags], clusters=clusters), unparsed=unparsed)


def single_arms(reranker: str) -> dict[str, Arm]:
    """The paper's hybrid, and each of its three scores alone, without the bonus for a medication."""
    alone = replace(PAPER, w_rerank=0, w_semantic=0, w_lexical=0, boost=0, penalty=0)
    return {
        HYBRID: Arm(PAPER, reranker),
        "FAISS alone": Arm(replace(alone, w_semantic=1), None),
        "BM25 alone": Arm(replace(alone, w_lexical=1), None),
        "reranker alone": Arm(replace(alone, w_rerank=1, w_semantic=1e-9, w_lexical=0.6e-9), reranker),
    }


def ablations(reranker: str) -> dict[str, Arm]:
    """The hybrid without each of its parts that the ranking can leave out once the search is done."""
    return {
        "without the reranker": Arm(replace(PAPER, w_rerank=0), None),
        "without FAISS's score": Arm(replace(PAPER, w_semantic=0), reranker),
        "without BM25's score": Arm(replace(PAPER, w_lexical=0), reranker),
        "without boost and penalty": Arm(replace(PAPER, boost=0, penalty=0), reranker),
        "without the penalty": Arm(replace(PAPER, penalty=0), reranker),
    }


SEARCHES: dict[str, Settings] = {
    "without the filter on the patient": replace(PAPER, filter_patient=False),
    "without the filter on dates": replace(PAPER, filter_dates=False),
    "filter on the drug in place of the boost": replace(PAPER, filter_drugs=True),
    "without a drug's other names": replace(PAPER, expand=False),
}
"""Ablations that need another search."""


# ------------------------------------------------------------------------------------------------------------ weights


def tune(prepared: Sequence[Prepared], reranker: str, chunks: Sequence[Chunk], step: float = 0.1) -> tuple[Arm, float]:
    """The weights (a grid whose three sum to 1) and boost with the best mean of the main measure on these questions.

    Returns:
        The arm and that mean. Of equals the one nearest to the paper's weights is taken.
    """
    ticks = np.round(np.arange(0, 1 + step / 2, step), 6)
    weights = [(a, b, round(1 - a - b, 6)) for a, b in product(ticks, ticks) if a + b <= 1 + 1e-9]
    best: tuple[float, float, Arm] | None = None
    for (w_rerank, w_semantic, w_lexical), boost in tqdm(
        list(product(weights, (0.0, 0.1, 0.2, 0.3, 0.5))), desc="tune the weights", unit="setting"
    ):
        settings = replace(PAPER, w_rerank=w_rerank, w_semantic=w_semantic, w_lexical=w_lexical, boost=boost)
        arm = Arm(settings, reranker)
        value = float(np.mean([_ndcg(p.grades, ranking(p, arm, chunks)) for p in prepared]))
        far = abs(w_rerank - 0.6) + abs(w_semantic - 0.25) + abs(w_lexical - 0.15) + abs(boost - 0.2)
        if best is None or (round(value, 9), -far) > best[:2]:
            best = (round(value, 9), -far, arm)
    assert best is not None
    return best[2], best[0]


def _ndcg(grades: Mapping[str, int], passages: Sequence[str], k: int = 10) -> float:
    """nDCG at k as trec_eval defines it; for the many rankings of the search for weights."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([grades.get(passage, 0) for passage in passages[:k]])
    ideal = np.sort(np.array(list(grades.values())))[::-1][:k]
    best = float(ideal @ discount[: len(ideal)])
    return float(gains @ discount[: len(gains)]) / best if best else 0.0


# ------------------------------------------------------------------------------------------------------ numbers, tests


def scores_table(run: Run, tables: Mapping[str, pd.DataFrame], prefix: str, draws: int) -> pd.DataFrame:
    """Every measure of every arm with its interval over clusters of questions, kept in the record."""
    rows = []
    for arm, table in tables.items():
        row: dict[str, object] = {"ranking": arm}
        for name in MEASURES:
            score = mean(table, name, draws)
            run.extra(f"{prefix}.{_id(arm)}.{_id(name)}", f"{name}, {arm}", score)
            row[name] = score
        rows.append(row)
    return pd.DataFrame(rows)


def intents_table(run: Run, table: pd.DataFrame, questions: Sequence[Question], draws: int) -> pd.DataFrame:
    """The measures of one arm by intent, kept in the record."""
    intent = _intents(table, questions)
    rows = []
    for name in INTENTS:
        of = table[intent == name]
        if not len(of):
            continue
        row: dict[str, object] = {"intent": name, "questions": len(of)}
        for measure_name in MEASURES:
            score = mean(of, measure_name, draws)
            run.extra(f"retrieval.intent.{name}.{_id(measure_name)}", f"{measure_name}, {name} questions", score)
            row[measure_name] = score
        rows.append(row)
    return pd.DataFrame(rows)


def variants_table(tables: Mapping[str, pd.DataFrame], questions: Sequence[Question], draws: int) -> pd.DataFrame:
    """The main measure by how the question names the drug."""
    rows = []
    for variant in ("generic", "brand", "abbreviation", "misspelt", "none"):
        ids = [q.id for q in questions if q.variant == variant]
        if ids:
            means = {arm: mean(table.loc[ids], draws=draws) for arm, table in tables.items()}
            rows.append({"the drug is named by": variant, "questions": len(ids), **means})
    return pd.DataFrame(rows)


def compare(
    full: pd.DataFrame, others: Mapping[str, pd.DataFrame], draws: int, measure_name: str = MAIN
) -> dict[str, tuple[Paired, float]]:
    """Full minus other on the same questions, with the p-value and its Holm adjustment over all others."""
    tests = {name: _paired(full, other.loc[full.index], draws, measure_name) for name, other in others.items()}
    return dict(zip(tests, zip(tests.values(), holm([t.p for t in tests.values()]), strict=True), strict=True))


def _paired(first: pd.DataFrame, second: pd.DataFrame, draws: int, name: str = MAIN) -> Paired:
    return paired_means(first[name], second[name], clusters=first.cluster, draws=draws)


def tests_table(tests: Mapping[str, tuple[Paired, float]], what: str) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        [
            {
                what: name,
                "questions better": t.b,
                "worse": t.c,
                f"difference in {MAIN}, points": figures.points(t),
                "p (Holm)": figures.p_text(p),
            }
            for name, (t, p) in tests.items()
        ]
    )


def report_tests(run: Run, tests: Mapping[str, tuple[Paired, float]], prefix: str) -> None:
    """Keep the differences in the record."""
    for name, (t, _) in tests.items():
        run.extra(f"{prefix}.{_id(name)}", f"difference in {MAIN}: {name}", Score(t.difference, t.n, t.low, t.high))


def parser_table(run: Run, prepared: Sequence[Prepared]) -> pd.DataFrame:
    """How often the parser reads intent, patient, drugs and dates as the template meant them."""
    rows = []
    for intent in (*INTENTS, "all"):
        of = [p for p in prepared if intent in (p.question.intent, "all")]
        if not of:
            continue
        right = {
            "intent": [p.found.query.intent == p.question.intent for p in of],
            "patient": [p.found.query.patients == frozenset(filter(None, [p.question.patient])) for p in of],
            "drugs": [p.found.query.drugs == frozenset(p.question.drugs) for p in of],
            "dates": [(p.found.query.since, p.found.query.until) == (p.question.since, p.question.until) for p in of],
        }
        scores = {name: share(values, [p.question.cluster for p in of]) for name, values in right.items()}
        for name, score in scores.items():
            run.extra(f"retrieval.parser.{intent}.{name}", f"{name} read right, {intent} questions", score)
        rows.append({"questions": intent, "n": len(of), **scores})
    return pd.DataFrame(rows)


def coverage(prepared: Sequence[Prepared], chunks: Sequence[Chunk]) -> Score:
    """Share of all answering passages that are among the candidates: no ranking can find more."""
    values = []
    for p in prepared:
        found = {chunks[int(row)].id for row in p.found.rows}
        values.append(len(found & p.grades.keys()) / len(p.grades))
    return bootstrap(values, clusters=[p.question.cluster for p in prepared])


def trespasses(retriever: Retriever, prepared: Sequence[Prepared]) -> int:
    """Candidates of another patient or day than the question was written about, whatever the parser made of it."""
    wrong = 0
    for p in prepared:
        asked = p.question
        for row in p.found.rows:
            chunk = retriever.chunks[int(row)]
            wrong += bool(
                (asked.patient and chunk.patient != asked.patient)
                or (asked.since and chunk.date < asked.since)
                or (asked.until and chunk.date > asked.until)
            )
    return wrong


def agreement(prepared: Sequence[Prepared], reranker: str) -> Score:
    """Mean rank correlation (Spearman) of a reranker's scores with FAISS's, over questions with three candidates."""
    values, clusters = [], []
    for p in prepared:
        both = np.isfinite(p.found.semantic)
        a, b = p.found.semantic[both], p.reranks[reranker][both]
        if both.sum() >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            values.append(float(pd.Series(a).corr(pd.Series(b), method="spearman")))
            clusters.append(p.question.cluster)
    return bootstrap(values, clusters=clusters)


def latencies(retriever: Retriever, questions: Sequence[Question]) -> pd.DataFrame:
    """Seconds of one question at a time by step, parsing and encoding included."""
    rows = []
    retriever.retrieve(questions[0].text)  # the first call sets things up
    for question in questions:
        rows.append(retriever.retrieve(question.text).audit.seconds)
    return pd.DataFrame(rows)


def latency_table(run: Run, seconds: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Median and 95th percentile by step, kept in the record."""
    rows = []
    for step in seconds.columns:
        middle, high = (bootstrap(seconds[step].to_numpy(), of, draws=draws) for of in (p50, p95))
        run.extra(f"retrieval.seconds.{step}.p50", f"median seconds of one question, {step}", middle)
        run.extra(f"retrieval.seconds.{step}.p95", f"95th percentile of seconds, {step}", high)
        rows.append({"step": step, "median, ms": _ms(middle), "95th percentile, ms": _ms(high)})
    return pd.DataFrame(rows)


def _ms(score: Score) -> str:
    bounds = figures.interval(1000 * score.low, 1000 * score.high, "count", digits=1)
    return figures.number(1000 * score.value, "count", digits=1) + bounds


# ------------------------------------------------------------------------------------------------------ by the LLM


@dataclass(frozen=True)
class Pointwise:
    """The hybrid's first passages put into another order by a language model's P(YES)."""

    before: pd.DataFrame
    after: pd.DataFrame
    passages: int
    seconds: float


def rerank_by_llm(
    model: LlmYes, prepared: Sequence[Prepared], arm: Arm, chunks: Sequence[Chunk], depth: int
) -> Pointwise:
    """Let the model reorder the first `depth` passages of each question; measures before and after."""
    place = {chunk.id: row for row, chunk in enumerate(chunks)}
    before = {p.question.id: ranking(p, arm, chunks)[:depth] for p in prepared}
    rows = [np.array([place[c] for c in before[p.question.id]], dtype=np.int64) for p in prepared]
    start = time.perf_counter()
    scores = model.score_many([p.question.text for p in prepared], rows)
    seconds = time.perf_counter() - start
    after = {
        q: [passages[i] for i in np.argsort(-of, kind="stable")]
        for (q, passages), of in zip(before.items(), scores, strict=True)
    }
    return Pointwise(_measured(prepared, before), _measured(prepared, after), sum(map(len, rows)), seconds)


def spread(prepared: Sequence[Prepared], n: int) -> list[Prepared]:
    """About `n` questions, as many of each intent."""
    each = -(-n // len(INTENTS))
    return [p for intent in INTENTS for p in [p for p in prepared if p.question.intent == intent][:each]][:n]


def rerankers_table(
    run: Run,
    prepared: Sequence[Prepared],
    rerankers: Sequence[str],
    missing: Mapping[str, str],
    chunks: Sequence[Chunk],
    draws: int,
) -> pd.DataFrame:
    """Each reranker alone and in the hybrid, tested against the hybrid without one; and those that did not run."""
    without = evaluate(prepared, ablations(rerankers[0])["without the reranker"], chunks)
    inside = {name: evaluate(prepared, Arm(PAPER, name), chunks) for name in rerankers}
    tests = {name: _paired(of, without, draws) for name, of in inside.items()}
    rows = []
    for (name, test), p in zip(tests.items(), holm([t.p for t in tests.values()]), strict=True):
        alone = mean(evaluate(prepared, single_arms(name)["reranker alone"], chunks), draws=draws)
        hybrid = mean(inside[name], draws=draws)
        run.extra(f"retrieval.reranker.{_id(name)}.alone", f"{MAIN}, {name} alone", alone)
        run.extra(f"retrieval.reranker.{_id(name)}.hybrid", f"{MAIN}, hybrid with {name}", hybrid)
        rows.append(
            {
                "reranker": name,
                f"{MAIN} alone": alone,
                f"{MAIN} in the hybrid": hybrid,
                "minus the hybrid without it, points": figures.points(test),
                "p (Holm)": figures.p_text(p),
                "not run, because": None,
            }
        )
    rows += [{"reranker": name, "not run, because": why} for name, why in missing.items()]
    return pd.DataFrame(rows)


def pointwise_table(run: Run, llm: Pointwise, name: str, depth: int, draws: int) -> tuple[pd.DataFrame, Paired]:
    """Measures of the hybrid's first passages before and after the model reordered them, and the paired test."""
    test = _paired(llm.after, llm.before, draws)
    rows = []
    for words, table in (("as the hybrid has them", llm.before), (f"by {name}", llm.after)):
        scores = {m: mean(table, m, draws) for m in ("P@5", "MRR", MAIN)}
        for m, score in scores.items():
            run.extra(f"retrieval.llm.{_id(words)}.{_id(m)}", f"{m} of the first {depth}, {words}", score)
        rows.append({f"first {depth} passages": words, "questions": len(table), **scores})
    return pd.DataFrame(rows), test


def summary(
    charts: Charts,
    scores: Mapping[str, pd.DataFrame],
    single: Mapping[str, tuple[Paired, float]],
    tuned: pd.DataFrame,
    instead: str,
    draws: int,
) -> str:
    """The page's answer, from the run's values; `instead` is what `stand_ins` says."""
    hybrid = mean(scores[HYBRID], draws=draws)
    beaten = [name for name, (t, p) in single.items() if t.difference > 0 and p < ALPHA]
    lost = [name for name, (t, p) in single.items() if t.difference < 0 and p < ALPHA]
    even = [name for name in single if name not in beaten and name not in lost]
    parts = [
        f"it is better than {_listed(beaten)}" if beaten else "",
        f"worse than {_listed(lost)}" if lost else "",
        f"not distinguishable from {_listed(even)}" if even else "",
    ]
    best = max(scores, key=lambda name: float(scores[name][MAIN].mean()))
    own = mean(tuned, draws=draws)
    return (
        f"**On {charts.mark}: with the paper's weights the hybrid retriever reaches {MAIN} "
        f"{figures.score_text(hybrid)} on {hybrid.n} labelled questions; {', '.join(part for part in parts if part)}** "
        f"(paired tests by cluster, Holm). Best of the four is {best}, "
        f"{figures.score_text(mean(scores[best], draws=draws))}. "
        f"Weights chosen on other questions bring the hybrid to {figures.score_text(own)}."
        + (f" {instead[0].upper()}{instead[1:]}." if instead else "")
    )


def _listed(names: Sequence[str]) -> str:
    words = [name.replace("reranker", "the reranker") for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ------------------------------------------------------------------------------------------------------------- claims


def stand_ins(encoder: str, reranker: str) -> str:
    """Which models stand in the place of the paper's, in words; empty if none does.

    Args:
        encoder: name of the one that searches.
        reranker: of the one that reranks; empty if it is the same.
    """
    if (reranker or encoder) == encoder:
        return f"stand-in: one encoder in both places, {encoder.rsplit('/', 1)[-1]}"
    wanted = {PAPER_ENCODER: encoder, PAPER_RERANKER: reranker}
    others = [
        f"{used.rsplit('/', 1)[-1]} for {paper.rsplit('/', 1)[-1]}" for paper, used in wanted.items() if used != paper
    ]
    return f"stand-in: {' and '.join(others)}" if others else ""


def decide_claims(
    run: Run,
    *,
    single: Mapping[str, tuple[Paired, float]],
    ablated: Mapping[str, tuple[Paired, float]],
    boosted: Paired,
    wrong: int,
    searched: int,
    same_order: Score,
    one_encoder: bool,
    instead: str,
) -> None:
    """The paper's statements about its design, each by the test that `data/published/clinical_notes.yml` states.

    Args:
        run: the run.
        single: the hybrid minus each of its scores alone, with p-values adjusted.
        ablated: the hybrid minus the hybrid without a part, likewise.
        boosted: with boost and penalty minus without, on questions that name a drug.
        wrong: candidates outside of what was asked about, of so many `searched`.
        same_order: rank correlation of the reranker's scores with FAISS's.
        one_encoder: whether the paper's reranker was not run: then nothing about it is decided.
        instead: what `stand_ins` says.
    """
    because = f" {instead[0].upper()}{instead[1:]}." if instead else ""

    def of_reranker(verdict: Tested) -> Verdict:
        return "not run" if one_encoder else verdict

    words = "; ".join(
        f"{figures.points(t)} points over {name} ({figures.p_words(p)})" for name, (t, p) in single.items()
    )
    run.claim(
        CLAIM + "hybrid_beats_single",
        of_reranker(all_of(better(t, p) for t, p in single.values())),
        f"{MAIN}: {words}.{because}",
        p=max(p for _, p in single.values()),
    )
    reranked, p = ablated["without the reranker"]
    run.claim(
        CLAIM + "reranking_improves",
        of_reranker(better(reranked, p)),
        f"{MAIN} with the reranker minus without: {figures.points(reranked)} points.{because}",
        p=p,
    )
    run.claim(
        CLAIM + "medication_boost_helps",
        better(boosted, boosted.p),
        f"{MAIN} with the bonus minus without, on {boosted.n} questions that name a drug: "
        f"{figures.points(boosted)} points.{because}",
        p=boosted.p,
    )
    run.claim(
        CLAIM + "filters_respected",
        exactly(wrong == 0),
        f"{wrong} of {searched:,} candidates are of another patient or of another time than was asked about.",
    )
    correlation = f"{same_order.value:.3f} [{same_order.low:.3f}, {same_order.high:.3f}]"
    run.claim(
        CLAIM + "reranker_sees_more",
        of_reranker(all_of([below(same_order, SAME_ORDER), better(reranked, p)])),
        f"Rank correlation of the reranker's scores with FAISS's: {correlation}; bar: {SAME_ORDER}.{because}",
        p=p,
    )


# -------------------------------------------------------------------------------------------------------- the figures


def marked(charts: Charts, caption: str) -> str:
    """A caption that says first what the charts are."""
    return f"{charts.mark}. {caption}"


def settings_table(run: Run) -> pd.DataFrame:
    """The parameters that the paper states."""
    return pd.DataFrame(
        [{"parameter": s.name, "value": s.value, "where": s.where, "note": s.note} for s in run.printed.settings]
    )


def questions_words(questions: Sequence[Question]) -> str:
    """How many questions there are, about how many patients, and how many of them are independent."""
    patients = [q.patient for q in questions if q.patient]
    return (
        f"{len(questions)} questions, of which {len(patients)} name one of {len(set(patients))} patients; what belongs "
        f"together is drawn together, in {len({q.cluster for q in questions})} clusters"
    )


def overview(charts: Charts, chunks: Sequence[Chunk], truncated: int, sees: int) -> pd.DataFrame:
    """What there is to search, in numbers."""
    notes = charts.notes()
    rows = {
        "patients": len(charts),
        "notes": len(notes),
        "characters of a note, median": float(np.median([len(note.text) for note in notes])),
        "passages": len(chunks),
        "characters of a passage, median": float(np.median([chunk.end - chunk.start for chunk in chunks])),
        f"passages longer than the {sees} tokens that the encoder sees": truncated,
        "passages that name a drug": sum(bool(chunk.drugs) for chunk in chunks),
    }
    return pd.DataFrame({"what": list(rows), "count": list(rows.values())})


def by_intent_words(tables: Mapping[str, pd.DataFrame], questions: Sequence[Question]) -> str:
    """What the figure by intent shows, in words."""
    parts = []
    for intent in INTENTS:
        means = {
            arm: float(table.loc[_intents(table, questions) == intent, MAIN].mean()) for arm, table in tables.items()
        }
        best = max(means, key=lambda arm: means[arm])
        parts.append(f"{intent} questions: best is {best} with {figures.number(means[best])}, {_others(means, best)}")
    return f"{MAIN} by intent. {'; '.join(parts)}."


def _others(means: Mapping[str, float], but: str) -> str:
    return ", ".join(f"{arm} {figures.number(value)}" for arm, value in means.items() if arm != but)


def distributions_words(apart: Mapping[str, float]) -> str:
    """What the score distributions show, in words."""
    parts = ", ".join(f"{name} {figures.number(value)}" for name, value in apart.items())
    return f"Normalised scores of candidates. An answering passage scores above one that does not answer with: {parts}."


def contributions_words(parts: pd.DataFrame) -> str:
    """What the components' figure shows, in words."""
    first, last = parts.iloc[0], parts.iloc[-1]
    words = ", ".join(f"{name} {first[name]:.2f} to {last[name]:.2f}" for name in parts.columns)
    return f"Stacked bars of the mean parts of the score, from rank 1 to rank {parts.index[-1]}: {words}."


def per_question_words(table: pd.DataFrame, questions: Sequence[Question]) -> str:
    """What the figure of every question shows, in words."""
    intent = _intents(table, questions)
    parts = []
    for name in INTENTS:
        of = table.loc[intent == name, MAIN]
        if len(of):
            parts.append(f"{name}: {(of == 0).sum()} of {len(of)} at 0, {(of > 0.999).sum()} perfect")
    return f"{MAIN} of every question by intent. {'; '.join(parts)}."


def dashboard_words(tables: Mapping[str, pd.DataFrame], prepared: Sequence[Prepared], seconds: pd.DataFrame) -> str:
    """What the dashboard shows, in words."""
    means = "; ".join(f"{arm} {figures.number(float(table[MAIN].mean()))}" for arm, table in tables.items())
    read = sum(p.found.query.intent == p.question.intent for p in prepared)
    return (
        f"Four panels. {MAIN}: {means}. The parser read the intent of {read} of {len(prepared)} questions. A question "
        f"takes {1000 * float(seconds['total'].median()):.0f} ms at the median."
    )


def weights_table(run: Run, arms: Mapping[str, Arm], tables: Mapping[str, pd.DataFrame], draws: int) -> pd.DataFrame:
    """Weights beside what they reach."""
    rows = []
    for name, arm in arms.items():
        score = mean(tables[name], draws=draws)
        run.extra(f"retrieval.weights.{_id(name)}", f"{MAIN}, {name}", score)
        s = arm.settings
        rows.append(
            {
                "weights": name,
                "reranker": s.w_rerank,
                "semantic": s.w_semantic,
                "lexical": s.w_lexical,
                "boost": s.boost,
                MAIN: score,
            }
        )
    return pd.DataFrame(rows)


def draw_by_intent(tables: Mapping[str, pd.DataFrame], questions: Sequence[Question], draws: int) -> Figure:
    """Every measure by intent for each arm: dots with 95 % intervals (the paper's "performance by query type")."""
    shown = ("P@5", "R@10", "MRR", MAIN)
    fig, panels = plt.subplots(2, 2, figsize=(7.2, 5.6), sharex=True, sharey=True)
    colours = _arm_colours(list(tables))
    for panel, name in zip(panels.flat, shown, strict=True):
        for i, (arm, table) in enumerate(tables.items()):
            intent = _intents(table, questions)
            present = [x for x in INTENTS if (intent == x).any()]
            scores = [mean(table[intent == x], name, draws) for x in present]
            at = np.arange(len(present)) + 0.18 * (i - (len(tables) - 1) / 2)
            panel.vlines(at, [s.low for s in scores], [s.high for s in scores], color=colours[arm])
            panel.plot(at, [s.value for s in scores], "o", color=colours[arm], markersize=5, label=arm)
        panel.set_title(name)
        panel.set_xticks(range(len(present)), [x.replace("effectiveness", "effective-\nness") for x in present])
        panel.set_ylim(0, 1.02)
        panel.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
        panel.grid(axis="y")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2)
    return fig


def draw_distributions(prepared: Sequence[Prepared], reranker: str, chunks: Sequence[Chunk]) -> Figure:
    """Normalised scores of the candidates that answer and of those that do not ("score distributions")."""
    fig, panels = plt.subplots(1, 3, figsize=(7.2, 3.0), sharey=True)
    bins = np.linspace(0, 1, 21)
    for panel, name in zip(panels, ("rerank", "semantic", "lexical"), strict=True):
        for answers, colour in ((False, "#808080"), (True, COLOURS[name])):
            values = np.concatenate([_normalised(p, name, reranker)[_answers(p, chunks) == answers] for p in prepared])
            label = "answers" if answers else "does not answer"
            panel.hist(
                values,
                bins,
                weights=np.full(len(values), 1 / max(1, len(values))),
                histtype="stepfilled" if answers else "step",
                alpha=0.55 if answers else 1,
                color=colour,
                linewidth=1.6,
                label=label,
            )
        panel.set_title(name)
        panel.set_xlabel("normalised score")
        panel.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
        panel.legend(loc="upper center")
    panels[0].set_ylabel("share of passages")
    return fig


def separation(prepared: Sequence[Prepared], reranker: str, chunks: Sequence[Chunk]) -> dict[str, float]:
    """Chance that an answering candidate has a higher score than one that does not, by score, mean over questions."""
    result = {}
    for name in ("rerank", "semantic", "lexical"):
        values = []
        for p in prepared:
            answers, scores = _answers(p, chunks), _normalised(p, name, reranker)
            if answers.any() and not answers.all():
                above = scores[answers][:, None] - scores[~answers][None, :]
                values.append(float(((above > 0) + 0.5 * (above == 0)).mean()))
        result[name] = float(np.mean(values)) if values else float("nan")
    return result


def contributions(prepared: Sequence[Prepared], arm: Arm, depth: int = 10) -> pd.DataFrame:
    """Mean weighted component by rank: what decides each place. Rows are ranks from 1."""
    sums: list[list[Floats]] = [[] for _ in range(depth)]
    for p in prepared:
        chosen = best_fused(p.found, arm.settings)
        reranks = p.reranks[arm.reranker][chosen] if arm.reranker else np.zeros(len(chosen))
        parts = weighted(p.found, chosen, reranks, arm.settings)
        for rank, i in enumerate(np.lexsort((chosen, -parts.sum(axis=1)))[:depth]):
            sums[rank].append(parts[i])
    means = [np.mean(of, axis=0) if of else np.zeros(len(COMPONENTS)) for of in sums]
    return pd.DataFrame(means, columns=list(COMPONENTS), index=pd.RangeIndex(1, depth + 1, name="rank"))


def draw_contributions(parts: pd.DataFrame) -> Figure:
    """The components by rank as stacked bars ("score component contributions")."""
    fig, axes = plt.subplots(figsize=(7.2, 3.4))
    up, down = np.zeros(len(parts)), np.zeros(len(parts))
    for name in COMPONENTS:
        values = parts[name].to_numpy()
        axes.bar(
            parts.index,
            values,
            bottom=np.where(values >= 0, up, down),
            color=COLOURS[name],
            width=0.72,
            label=name,
        )
        up, down = up + values.clip(min=0), down + values.clip(max=0)
    axes.set(xlabel="rank", ylabel="mean part of the score")
    axes.set_xticks(parts.index)
    fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return fig


def draw_per_question(table: pd.DataFrame, questions: Sequence[Question]) -> Figure:
    """The main measure of every single question, sorted, by intent ("per-query performance breakdown")."""
    intent = _intents(table, questions)
    present = [x for x in INTENTS if (intent == x).any()]
    fig, panels = plt.subplots(1, len(present), figsize=(7.2, 2.9), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], present, strict=True):
        values = table.loc[intent == name, MAIN].sort_values(ascending=False).to_numpy()
        panel.bar(range(len(values)), values, width=1.0, color=HYBRID_COLOUR)
        panel.axhline(values.mean(), color=figures.INK, linewidth=1.2, linestyle="--")
        panel.set_title(name)
        panel.set_xlabel("question")
        panel.set_xlim(-0.5, len(values) - 0.5)
        panel.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    panels[0][0].set_ylabel(MAIN)
    return fig


def draw_dashboard(
    tables: Mapping[str, pd.DataFrame],
    questions: Sequence[Question],
    prepared: Sequence[Prepared],
    seconds: pd.DataFrame,
) -> Figure:
    """Four views at once ("dashboard view"): arms, intents, what the parser read, seconds."""
    fig, panels = plt.subplots(2, 2, figsize=(7.2, 6.2))
    colours = _arm_colours(list(tables))
    means = {arm: table[list(MEASURES)].mean() for arm, table in tables.items()}
    for i, (arm, of) in enumerate(means.items()):
        at = np.arange(len(of)) + 0.19 * (i - (len(means) - 1) / 2)
        panels[0, 0].bar(at, of, width=0.19, color=colours[arm], label=arm)
    panels[0, 0].set_xticks(range(len(MEASURES)), list(MEASURES), fontsize=8.5)
    panels[0, 0].set_title("all questions")
    hybrid = tables[HYBRID]
    intent = _intents(hybrid, questions)
    present = [x for x in INTENTS if (intent == x).any()]
    panels[0, 1].bar(present, [hybrid.loc[intent == x, MAIN].mean() for x in present], color=HYBRID_COLOUR)
    panels[0, 1].set_xticks(range(len(present)), [x[:9] for x in present], fontsize=8.5)
    panels[0, 1].set_title(f"{MAIN} of the hybrid")
    for panel in panels[0]:
        panel.set_ylim(0, 1)
        panel.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    read = pd.crosstab(
        pd.Categorical([p.question.intent for p in prepared], INTENTS),
        pd.Categorical([p.found.query.intent for p in prepared], INTENTS),
        dropna=False,
    ).to_numpy()
    share = read / np.maximum(1, read.sum(axis=1, keepdims=True))
    panels[1, 0].imshow(share, cmap="Greens", vmin=0, vmax=1.6, aspect="auto")
    for row, column in product(range(len(INTENTS)), repeat=2):
        panels[1, 0].text(column, row, f"{read[row, column]}", ha="center", va="center", color="#102021", fontsize=9)
    short = [x[:9] for x in INTENTS]
    panels[1, 0].set_xticks(range(len(INTENTS)), short, fontsize=8.5)
    panels[1, 0].set_yticks(range(len(INTENTS)), short, fontsize=8.5)
    panels[1, 0].set(title="intent: asked (rows), read", xlabel="")
    panels[1, 1].hist(1000 * seconds["total"], bins=20, color=HYBRID_COLOUR)
    panels[1, 1].axvline(1000 * seconds["total"].median(), color=figures.INK, linestyle="--", linewidth=1.2)
    panels[1, 1].set(title="one question", xlabel="ms", ylabel="questions")
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def _normalised(p: Prepared, name: str, reranker: str) -> Floats:
    raw = {"rerank": p.reranks[reranker], "semantic": p.found.semantic, "lexical": p.found.lexical}[name]
    return min_max(raw)


def _answers(p: Prepared, chunks: Sequence[Chunk]) -> np.ndarray:
    return np.array([chunks[int(row)].id in p.grades for row in p.found.rows], dtype=bool)


def _intents(table: pd.DataFrame, questions: Sequence[Question]) -> np.ndarray:
    of = {q.id: q.intent for q in questions}
    return np.array([of[id] for id in table.index])


def _arm_colours(arms: Sequence[str]) -> dict[str, str]:
    known = {
        HYBRID: HYBRID_COLOUR,
        "FAISS alone": COLOURS["semantic"],
        "BM25 alone": COLOURS["lexical"],
        "reranker alone": COLOURS["rerank"],
    }
    return {arm: known.get(arm, "#808080") for arm in arms}


def _id(name: str) -> str:
    words = "".join(c if c.isalnum() else " " for c in name.lower().replace("@", " at ")).split()
    return "_".join(words)
