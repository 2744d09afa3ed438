"""Rules of claims in `data/published/drug_interactions.yml` that compare more than arms.

Each takes the rows of a run, and facts that a notebook hands over, and returns a Decision.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau

from evaluation import decisions, evidence, figures
from evaluation.answers import Item
from evaluation.decisions import Correction, Decision, Part
from evaluation.measures import measure_label
from evaluation.metrics import Score, bootstrap, wilson
from evaluation.outcomes import Outcomes
from evaluation.published import Number, Published, Rule
from evaluation.rules import evaluate
from evaluation.vocabulary import TESTED, Verdict
from papers.drug_interactions.answering import Arm
from papers.drug_interactions.qa import (
    BASELINES,
    PASS,
    comparable,
    cut_text,
    is_useful,
    within_scope,
)
from papers.drug_interactions.questions import NO, NOT_KNOWN

FAR = 0.1
"""The gain in F1 that "far better" asks for, as "much better" does where a rule states it.

It is this project's: the larger model's gains in Table II are gains in ratings.
"""
HALF = 0.5
"""What "generally" and "typically" ask for: more than half."""
CLEAR = 0.05
"""The lead in cosine that "clear" asks for."""
BRANDS = "brand names"
"""The kind of the questions that name a brand that the graph lacks."""
INVENTED = "unknown names"
"""The kind of the questions about an invented name, whose right answer is "Not known"."""
PROMPTS = {"example": "with one example in the prompt", "no_example": "without an example"}
"""What the two prompts for Cypher have, within a sentence."""
YES_OR_NO = "yes or no"
"""The kind of the questions that ask for a yes or no."""
SWAPPED = 2 / 3
"""Kendall's tau of two orders of the paper's four arms that differ in one pair of neighbours."""
PAPERS = (*BASELINES, "drugrag")
Floats = NDArray[np.float64]


def _ahead(measure: str, *tasks: str, **strata: str) -> Rule:
    where = {"task": tasks} | {name: (value,) for name, value in strata.items()}
    return Rule(better=("drugrag",), than=BASELINES, measure=measure, where=where)


def worth(outcomes: Outcomes, truth: Score | None) -> str:
    """Return what the judge can be used for: words that follow "because", without a full stop.

    Args:
        outcomes: The rows of the judge.
        truth: Its AUC, right answers against wrong; None if there are not both.
    """
    why_not_run = outcomes.why_not_run("judge")
    if why_not_run:
        return f"the judge was not run: {why_not_run}"
    if truth is None:
        return (
            "it is unknown whether the judge tells right from wrong where all answers are right or "
            "all are wrong"
        )
    judgements = outcomes.where(task="judge")
    marks = {row["correctness"][0] for row in judgements.rows_with("correctness").measures}
    if len(marks) == 1:
        return (
            "the judge does not tell right from wrong. It gives the same mark for correctness "
            f"({min(marks):.0f} of 5) to all {truth.n} answers that are known to be right or wrong"
        )
    can = "tells" if is_useful(truth) else "does not tell"
    missed = figures.score_text(judgements.score("missed"))
    passed = figures.score_text(judgements.score("passed"))
    return (
        f"the judge {can} right from wrong among {truth.n} answers that are known to be right or "
        f"wrong. Its AUC is {figures.score_text(truth, 'ratio')}, where 0.5 is chance. The judge "
        f"gives a mark below {PASS} "
        f"of 5 to {missed} of the right answers, and a mark of {PASS} or 5 to {passed} of the "
        "wrong answers"
    )


def _at_chance(outcomes: Outcomes, truth: Score | None) -> Decision:
    return Decision(
        "not tested",
        f"We do not use the judge's ratings, because {worth(outcomes, truth)}.",
        reason="judge at chance",
    )


def leads_by_rating(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401  # facts of other rules
    """Decide whether a judge that is above chance rates DrugRAG highest (Table II; Results)."""
    if not is_useful(truth):
        return _at_chance(outcomes, truth)
    rule = _ahead("rating", "known", "medquad")
    return evaluate(rule, within_scope(outcomes), "rerun", paper="")


def beats_baselines_on_sets(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether DrugRAG gives the right names more often from both graphs (Abstract)."""
    decision = _leads_by_both_graphs(outcomes)
    return replace(decision, why=decision.why + _leads_by_kind(outcomes))


def _leads_by_kind(outcomes: Outcomes) -> str:
    """Say how the lead over no retrieval depends on questions whose answer is no name."""
    known = outcomes.where(task="known", arm=["alone", "ingested"])
    kinds = _kinds(known)
    if not {INVENTED, YES_OR_NO} <= set(kinds) or "ingested" not in known.arms:
        return ""
    selections = {
        "on all questions": known,
        'without the questions about an invented name, whose right answer is "Not known"': (
            known.select(kinds != INVENTED)
        ),
        "on the questions that ask for names": known.select(_asks_for_names(known)),
    }
    subject = f"The F1 of {known.label('ingested')} minus that of no retrieval"
    leads = []
    for words, rows in selections.items():
        (comparison,) = rows.compare([("ingested", "alone")], "f1")
        test = comparison.test
        leads.append(f" {subject} is {figures.points(test)} points {words} (n = {test.n}).")
        subject = "This difference"
    return "".join(leads)


def _kinds(rows: Outcomes) -> pd.Series:
    """Return the kind of the question of each row."""
    return rows.frame.strata.map(lambda strata: strata.get("kind"))


def _asks_for_names(rows: Outcomes) -> pd.Series:
    """Return whether the right answer to the question of each row is names."""
    return ~_kinds(rows).isin([INVENTED, YES_OR_NO])


NO_RETRIEVAL: dict[str, Arm] = {
    "if the method without retrieval gets the question alone": "alone",
    'if the method without retrieval is also told to write "Not known"': "none",
}
"""The two readings of the arm without retrieval; the first is the paper's."""


def nearest_to_references(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether DrugRAG's answers lead clearly in cosine to the references (Results).

    This project's prompt tells DrugRAG to write "Not known" where its facts do not tell, and the
    arm without retrieval nothing. The claim is therefore read with both instructions.
    """
    medquad = within_scope(outcomes.where(task="medquad"))
    readings: dict[str, Decision] = {}
    for words, arm in NO_RETRIEVAL.items():
        decision = _clear_lead_in_cosine(medquad, (arm, *BASELINES[1:]))
        if decision.verdict not in TESTED:
            return decision
        if arm not in BASELINES:
            # text RAG and agentic RAG stand in the first reading
            own = _clear_lead_in_cosine(medquad, (arm,))
            first = next(iter(readings.values()))
            decision = _with_own_corrections(own, decision, first.corrections)
        readings[words] = decision
    decision = _join_readings(readings)
    why = f"{decision.why}{_refuted_by_both(readings)}{_abstention_text(medquad)}"
    return replace(decision, why=why)


def _with_own_corrections(own: Decision, full: Decision, known: Sequence[Correction]) -> Decision:
    """Give the decision of a reading with the evidence of one of its comparisons.

    Args:
        own: The decision by this comparison alone, for its evidence.
        full: The decision by all comparisons of the reading.
        known: Corrections that the evidence of another reading states.
    """
    unknown = [item for item in full.corrections if item not in known]
    corrections = tuple(replace(item, family="second reading") for item in unknown)
    why = own.why + decisions.corrected_text(corrections)
    return replace(own, verdict=full.verdict, p=full.p, why=why, corrections=corrections)


def _refuted_by_both(readings: Mapping[str, Decision]) -> str:
    """Say that two readings refute a clear lead, since a p above 5 % looks like an open one."""
    if any(decision.verdict != "differs" for decision in readings.values()):
        return ""
    return (
        " Both readings refute the claim, because in each a corrected interval lies below the "
        f"{100 * CLEAR:.0f} points that the claim asks for. Such a refutation needs no significant "
        "difference from zero."
    )


def _clear_lead_in_cosine(rows: Outcomes, baselines: Sequence[str]) -> Decision:
    rule = Rule(better=("drugrag",), than=tuple(baselines), measure="cosine", margin=CLEAR)
    return evaluate(rule, rows, "rerun", paper="")


def _abstention_text(medquad: Outcomes) -> str:
    """Say how far "Not known" and the token limit explain DrugRAG's cosine."""
    replies = medquad.rows_with("answered", "drugrag")
    answered = replies.measures.map(lambda measures: measures["answered"][0] > 0)
    silent = set(replies.unit[~answered])
    if not silent:
        return ""
    rows = medquad.select(medquad.frame.unit.isin(silent))
    drugrag, alone = (rows.score("cosine", arm).value for arm in ("drugrag", "alone"))
    those = "this question" if len(silent) == 1 else f"these {len(silent)} questions"
    text = (
        f' DrugRAG replied with "Not known" or similar words to {len(silent)} of {len(replies)} '
        f"questions. On {those}, DrugRAG's mean cosine is {figures.number(drugrag)}, and that of "
        f"no retrieval is {figures.number(alone)}."
    )
    for comparison in comparable(medquad, [("drugrag", "alone")], "cosine_answered"):
        test = comparison.test
        text += (
            " On the questions that both methods answered, the cosine of DrugRAG minus that of no "
            f"retrieval is {figures.points(test)} points (n = {test.n})."
        )
    return f"{text} {cut_text(medquad)}"


def best_on_chains(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide the same of the questions that chain facts (Results, qualitative analysis)."""
    return _leads_by_both_graphs(outcomes, kind="two hops")


def _leads_by_both_graphs(outcomes: Outcomes, **strata: str) -> Decision:
    """Decide whether DrugRAG leads by F1 with the gold graph and with chapter 05's.

    The second half is not asked where the right query itself finds so little in chapter 05's graph
    that no test of a lead could be significant.
    """
    by_gold = _ahead("f1", "known", **strata)
    by_read = by_gold.model_copy(update={"better": ("ingested",)})
    both = Rule(all_of=(by_gold, by_read))
    found = outcomes.where(task="plain", arm="query_ingested", **strata)
    if found.frame.empty:
        return evaluate(both, outcomes, "rerun", paper="")
    n_clusters = found.select(_is_found(found)).frame.cluster.nunique()
    limit = _limit_text(found)
    if decisions.enough_clusters(n_clusters, len(BASELINES)):
        decision = evaluate(both, outcomes, "rerun", paper="")
        decision = replace(decision, why=f"{decision.why} {limit}")
        return _without_needed(decision, found)
    decision = evaluate(by_gold, outcomes, "rerun", paper="")
    why = (
        f"{decision.why} {limit} The right query finds so few right answers in chapter 05's graph "
        "that no lead with this graph could be significant. The rule therefore asks only for a "
        "lead with the gold graph."
    )
    if decision.verdict != "agrees":
        return replace(decision, why=why)
    return replace(decision, verdict="inconclusive", why=why)


def _without_needed(decision: Decision, found: Outcomes) -> Decision:
    """Give no number of rows that would decide a claim where chapter 05's graph limits it more.

    Args:
        decision: The decision.
        found: Rows of the right query on that graph; there may be none.
    """
    if not decision.needed or found.frame.empty or not _lacks_most_names(found):
        return decision
    why = (
        f"{decision.why} The gaps in chapter 05's graph limit the test with this graph more than "
        "the number of questions does. We therefore do not estimate how many questions would "
        "decide the claim."
    )
    return replace(decision, why=why, needed=None)


def _is_found(found: Outcomes) -> pd.Series:
    """Return whether the right query is at least partly right in each of its rows."""
    return found.frame.measures.map(lambda measures: measures["f1"][0] > 0)


def _lacks_most_names(found: Outcomes) -> bool:
    """Whether the right query finds no right name for most questions that ask for names."""
    with_names = found.select(_asks_for_names(found))
    return bool(_is_found(with_names).mean() < HALF)


def _right_answer(items: Sequence[Item]) -> frozenset[str]:
    """Return the right answer of a row, whose items are names."""
    return frozenset(item.id for item in items if item.gold)


def _limit_text(found: Outcomes) -> str:
    """Say what the right query finds in chapter 05's graph, and where it needs no fact.

    A question about an invented name, and one whose answer is no, is answered rightly by a graph
    without any fact.
    """
    ceiling = found.score("f1", "query_ingested")
    is_found = _is_found(found)
    text = (
        f"On chapter 05's graph, the right query, which we wrote by hand, has an F1 of "
        f"{figures.score_text(ceiling)}. Its F1 is above 0 on {is_found.sum()} of {ceiling.n} "
        "questions."
    )
    with_names = found.select(_asks_for_names(found))
    if with_names.frame.empty or len(with_names.frame) == len(found.frame):
        return text
    right_answers = found.frame["items"].map(_right_answer)[is_found]
    n_invented = sum(answer == NOT_KNOWN for answer in right_answers)
    n_no = sum(answer == NO for answer in right_answers)
    of_names = with_names.score("f1", "query_ingested")
    return (
        f"{text} For {n_invented + n_no} of these {is_found.sum()} questions, the query needs no "
        f"fact of the graph, because {n_invented} are about an invented name and {n_no} have the "
        f"answer no. On the {of_names.n} questions that ask for names, the query's F1 is "
        f"{figures.score_text(of_names)}. This F1 is above 0 on {_is_found(with_names).sum()} of "
        "these questions."
    )


def example_helps(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether the example in the prompt makes more first statements right (System)."""
    rule = Rule(better=("example",), than=("no_example",), measure="first_statement", margin=FAR)
    decision = _by_both_readings(rule, outcomes.where(task="cypher"))
    if decision.verdict not in TESTED:
        return decision
    text = _invented_text(outcomes, "example", "no_example")
    return replace(decision, why=decision.why + text)


def _invented_text(outcomes: Outcomes, *arms: str) -> str:
    """Say which questions make a first statement right, or wrong, whatever the model writes."""
    rows = outcomes.where(task="cypher", arm=list(arms))
    kinds = _kinds(rows)
    others = rows.select(~kinds.isin([INVENTED, BRANDS]))
    if INVENTED not in set(kinds) or others.frame.empty:
        return ""
    counts = rows.frame.groupby(kinds).unit.nunique()
    shares = []
    for arm in arms:
        share = figures.score_text(others.score("first_statement", arm))
        shares.append(f"{share} {PROMPTS[arm]}")
    are = "is" if counts[INVENTED] == 1 else "are"
    text = (
        f" Of {rows.frame.unit.nunique()} questions, {counts[INVENTED]} {are} about an invented "
        "name. For such a question, a valid statement that uses this name is right, because it "
        "finds nothing."
    )
    if BRANDS in counts:
        name = "question names" if counts[BRANDS] == 1 else "questions name"
        text += (
            f" Another {counts[BRANDS]} {name} a brand that the graph lacks. For such a question, "
            "a first statement that copies the name cannot be right."
        )
    return (
        f"{text} On the other {others.frame.unit.nunique()} questions, the share of right first "
        f"statements is {figures.listed(shares)}."
    )


@dataclass(frozen=True)
class ShareText:
    """How the share of some first statements is worded.

    Attributes:
        label: Of the share, in an estimate.
        sentence: What holds of the `share` of `n` statements, as a clause.
    """

    label: str
    sentence: str


RESCUED = ShareText(
    evidence.sentence_case(measure_label("rescued")),
    "a later step resolved {share} of the first Cypher statements that wrongly found nothing "
    "(n = {n})",
)
FIRST_RIGHT = ShareText(
    "Questions, share whose first statement is right",
    "the first Cypher statement is right for {share} of the questions (n = {n})",
)
FOUND_NOTHING = ShareText(
    "Share of wrong first statements that found nothing",
    "{share} of the wrong first Cypher statements found nothing (n = {n})",
)


def fallback_resolves(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether a later step resolves most statements that found nothing (Methods, 2)."""
    decision = _share_by_both_readings("rescued", outcomes, RESCUED)
    if decision.verdict not in TESTED:
        return decision
    return replace(decision, why=f"{decision.why} {_rescuers_text(outcomes)}")


def _rescuers_text(outcomes: Outcomes) -> str:
    """Say which step resolved the first statements that found nothing."""
    frame = outcomes.where(task="cypher").rows_with("rescued", "example")
    by_model = sum(measures["repaired"][0] > 0 for measures in frame.measures)
    by_program = frame.measures.map(lambda measures: measures["simplified"][0] > 0)
    is_branded = frame.strata.map(lambda strata: strata.get("kind") == BRANDS)
    n_branded = int((by_program & is_branded).sum())
    text = (
        f"The model's own repair resolved {by_model} of these {len(frame)} statements. The "
        f"program's less strict statement resolved {int(by_program.sum())}."
    )
    n_by_program = int(by_program.sum())
    if n_by_program == 1:
        brand = "a brand" if n_branded else "no brand"
        return f"{text} The question of this statement names {brand} that the graph lacks."
    if n_by_program:
        text += (
            f" In {n_branded} of these {n_by_program} cases, the question names a brand that the "
            "graph lacks."
        )
    return text


def first_query_right_as_printed(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide whether the printed count of right first queries is most of them (Results).

    The questions are the units of the interval.
    """
    number = printed.number("drug_interactions.text.cypher.first_try")
    n = int(printed.number("drug_interactions.text.questions").value)
    share = Score(number.value / n, n, *wilson(number.value, n))
    of_all = f"{number.printed} of {n} queries"
    why = (
        f"The paper reports that about {of_all} were right on the first try, a share of "
        f"{figures.score_text(share)} (n = {n})."
    )
    return Decision(decisions.above(share, HALF), why)


def first_query_right(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether most first statements of this run are right (Results, Cypher generation)."""
    decision = _share_by_both_readings("first_statement", outcomes, FIRST_RIGHT)
    if decision.verdict not in TESTED:
        return decision
    return replace(decision, why=decision.why + _invented_text(outcomes, "example"))


def failures_find_nothing(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether most wrong first statements found nothing (Results, Cypher generation)."""
    return _share_by_both_readings("found_nothing", outcomes, FOUND_NOTHING)


BY_GRAPH = {"drugrag": "the gold graph", "ingested": "chapter 05's graph"}
"""The graph that each of DrugRAG's arms queries, as a page says it."""


def precise_retrieval(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether queries of both graphs retrieve with a higher precision than text (Results).

    The claim is about queries. Where no statement returned names, the program searched the graph
    for the names in the question, and what this search found does not count. DrugRAG's fallback has
    a list of brands, which the arms that read text lack.
    """
    known = outcomes.where(task="known")
    if not all(arm in known.arms_with("by_query") for arm in BY_GRAPH):
        why = "These answers do not record which of their facts a query found."
        return Decision("not tested", why, reason="no answers")
    counts = " ".join(_queries_text(known, arm) for arm in BY_GRAPH)
    for words, rows in _readings(known).items():
        n_clusters = min(_with_query(rows, arm).frame.cluster.nunique() for arm in BY_GRAPH)
        if not decisions.enough_clusters(n_clusters, len(BASELINES[1:])):
            why = (
                f"{counts} {evidence.sentence_case(READING_WORDS[words])}, a query returned names "
                "for so few questions that DrugRAG could not have a significant lead with both "
                "graphs."
            )
            return Decision("not tested", why, reason="too few")
    parts = []
    for arm in BY_GRAPH:
        parts.append(Rule(better=(arm,), than=BASELINES[1:], measure="retrieval_precision"))
    decision = _by_both_readings(Rule(all_of=tuple(parts)), known)
    decision = _without_needed(decision, outcomes.where(task="plain", arm="query_ingested"))
    return replace(decision, why=f"{counts} {decision.why}")


def _with_query(known: Outcomes, arm: str) -> Outcomes:
    """Return the rows of an arm whose facts a query found."""
    rows = known.where(arm=arm)
    is_by_query = rows.frame.measures.map(lambda measures: _holds(measures, "by_query"))
    return rows.select(is_by_query)


def _holds(measures: Mapping[str, tuple[float, float]], name: str) -> bool:
    """Whether a row has a measure that is not 0."""
    return measures.get(name, (0.0, 1.0))[0] > 0


def _queries_text(known: Outcomes, arm: str) -> str:
    """Say how many retrievals were queries, how many of these the model's own, and how precise."""
    n_questions = len(known.rows_with("by_query", arm))
    found = _with_query(known, arm)
    n_found = len(found.frame)
    n_own = sum(_holds(measures, "by_models_query") for measures in found.frame.measures)
    text = (
        f"With {BY_GRAPH[arm]}, a query returned names for {n_found} of the {n_questions} "
        "questions that ask for names."
    )
    if not n_found:
        return text
    precision = replace(found.score("evidence_precision", arm), unparsed=0)
    n_relaxed = n_found - n_own
    by_whom = f"The model itself wrote {'all of these queries' if n_found > 1 else 'this query'}."
    these = "this question" if n_found == 1 else f"these {n_found} questions"
    if n_relaxed and not n_own:
        by_whom = f"A program had made the model's query less strict for {these}."
    elif n_relaxed:
        by_whom = (
            f"For {n_own} of these {n_found} questions, the model itself wrote the query. For the "
            f"other {n_relaxed}, a program had made the model's query less strict."
        )
    return f"{text} {by_whom} The precision on {these} is {figures.score_text(precision)}."


ON_CHAINS = Rule(
    better=("drugrag",),
    than=BASELINES,
    measure="f1",
    where={"task": ("known",)},
    interaction={"kind": ("two hops", "one hop")},
)
"""DrugRAG's lead on questions that chain facts, minus that on questions of one fact."""


def leads_most_on_chains(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether DrugRAG leads more on questions that chain facts (Results, qualitative)."""
    decision = evaluate(ON_CHAINS, outcomes, "rerun", paper="")
    if decision.verdict not in TESTED:
        return decision
    return replace(decision, why=f"{decision.why}{_chains_text(outcomes)}")


def _chains_text(outcomes: Outcomes) -> str:
    """Say what the statements and the search for names give for either kind of question.

    A search for the names in a question finds the facts of one hop, and rarely those of two. So it
    makes a lead on questions of one fact, whatever the statements are worth.
    """
    ((name, kinds),) = ON_CHAINS.interaction.items()
    sentences = []
    for kind in reversed(kinds):
        rows = outcomes.where(**{name: kind})
        cypher = rows.where(task="cypher")
        reached = rows.where(task="known")
        plain = rows.where(task="plain")
        if not (
            "example" in cypher.arms_with("right")
            and "drugrag" in reached.arms_with("within_reach")
            and "keyword" in plain.arms_with("f1")
        ):
            return ""
        statements = cypher.rows_with("right", "example").measures
        n_right = sum(_holds(measures, "right") for measures in statements)
        reach = replace(reached.score("within_reach", "drugrag"), unparsed=0)
        search = plain.score("f1", "keyword")
        sentences.append(
            f" On questions with {kind}, the last Cypher statement is right for {n_right} "
            f"of {len(statements)} questions. On average over the questions, the evidence in "
            f"DrugRAG's prompts contains {figures.score_text(reach)} of a question's right names. "
            "Without any model, a search for all "
            f"facts about the names in a question has an F1 of {figures.score_text(search)} on the "
            f"{search.n} questions with {kind} that this run drew."
        )
    return "".join(sentences)


WITHOUT_BRANDS = "brand names left out"
ALL_QUESTIONS = "all questions"
READING_SENTENCES = {
    WITHOUT_BRANDS: (
        "The first reading leaves out the questions that name a brand that the gold graph lacks."
    ),
    ALL_QUESTIONS: "The second reading uses all questions.",
}
"""What introduces the evidence of each reading."""
READING_WORDS = {
    WITHOUT_BRANDS: "without the questions that name a brand that the gold graph lacks",
    ALL_QUESTIONS: "with all questions",
}
"""Each reading within a sentence."""


def _readings(rows: Outcomes) -> dict[str, Outcomes]:
    """Return the rows without and with the questions that name a brand that the graph lacks.

    The paper names brands among its failures, and
    does not say how many of its questions had one.
    """
    other_kinds = [kind for kind in rows.strata("kind") if kind != BRANDS]
    return {WITHOUT_BRANDS: rows.where(kind=other_kinds), ALL_QUESTIONS: rows}


def _by_both_readings(rule: Rule, rows: Outcomes) -> Decision:
    """Decide by the questions with and without a brand."""
    readings = {}
    for words, own_rows in _readings(rows).items():
        decision = evaluate(rule, own_rows, "rerun", paper="")
        if decision.verdict not in TESTED:
            return decision
        estimates = []
        for estimate in decision.estimates:
            label = f"{estimate.label}, {words}"
            estimates.append(estimate.model_copy(update={"label": label}))
        why = f"{READING_SENTENCES[words]} {decision.why}"
        readings[words] = replace(decision, why=why, estimates=tuple(estimates))
    return _join_readings(readings)


def _share_by_both_readings(measure: str, outcomes: Outcomes, text: ShareText) -> Decision:
    """Decide whether a share of the first statements lies above one half."""
    rule = Rule(above="example", measure=measure, bound=HALF)
    readings = {}
    for words, rows in _readings(outcomes.where(task="cypher")).items():
        decision = evaluate(rule, rows, "rerun", paper="")
        if decision.verdict not in TESTED:
            return decision
        (estimate,) = decision.estimates
        share = figures.score_text(rows.score(measure, "example"))
        sentence = text.sentence.format(n=estimate.n, share=share)
        label = f"{text.label}, {words}"
        readings[words] = replace(
            decision,
            why=f"{evidence.sentence_case(READING_WORDS[words])}, {sentence}.",
            estimates=(estimate.model_copy(update={"label": label}),),
        )
    joined = _join_readings(readings)
    return replace(joined, why=f"The prompt for these statements has one example. {joined.why}")


_OF_CLAIM: Mapping[Verdict, str] = {
    "agrees": "supported",
    "differs": "refuted",
    "inconclusive": "left open",
}
"""What a reading does to the claim."""


def _join_readings(readings: Mapping[str, Decision]) -> Decision:
    """Join two readings of a claim; where they differ, none decides alone."""
    joined = decisions.join(list(readings.values()))
    verdicts = {decision.verdict for decision in readings.values()}
    if len(verdicts) == 1:
        return joined
    texts = []
    for words, decision in readings.items():
        reading = evidence.sentence_case(READING_WORDS.get(words, words))
        texts.append(f"{reading}, the claim is {_OF_CLAIM[decision.verdict]}.")
    end = "Neither reading supports it."
    if "agrees" in verdicts:
        end = "One reading alone does not decide the claim."
    why = f"{joined.why} The two readings differ. {' '.join(texts)} {end}"
    return replace(joined, verdict="inconclusive", why=why, needed=None)


def agentic_adds_little(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether agentic RAG gains on text RAG, and DrugRAG on agentic RAG more (Results)."""
    known = outcomes.where(task="known")
    pairs = [("agentic", "text"), ("drugrag", "agentic")]
    by_agentic, by_graph = (comparison.test for comparison in known.compare(pairs, "f1"))
    drugrag, agentic, text = (known.values("f1", arm) for arm in ("drugrag", "agentic", "text"))
    further_gains = drugrag - 2 * agentic + text
    further = bootstrap(further_gains, clusters=_clusters(known), draws=outcomes.draws)
    # the second test is no part of the rule: the first p needs no adjustment
    p = by_agentic.p
    why = (
        f"The F1 of agentic RAG minus that of text RAG is {figures.points(by_agentic)} points "
        f"({figures.p_words(p)}, n = {by_agentic.n}). The F1 of DrugRAG minus that of agentic RAG "
        f"is {figures.points(by_graph)} points (n = {by_graph.n})."
    )
    gains = [
        Part(
            by_agentic,
            partial(decisions.better, p=p),
            label="F1, agentic RAG minus text RAG",
            bound=0,
            words="the F1 of agentic RAG minus that of text RAG",
        ),
        Part(
            further,
            partial(decisions.above, bound=0),
            label="F1, DrugRAG minus agentic RAG, less that gain",
            bound=0,
            words="DrugRAG's gain in F1 over agentic RAG minus agentic RAG's gain over text RAG",
        ),
    ]
    return decisions.decide_by_intervals(gains, (0.0,), why=why, p=p)


TABLE_TWO_SIZES = ("70b", "8b")
"""The models of Table II, as ids spell their size, the larger first."""


def first_in_table_two(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide whether DrugRAG has the highest value of both columns of Table II as printed."""
    are_first = []
    texts = []
    for size in TABLE_TWO_SIZES:
        numbers = [_table_two(printed, arm, size) for arm in TABLE_TWO_ARMS]
        best, second = sorted(numbers, key=lambda number: -number.value)[:2]
        are_first.append(best.row == "DrugRAG" and best.value > second.value)
        texts.append(
            f"With {best.model}, {best.row} is first with {best.printed}, and {second.row} is "
            f"second with {second.printed}."
        )
    return Decision(decisions.exactly(all(are_first)), " ".join(texts))


def agentic_second_in_table_two(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide whether the row GraphRAG of Table II as printed is slightly above RAG (Text)."""
    are_slight = []
    texts = []
    for size in TABLE_TWO_SIZES:
        text, agentic, best = (
            _table_two(printed, arm, size) for arm in ("rag_text", "graphrag", "drugrag")
        )
        gain, further = agentic.value - text.value, best.value - agentic.value
        are_slight.append(0 < gain < further)
        texts.append(
            f"With {agentic.model}, {agentic.row} has {agentic.printed}, which is "
            f"{100 * gain:.1f} points above {text.row} and {100 * further:.1f} points below "
            f"{best.row}."
        )
    return Decision(decisions.exactly(all(are_slight)), " ".join(texts))


def larger_first_in_table_two(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide whether the larger model has the higher value in each row of Table II as printed."""
    are_higher = []
    texts = []
    for arm in TABLE_TWO_ARMS:
        large, small = (_table_two(printed, arm, size) for size in TABLE_TWO_SIZES)
        gain = large.value - small.value
        are_higher.append(gain > 0)
        texts.append(
            f"In the row {large.row}, {large.model} has {large.printed} and {small.model} has "
            f"{small.printed}, a difference of {figures.signed(100 * gain, 1)} points."
        )
    return Decision(decisions.exactly(all(are_higher)), " ".join(texts))


TABLE_TWO_ARMS = ("no_retrieval", "rag_text", "graphrag", "drugrag")
"""The rows of Table II, as ids spell them."""


def _table_two(printed: Published, arm: str, size: str) -> Number:
    return printed.number(f"drug_interactions.table2.{arm}.llama_{size}")


STORES = {"neo4j": "Neo4j", "graph": "an embedded graph in place of Neo4j"}
"""The arms that answer a query, in the order in which they decide its speed, as a page says it."""
MILLISECONDS = 0.01
"""What "on the order of milliseconds" ends at, in seconds."""


def graph_answers_in_milliseconds(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether the median query takes less than ten milliseconds (System, ingestion)."""
    queries = outcomes.where(task="queries")
    rules = [Rule(below=store, measure="median(latency)", bound=MILLISECONDS) for store in STORES]
    decision = evaluate(Rule(first_of=tuple(rules)), queries, "rerun", paper="")
    if decision.verdict not in TESTED:
        return decision
    store = next(arm for arm in STORES if arm in queries.arms)
    latency = queries.score("median(latency)", store)
    why = (
        f"The queries ran on {STORES[store]}. The median query took "
        f"{figures.score_text(latency, 'seconds')} (n = {latency.n})."
    )
    found = queries.rows_with("answered", store)
    n_empty = sum(measures["answered"][0] == 0 for measures in found.measures)
    if len(found):
        share = figures.number(n_empty / len(found))
        why += f" {n_empty} of the {len(found)} timed queries ({share}) returned nothing."
    # no model took part, although one answers elsewhere in the chapter
    answered_by = f"our own queries to {STORES[store]}, without a language model"
    return replace(decision, why=why, models=(answered_by,))


def latency_like_agentic(_: Outcomes, **__: Any) -> Decision:  # noqa: ANN401
    """Say why no answer tells how long a question takes (Discussion, speed)."""
    why = (
        "In this run, each method gets many questions at once, so no question was timed from its "
        "start to its end. A test would ask one question at a time with all three methods, and "
        "replay no stored reply. Chapter 18 times single questions, but none for which an agent "
        "searches or a model writes Cypher."
    )
    return Decision("not tested", why, reason="no answers")


def one_query_for_two_hops(_: Outcomes, **__: Any) -> Decision:  # noqa: ANN401
    """Say why a test of one query for two hops could not fail (Methods, stage 1)."""
    return _by_construction(
        "Cypher can express chains, so one query retrieves a chain from any graph that holds it. "
        "We wrote the query by hand, and plain Python computes the right answers from the same "
        "facts. A wrong answer could therefore only show a fault of the database or of our query. "
        "Other claims test a model's answers to questions that chain facts."
    )


def smaller_prompt(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Say why a test of the lengths of prompts could not fail (Discussion, speed)."""
    why = (
        "In the paper, a prompt contains at most ten results or five chunks of about 1,000 "
        "tokens each (Setup; Methods, stage 3). These settings decide the claim, whatever the "
        "questions are. In the reference run, this project's passages are shorter than the paper's "
        "chunks."
    )
    rows = outcomes.where(task=["known", "medquad"])
    if {"drugrag", "text"} <= rows.arms_with("prompt_tokens"):
        facts, passages = (rows.score("prompt_tokens", arm) for arm in ("drugrag", "text"))
        why += (
            f" In this run, a prompt with facts has {facts.value:.0f} tokens on average, and a "
            f"prompt with passages has {passages.value:.0f} (n = {facts.n:,})."
        )
    return _by_construction(why)


def _by_construction(why: str) -> Decision:
    return Decision("cannot be tested", why, reason="by construction")


def larger_answers_better(
    outcomes: Outcomes,
    *,
    models: Sequence[str],
    alone: str,
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the larger of two models answers better from the same facts.

    See the abstract and System.

    Args:
        outcomes: The rows of all models.
        models: The models that answered, the larger first.
        alone: Why one model answers, if one does.
    """
    if len(models) < 2:
        return Decision("not tested", f"Only one model answers. {alone}", reason="one model")
    answered = [name for name in models if (outcomes.frame.model == name).any()]
    if len(answered) < 2:
        names = figures.listed(answered)
        return Decision(
            "not tested", f"Of the two models, only {names} answered.", reason="one model"
        )
    large, small = models
    if not _is_larger(large, small):
        why = f"By the billions of parameters in their names, {large} is not larger than {small}."
        return Decision("not tested", why, reason="another model")
    frame = outcomes.where(task="known", arm="drugrag", model=list(models)).frame
    by_model = Outcomes(frame.assign(arm=frame.model), draws=outcomes.draws)
    (comparison,) = by_model.compare([(large, small)], "f1")
    test = comparison.test
    why = evidence.comparison_sentence(comparison, (large, small), "F1 of DrugRAG's answers")
    gain = Part(
        test,
        partial(decisions.better, p=test.p, margin=FAR),
        label=f"F1, {large} minus {small}",
        bound=FAR,
    )
    return decisions.decide_by_intervals([gain], (FAR,), why=why, p=test.p)


def _is_larger(large: str, small: str) -> bool:
    """Whether a model is larger than another, by their names."""
    large_size, small_size = parameters(large), parameters(small)
    if large_size is None or small_size is None:
        return False
    return large_size > small_size


def parameters(model: str) -> float | None:
    """Read the billions of parameters off the name of a model; None if it has none.

    `Qwen2.5-1.5B` has 1.5.
    """
    match = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", model, re.IGNORECASE)
    return float(match[1]) if match else None


def varies_least(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether DrugRAG's ratings have a smaller standard deviation than each baseline's.

    See Results, consistency.
    """
    if not is_useful(truth):
        return _at_chance(outcomes, truth)
    rows = rated_rows(within_scope(outcomes).where(task=["known", "medquad"]))
    ratings = rows.values("rating", "drugrag")
    parts = []
    texts = []
    for arm in BASELINES:
        baseline = rows.values("rating", arm)
        difference = _spread_difference(ratings, baseline, _clusters(rows), outcomes.draws)
        points = figures.points_text(difference.value, difference.low, difference.high)
        texts.append(
            f"The standard deviation of DrugRAG's rating minus that of {rows.label(arm)} is "
            f"{points} points (n = {len(ratings)})."
        )
        label = f"standard deviation of the rating, DrugRAG minus {rows.label(arm)}"
        words = f"the standard deviation of DrugRAG's rating minus that of {rows.label(arm)}"
        criterion = partial(decisions.below, bound=0)
        part = Part(difference, criterion, label=label, bound=0, words=words)
        parts.append(part)
    return decisions.decide_by_intervals(parts, (0.0,), why=" ".join(texts))


def judge_ranks(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether the judge orders the paper's four arms as the F1 of the answer sets does.

    See Setup, metrics.
    """
    if not is_useful(truth):
        return _at_chance(outcomes, truth)
    known = rated_rows(outcomes.where(task="known"))
    ratings = np.array([known.values("rating", arm) for arm in PAPERS])
    f1 = np.array([known.values("f1", arm) for arm in PAPERS])
    tau = _rank_agreement(ratings, f1, _clusters(known), outcomes.draws)
    why = (
        f"The judge's order is {_order_text(known, ratings)}. The order by F1 is "
        f"{_order_text(known, f1)}. Kendall's tau-b of the two orders is "
        f"{figures.score_text(tau, 'ratio')} (n = {tau.n})."
    )
    agreement = Part(
        tau,
        partial(decisions.above, bound=SWAPPED),
        label="Kendall's tau-b of judge and F1",
        unit="ratio",
        bound=SWAPPED,
    )
    return decisions.decide_by_intervals([agreement], (SWAPPED,), why=why)


def rated_rows(rows: Outcomes) -> Outcomes:
    """The answers that the judge rated; it may rate some of the questions only."""
    rated = rows.rows_with("rating").index
    return rows.select(rows.frame.index.to_series().isin(rated))


def _order_text(rows: Outcomes, values: Floats) -> str:
    """List the paper's arms by their mean, the highest first; `values` is of shape (arms, n)."""
    order = np.argsort(-values.mean(axis=1), kind="stable")
    return ", ".join(rows.label(PAPERS[position]) for position in order)


def _clusters(rows: Outcomes) -> list[str]:
    return list(rows.frame[rows.frame.arm == "drugrag"].cluster)


def _spread_difference(a: Floats, b: Floats, clusters: Sequence[str], draws: int) -> Score:
    """Return the standard deviation of (n,) values `a` minus that of `b`."""

    def difference(rows: Floats) -> float:
        positions = rows.astype(int)
        return float(a[positions].std() - b[positions].std())

    return bootstrap(np.arange(len(a)), difference, clusters=clusters, draws=draws)


def _rank_agreement(a: Floats, b: Floats, clusters: Sequence[str], draws: int) -> Score:
    """Return Kendall's tau-b between the orders of k arms by two (k, n) measures.

    It is 0 where one measure has all arms alike.
    """

    def tau(rows: Floats) -> float:
        positions = rows.astype(int)
        agreement = kendalltau(_means(a[:, positions]), _means(b[:, positions]))
        return float(np.nan_to_num(agreement.statistic))

    return bootstrap(np.arange(a.shape[1]), tau, clusters=clusters, draws=draws)


def _means(values: Floats) -> Floats:
    """Return the means of (k, n) values.

    Sums of the same marks in another order differ in their last digits, and are ties.
    """
    return np.round(values.mean(axis=1), 9)


def gain_over_no_retrieval(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide whether Table II as printed holds the gain over no retrieval (Abstract)."""
    return _decide_gain(printed, "gain_no_retrieval")


def gain_over_text(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Decide the same of both text baselines; the abstract speaks of them in the plural."""
    return _decide_gain(printed, "gain_rag_text")


def readings(best: float, base: float) -> tuple[float, float, float]:
    """Read a gain in Table II in three ways, those of `SCALES`.

    Table II is normalised from ratings of 1 to 5 (Setup), so that x stands for a rating of 1 + 4x.
    """
    return best - base, best / base - 1, 4 * (best - base) / (1 + 4 * base)


SCALES = (
    "in points",
    "relative to the score from 0 to 1",
    "relative to the rating from 1 to 5",
)
"""What we measure a gain on, in the order of `readings`."""
GAINS = {"gain_no_retrieval": ("no_retrieval",), "gain_rag_text": ("rag_text", "graphrag")}
"""The gains that the abstract states, and the baselines in Table II."""
GAIN_TOLERANCE = 0.025 + 1e-9
"""Largest distance between a gain and the stated one.

Both stated gains are approximate and multiples of five, so that no coarser rounding is likely.
"""


@dataclass(frozen=True)
class StatedGain:
    """A gain that the abstract states.

    Attributes:
        stated: The gain as the abstract states it.
        best: DrugRAG's score in Table II.
        baselines: The scores in Table II that it may be a gain on.
    """

    stated: float
    best: float
    baselines: Sequence[Number]

    def by_scale(self) -> dict[str, list[float]]:
        """Return the gain on each baseline, by scale."""
        gains = [readings(self.best, baseline.value) for baseline in self.baselines]
        by_scale = {}
        for position, scale in enumerate(SCALES):
            by_scale[scale] = [gain[position] for gain in gains]
        return by_scale

    def distances(self) -> dict[str, float]:
        """Return the largest distance between a gain and the stated one, by scale."""
        distances = {}
        for scale, gains in self.by_scale().items():
            distances[scale] = max(abs(gain - self.stated) for gain in gains)
        return distances

    def scales(self) -> list[str]:
        """Return the scales on which the gain on each baseline is the stated one."""
        distances = self.distances().items()
        return [scale for scale, distance in distances if distance <= GAIN_TOLERANCE]

    def text(self) -> str:
        """Return the gains as read, and as stated."""
        sentences = []
        for baseline in self.baselines:
            points, relative, rated = readings(self.best, baseline.value)
            sentences.append(
                f"DrugRAG's score is {100 * points:.1f} points, or {100 * relative:.1f} %, higher "
                f"than the score of {baseline.row} ({baseline.printed}). On the scale of ratings "
                f"from 1 to 5, DrugRAG is {100 * rated:.1f} % higher than {baseline.row}."
            )
        sentences.append(f"The abstract states a gain of about {100 * self.stated:.0f} %.")
        return " ".join(sentences)

    def shares_of_best(self) -> list[float]:
        """Return the differences divided by DrugRAG's own score, which decide nothing."""
        return [1 - baseline.value / self.best for baseline in self.baselines]

    def scales_text(self) -> str:
        """Return on which scales the stated gain holds, as a sentence."""
        rows = figures.listed([baseline.row for baseline in self.baselines])
        gain = f"a gain of {100 * self.stated:.0f} % over {rows}"
        scales = self.scales()
        if not scales:
            return f"On none of the three scales does {gain} agree with Table II."
        by_scales = evidence.sentence_case(figures.listed(scales))
        return f"{by_scales}, {gain} agrees with Table II."


def stated_gains(printed: Published, size: str = "70b") -> dict[str, StatedGain]:
    """Return the abstract's gains by name, with a model's scores in Table II.

    Args:
        printed: The numbers of the paper.
        size: The model, as the ids of Table II spell its size.
    """
    best = printed.number(f"drug_interactions.table2.drugrag.llama_{size}").value
    gains = {}
    for name, arms in GAINS.items():
        stated = printed.number(f"drug_interactions.text.{name}").value
        ids = [f"drug_interactions.table2.{arm}.llama_{size}" for arm in arms]
        gains[name] = StatedGain(stated, best, [printed.number(id_) for id_ in ids])
    return gains


def _decide_gain(printed: Published, name: str) -> Decision:
    """Decide whether the large model's gains lie within 2.5 points of the stated one.

    The abstract does not say of which scale its gains are: it is inconclusive if the two need two.
    """
    best = printed.number("drug_interactions.table2.drugrag.llama_70b")
    gains = stated_gains(printed)
    sentences = [f"DrugRAG's score in Table II is {best.printed}.", gains[name].text()]
    sentences += [gain.scales_text() for gain in gains.values()]
    shares = [f"{100 * share:.1f} %" for share in gains[name].shares_of_best()]
    difference = "gain is" if len(shares) == 1 else "gains are"
    sentences.append(
        f"Divided by DrugRAG's own score, the {difference} {figures.listed(shares)}. This "
        "measure of a gain does not decide the claim."
    )
    why = " ".join(sentences)
    own_scales = gains[name].scales()
    scales = [set(gain.scales()) for gain in gains.values()]
    common_scales = set.intersection(*scales)
    if own_scales and not common_scales:
        return Decision("inconclusive", f"{why} None of the three scales gives both stated gains.")
    return Decision(decisions.exactly(bool(own_scales)), why)
