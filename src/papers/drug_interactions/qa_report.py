"""What a run of the drug-interaction questions reports (drug_interactions.md, Table II, Figure 4).

Every score of a set counts a yes, a no and "not known" as sets of one, so that each question has a right answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.llm import LLM, Reply
from helpers.results import figures
from helpers.results.metrics import Paired, Score, bootstrap, holm, p50, p95, paired_means, proportion, set_scores
from helpers.results.published import Published
from helpers.results.record import Run
from helpers.similarity import BertScores, bertscore_arms, sentence_similarity_arms
from helpers.vectors import Encoder
from papers.drug_interactions.answering import (
    ARMS,
    Answered,
    Arm,
    Evidence,
    ReadAnswer,
    Search,
    answer_all,
    names_in_evidence,
    read_answer,
)
from papers.drug_interactions.cypher import Retrieved
from papers.drug_interactions.judge import Judged, Rating, rate, useful
from papers.drug_interactions.questions import (
    FORMS,
    KINDS,
    NO,
    NOT_KNOWN,
    YES,
    Asked,
    FollowUp,
    Reference,
    answer_of,
)
from papers.side_effects.vocabulary import Vocabulary

PAPER = "drug_interactions"
Way = TypeVar("Way", bound=str)
"""An arm, or a way of answering without a model."""

LABELS: dict[Arm, tuple[str, str]] = {
    "none": ("No retrieval", "#c35410"),
    "text": ("Text RAG", "#af219d"),
    "agentic": ("Agentic RAG", "#808080"),
    "drugrag": ("DrugRAG", "#125ee0"),
    "hybrid": ("Graph or text", "#079c6b"),
}
"""Name and colour of each arm."""
PRINTED: dict[Arm, str] = {"none": "no_retrieval", "text": "rag_text", "agentic": "graphrag", "drugrag": "drugrag"}
"""The row of Table II that each arm is held against; the row called GraphRAG has the rating of agentic RAG."""
BASELINES: tuple[Arm, ...] = ("none", "text", "agentic")
PLAIN = {
    "query": "Right query, names as asked",
    "linked": "Right query, brands translated",
    "keyword": "Facts about the names, all of them",
    "passages": "All names in five passages",
}
"""Ways of answering in which no language model takes part."""
SHOWN = 600
"""Characters of a MedQuAD reference that the judge is shown."""
COLUMNS = ("exact", "precision", "recall", "f1")
SETS, RATING, COSINE = "F1 of the answer set", "rating by the judge", "cosine"
"""What DrugRAG is compared with its baselines by."""


def label(arm: Arm) -> str:
    """The name of an arm as a reader sees it."""
    return LABELS[arm][0]


# -------------------------------------------------------------------------------------------------------------- sets


def set_table(questions: Sequence[Asked], answers: Sequence[ReadAnswer]) -> pd.DataFrame:
    """One row a question: kind, whether the set is exactly right, its precision, recall and F1, and if it was read."""
    rows = []
    for question, read in zip(questions, answers, strict=True):
        scores = set_scores(read.answer, question.answer)
        exact = read.answer == question.answer
        rows.append({"kind": question.form.kind, "exact": float(exact), **scores, "unparsed": read.unparsed})
    return pd.DataFrame(rows, columns=["kind", *COLUMNS, "unparsed"])


def set_summary(table: pd.DataFrame, draws: int) -> dict[str, Score]:
    """The mean of each score over the questions, with its interval."""
    unread = int(table.unparsed.sum())
    found = {"exact": proportion(int(table.exact.sum()), len(table), unparsed=unread)}
    return found | {name: bootstrap(table[name], draws=draws) for name in COLUMNS[1:]}


def sets_overview(tables: Mapping[Way, pd.DataFrame], labels: Mapping[Way, str], draws: int) -> pd.DataFrame:
    """One row an arm: exactly right, precision, recall and F1 over all questions."""
    return pd.DataFrame([{"arm": labels[arm], **set_summary(table, draws)} for arm, table in tables.items()]).rename(
        columns={"exact": "exactly right", "f1": "F1"}
    )


def sets_by_kind(
    tables: Mapping[Way, pd.DataFrame], labels: Mapping[Way, str], draws: int, column: str = "f1"
) -> pd.DataFrame:
    """One row a kind of question, a column an arm: the mean of one score."""
    rows = []
    first = next(iter(tables.values()))
    for kind, name in KINDS.items():
        n = int((first.kind == kind).sum())
        if n:
            of = {labels[arm]: bootstrap(t[column][t.kind == kind], draws=draws) for arm, t in tables.items()}
            rows.append({"questions": name, "n": n, **of})
    return pd.DataFrame(rows)


def keep_sets(run: Run, tables: Mapping[Way, pd.DataFrame], labels: Mapping[Way, str], prefix: str, draws: int) -> None:
    """Keep the scores of each arm in the record, over all questions and by kind."""
    for arm, table in tables.items():
        for name, score in set_summary(table, draws).items():
            run.extra(f"questions.{prefix}.{arm}.{name}", f"{labels[arm]}: {name}", score)
        for kind, words in KINDS.items():
            of_kind = table.f1[table.kind == kind]
            if len(of_kind):
                name = f"questions.{prefix}.{arm}.{kind}.f1"
                run.extra(name, f"{labels[arm]}, {words}: f1", bootstrap(of_kind, draws=draws))


def by_names(questions: Sequence[Asked], found: Sequence[frozenset[str]]) -> list[ReadAnswer]:
    """What names that were found say as answers."""
    return [ReadAnswer(answer_of(q.form, q.parameters, names)) for q, names in zip(questions, found, strict=True)]


def by_lines(questions: Sequence[Asked], evidence: Sequence[Evidence], vocabulary: Vocabulary) -> list[frozenset[str]]:
    """All names of the right kind in the passages or facts of each question."""
    return [names_in_evidence(q, e, vocabulary) for q, e in zip(questions, evidence, strict=True)]


def within_reach(
    questions: Sequence[Asked], found: Mapping[Arm, Sequence[Evidence]], vocabulary: Vocabulary, draws: int
) -> dict[Arm, Score]:
    """Share of the right names that stand in the evidence, on the questions whose answer is names."""
    shares: dict[Arm, Score] = {}
    rows = [i for i, q in enumerate(questions) if q.answer not in (YES, NO, NOT_KNOWN)]
    for arm, evidence in found.items():
        told = [names_in_evidence(questions[i], evidence[i], vocabulary) for i in rows]
        recall = [len(t & questions[i].answer) / len(questions[i].answer) for t, i in zip(told, rows, strict=True)]
        if recall:
            shares[arm] = bootstrap(recall, draws=draws)
    return shares


# ---------------------------------------------------------------------------------------------------------- questions


def questions_table(questions: Sequence[Asked]) -> pd.DataFrame:
    """The forms, each with a question and its right answer, how many there are and how many names answers have."""
    rows = []
    for form in FORMS:
        of = [q for q in questions if q.form is form]
        if of:
            sizes = [len(q.answer) for q in of]
            rows.append(
                {
                    "kind": KINDS[form.kind],
                    "for example": of[0].text,
                    "right is": ", ".join(sorted(of[0].answer)),
                    "questions": len(of),
                    "names": f"{min(sizes)} to {max(sizes)}",
                }
            )
    return pd.DataFrame(rows)


def follow_up_table(
    run: Run,
    pairs: Sequence[FollowUp],
    ways: Mapping[str, Sequence[Retrieved]],
    answers: Sequence[Answered],
    vocabulary: Vocabulary,
    draws: int,
) -> pd.DataFrame:
    """Questions that need their history: execution accuracy with and without it, and the answers with it.

    Args:
        run: keeps the scores.
        pairs: the questions.
        ways: what was retrieved, by the name of the way.
        answers: to the follow-ups, with their history.
        vocabulary: the graph's names.
        draws: of the bootstrap.
    """
    then = [pair.then for pair in pairs]
    rows = []
    for way, retrieved in ways.items():
        score = proportion(sum(r.exact(q) for q, r in zip(then, retrieved, strict=True)), len(then))
        run.extra(f"questions.follow_up.{_id(way)}", f"follow-ups, Cypher {way}: execution accuracy", score)
        rows.append({"what": f"statement, {way}", "n": len(then), "exactly right": score, "F1": None})
    summary = set_summary(set_table(then, read_all(then, answers, vocabulary)), draws)
    run.extra("questions.follow_up.answers", "follow-ups, answers with history: f1", summary["f1"])
    rows.append(
        {"what": "answer, with history", "n": len(then), "exactly right": summary["exact"], "F1": summary["f1"]}
    )
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------------------ answers


def read_all(questions: Sequence[Asked], answers: Sequence[Answered], vocabulary: Vocabulary) -> list[ReadAnswer]:
    """What each answer says, as a set."""
    return [read_answer(q, a.text, vocabulary) for q, a in zip(questions, answers, strict=True)]


@dataclass(frozen=True)
class Nearness:
    """How near n answers are to their references.

    Attributes:
        cosine: (n,) of the vectors of answer and reference; 0 for an answer of no words.
        bertscore: precision, recall and F1 of the tokens.
        cut: answers and references longer than the encoder sees for its vectors; `bertscore` has its own count.
    """

    cosine: np.ndarray
    bertscore: BertScores
    cut: int


@dataclass(frozen=True)
class Measured:
    """All that is known of one model's answers, a list an arm.

    Attributes:
        model: that answered.
        known: answers to the questions with known sets.
        medquad: answers to MedQuAD's questions.
        sets: the scores of `known`.
        near: how near the answers of `medquad` are to their references.
        about: what each question is about, those of `known` first: of the same, questions belong together.
        ratings: of all answers, those of `known` first; the judge's first time.
        again: its second time.
    """

    model: str
    known: Mapping[Arm, Sequence[Answered]]
    medquad: Mapping[Arm, Sequence[Answered]]
    sets: Mapping[Arm, pd.DataFrame]
    near: Mapping[Arm, Nearness]
    about: Sequence[str]
    ratings: Mapping[Arm, Sequence[Rating]] = field(default_factory=dict)
    again: Mapping[Arm, Sequence[Rating]] = field(default_factory=dict)

    def replies(self, arm: Arm) -> list[Reply]:
        """An arm's replies to both sets of questions, those of `known` first."""
        return [answered.reply for answered in (*self.known[arm], *self.medquad[arm])]

    def marks(self, arm: Arm, *, medquad: bool | None = None) -> np.ndarray:
        """The normalised ratings of an arm: of MedQuAD's questions, of the others, or of all."""
        values = np.array([rating.normalised for rating in self.ratings[arm]])
        n = len(self.known[arm])
        return values if medquad is None else values[n:] if medquad else values[:n]


@dataclass(frozen=True)
class Bench:
    """The questions that models answer, and the evidence that each arm found for them.

    Attributes:
        known: questions with known answers.
        medquad: questions with reference answers.
        evidence: of each arm, one entry a question, those of `known` first.
        vocabulary: the graph's names, to read answers by.
        encoder: to compare answers with references by.
    """

    known: Sequence[Asked]
    medquad: Sequence[Reference]
    evidence: Mapping[Arm, Sequence[Evidence]]
    vocabulary: Vocabulary
    encoder: Encoder

    @property
    def texts(self) -> list[str]:
        """All questions in words, those of `known` first."""
        return [*(q.text for q in self.known), *(r.text for r in self.medquad)]

    def measure(self, llm: LLM, **options: float) -> Measured:
        """A model's answers from the evidence of each arm, scored but for the judge's ratings.

        Args:
            llm: the model.
            options: of `answer_all`.
        """
        n = len(self.known)
        answers = answer_all(llm, self.texts, self.evidence, **options)  # type: ignore[arg-type]
        known, medquad = ({arm: of[part] for arm, of in answers.items()} for part in (slice(n), slice(n, None)))
        sets = {arm: set_table(self.known, read_all(self.known, of, self.vocabulary)) for arm, of in known.items()}
        texts = {arm: [answered.text for answered in of] for arm, of in medquad.items()}
        near = nearness(self.encoder, texts, self.medquad)
        about = [*(q.about for q in self.known), *(r.about for r in self.medquad)]
        return Measured(llm.endpoint.model, known, medquad, sets, near, about)

    @property
    def floor(self) -> Nearness:
        """How near the references of other questions come, each that of the next: what a text is worth that answers
        something else."""
        texts = [reference.answer for reference in self.medquad]
        return nearness(self.encoder, {"floor": texts[1:] + texts[:1]}, self.medquad)["floor"]

    def judge(self, llm: LLM, measured: Measured, seed: int) -> Measured:
        """The same with a judge's ratings, given twice: once with the scale upwards and once downwards."""
        texts = self.texts
        right = [right_words(q) for q in self.known] + [_short(r.answer, SHOWN) for r in self.medquad]
        judged = [
            Judged(texts[i], answered.text, right[i])
            for arm in ARMS
            for i, answered in enumerate([*measured.known[arm], *measured.medquad[arm]])
        ]
        times = (rate(llm, judged, downwards=downwards, seed=seed + downwards) for downwards in (False, True))
        first, second = ({arm: of[i * len(texts) : (i + 1) * len(texts)] for i, arm in enumerate(ARMS)} for of in times)
        return replace(measured, ratings=first, again=second)


def nearness(
    encoder: Encoder, arms: Mapping[Way, Sequence[str]], references: Sequence[Reference]
) -> dict[Way, Nearness]:
    """How near the texts of each arm are to the references.

    Args:
        encoder: gives the vectors of texts and those of their tokens.
        arms: name -> n texts.
        references: n.

    Raises:
        ValueError: see `similarity.bertscore`.
        EncoderUnavailable: see `similarity.bertscore`.
    """
    wanted = [reference.answer for reference in references]
    named = {str(arm): texts for arm, texts in arms.items()}
    cosines = sentence_similarity_arms(named, wanted, encoder, progress=False)
    scores = bertscore_arms(named, wanted, encoder, progress=False)
    return {
        arm: Nearness(
            # an encoder has a vector for no words, too
            np.where([bool(text.strip()) for text in texts], cosines[arm], 0.0),
            scores[arm],
            encoder.count_truncated([*texts, *wanted]),
        )
        for arm, texts in arms.items()
    }


def examples_table(
    questions: Sequence[str], right: Sequence[str], answers: Mapping[Arm, Sequence[Answered]], rows: Sequence[int]
) -> pd.DataFrame:
    """Some questions with what is right and what each arm answered."""
    return pd.DataFrame(
        [
            {"question": questions[i], "right is": _short(right[i])}
            | {label(arm): _short(of[i].text) or of[i].reply.status for arm, of in answers.items()}
            for i in rows
        ]
    )


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def right_words(asked: Asked) -> str:
    """The right answer to a question in words, for a judge and a reader."""
    if asked.answer == NOT_KNOWN:
        return "Not known; there is no such drug."
    words = ", ".join(sorted(asked.answer))
    return f"{words[0].upper()}{words[1:]}."


# ------------------------------------------------------------------------------------------------------- paired tests


@dataclass(frozen=True)
class Compared:
    """An arm against another on the same questions, its p-value adjusted by Holm within its family."""

    better: Arm
    other: Arm
    measure: str
    test: Paired
    adjusted: float


def compare(
    values: Mapping[Arm, Sequence[float] | np.ndarray],
    measure: str,
    draws: int,
    *,
    clusters: Sequence[str],
    arm: Arm = "drugrag",
    others: Sequence[Arm] = BASELINES,
) -> list[Compared]:
    """An arm against each of others, by a paired randomisation test, adjusted for their number.

    Args:
        values: of each arm, one a question.
        measure: what they are.
        draws: of the test and of the bootstrap.
        clusters: what each question is about.
        arm: the one that is tested.
        others: what it is tested against.
    """
    tests = [paired_means(values[arm], values[other], clusters=clusters, draws=draws) for other in others]
    adjusted = holm([test.p for test in tests])
    return [Compared(arm, other, measure, t, p) for other, t, p in zip(others, tests, adjusted, strict=True)]


def compare_sets(
    of: Measured, draws: int, *, arm: Arm = "drugrag", others: Sequence[Arm] = BASELINES
) -> list[Compared]:
    """An arm against each of others by the F1 of the answer sets."""
    values = {a: table.f1.to_numpy() for a, table in of.sets.items()}
    return compare(values, SETS, draws, clusters=of.about[: len(values[arm])], arm=arm, others=others)


def compare_ratings(of: Measured, draws: int) -> list[Compared]:
    """DrugRAG against each baseline by the judge's rating of all answers."""
    return compare({arm: of.marks(arm) for arm in ARMS}, RATING, draws, clusters=of.about)


def tests_table(compared: Sequence[Compared]) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        [
            {
                "measure": c.measure,
                "arm": label(c.better),
                "against": label(c.other),
                "n": c.test.n,
                "better in": c.test.b,
                "worse in": c.test.c,
                "difference in points": figures.points(c.test),
                "p (Holm)": figures.p_text(c.adjusted),
            }
            for c in compared
        ]
    )


# ----------------------------------------------------------------------------------------------------------- Table II


def table_two(run: Run, measured: Sequence[Measured], judge_useful: bool, alone: str, draws: int) -> pd.DataFrame:
    """Table II, printed and here: the normalised rating of MedQuAD's questions, and what else is known of each arm.

    Args:
        run: keeps the numbers.
        measured: the answers of the larger model, and those of the smaller one if there are two.
        judge_useful: whether the judge tells right from wrong.
        alone: why one model answers, if it does.
        draws: of the bootstrap.
    """
    rows = []
    worth = _caveat(judge_useful)
    for arm in ARMS:
        row: dict[str, object] = {"setting": label(arm)}
        for size, of in zip(("70b", "8b"), [*measured, None][:2], strict=True):
            number = run.printed.number(f"{PAPER}.table2.{PRINTED[arm]}.llama_{size}") if arm in PRINTED else None
            row[f"printed, {size.upper()}"] = number.printed if number else None
            if of is None:
                if number:
                    run.not_run(number.id, f"One model answers, in the place of the larger one. {alone}")
                continue
            score = bootstrap(of.marks(arm, medquad=True), draws=draws)
            row[f"rating, {of.model}"] = score
            row[f"F1, {of.model}"] = bootstrap(of.sets[arm].f1, draws=draws)
            run.extra(f"questions.rating.{size}.{arm}", f"{label(arm)}, MedQuAD: normalised rating", score)
            if number:
                note = f"Normalised rating of MedQuAD's drug questions by {of.model}.{worth}"
                run.rerun(number.id, score, model=of.model, note=note)
        rows.append(row)
    return pd.DataFrame(rows)


def _caveat(judge_useful: bool) -> str:
    """What a note on a rating has to add."""
    return "" if judge_useful else " The judge was not seen to tell right from wrong where the answer is known."


def at_odds(printed: Published) -> str:
    """Where Table II and the text disagree, as a list in Markdown."""
    points_of = [c for c in printed.contradictions if any("Table II" in s.where for s in c.says)]
    return "\n".join(
        [
            f"Table II and the text disagree in {len(points_of)} points:",
            "",
            *(f"- **{c.about}.** " + " ".join(f"{s.where}: {s.what}." for s in c.says) for c in points_of),
        ]
    )


def report_text_numbers(
    run: Run, of: Measured, retrieved: Sequence[Retrieved], writer: str, judge_useful: bool, draws: int
) -> None:
    """Report the numbers of the paper's running text that these answers measure; `writer` wrote the Cypher."""
    worth = _caveat(judge_useful)
    text = f"{PAPER}.text."
    rating = {arm: bootstrap(of.marks(arm, medquad=True), draws=draws) for arm in ARMS}
    note = f"Normalised rating of MedQuAD's drug questions.{worth}"
    for id, arm in (
        ("normalised.drugrag", "drugrag"),
        ("normalised.rag_text", "text"),
        ("normalised.no_retrieval", "none"),
        ("normalised.agentic", "agentic"),
        ("agentic", "agentic"),
    ):
        run.rerun(text + id, rating[arm], model=of.model, note=note)  # type: ignore[index]
    cosine: tuple[tuple[str, Arm], ...] = (("similarity", "drugrag"), ("similarity_next_best", "agentic"))
    for id, arm in cosine:
        score = bootstrap(of.near[arm].cosine, draws=draws)
        # the printed scale begins at 0, a cosine does not
        score = replace(score, value=max(score.value, 0.0), low=max(score.low, 0.0), high=max(score.high, 0.0))
        note = "Cosine to MedQuAD's answer, by the encoder of this run; a mean below zero counts as 0."
        run.rerun(text + id, score, model=of.model, note=note)
    gains: tuple[tuple[str, Arm], ...] = (("gain_no_retrieval", "none"), ("gain_rag_text", "text"))
    for id, arm in gains:
        if rating[arm].value:
            relative = rating["drugrag"].value / rating[arm].value - 1
            run.rerun(text + id, relative, model=of.model, note=f"Relative gain of the normalised rating.{worth}")
        else:
            run.not_run(text + id, "The baseline's rating is zero, so that no relative gain exists.")
    largest = max(c.adjusted for c in compare_ratings(of, draws))
    run.rerun(text + "p", largest, model=of.model, note=f"The largest of three, on {RATING}.{worth}")
    run.rerun(
        text + "cypher_seconds",
        bootstrap([r.seconds for r in retrieved], p95, draws=draws),
        model=writer,
        note="95th percentile, repairs and waiting for other requests included.",
    )
    spent = [a.reply.seconds for a in of.known["drugrag"]]
    for end, share in (("low", 5), ("high", 95)):
        run.rerun(
            f"{text}answer_seconds.{end}",
            float(np.percentile(spent, share)),
            model=of.model,
            note=f"{share}th percentile of DrugRAG's answers, waiting for other requests included.",
        )


def sources_table(evidence: Mapping[Arm, Sequence[Evidence]], retrieved: Sequence[Retrieved]) -> pd.DataFrame:
    """What each graph arm answered from: a query's rows, the search for names, passages, or nothing."""
    rows = []
    graph_arms: tuple[Arm, ...] = ("drugrag", "hybrid")
    for arm in graph_arms:
        kinds = Counter(
            "passages"
            if found.source == "passages"
            else "nothing found"
            if not found.lines
            else "search for names"
            if r.by_keyword
            else "rows of a query"
            for found, r in zip(evidence[arm], retrieved, strict=True)
        )
        rows.append({"arm": label(arm), "n": len(retrieved), **kinds})
    return pd.DataFrame(rows).fillna(0)


def costs_table(run: Run, of: Measured, draws: int) -> pd.DataFrame:
    """Tokens of the prompt of the answer and seconds of it, by arm, over both sets of questions; kept in the record."""
    rows = []
    for arm in ARMS:
        replies = [reply for reply in of.replies(arm) if reply.status != "overflow"]
        tokens = bootstrap([r.prompt_tokens for r in replies], draws=draws) if replies else None
        if tokens:
            run.extra(f"questions.prompt_tokens.{arm}", f"{label(arm)}: tokens of the answer's prompt", tokens)
        rows.append(
            {
                "arm": label(arm),
                "n": len(replies),
                "tokens of the prompt": figures.score_text(tokens, "count"),
                "over the context": len(of.replies(arm)) - len(replies),
                "cut answers": sum(r.status == "cut" for r in replies),
                "median seconds": p50([r.seconds for r in replies]) if replies else None,
            }
        )
    return pd.DataFrame(rows)


def agentic_words(run: Run, searches: Sequence[Search], questions: Sequence[str]) -> str:
    """What the agent's second round found that the first had, with both queries for one question; kept in the record.

    The paper has "a few agentic runs" that found a passage twice (Results).
    """
    again = proportion(sum(search.again for search in searches), sum(len(s.rounds[1]) for s in searches))
    run.extra("questions.agentic.again", "agentic RAG: passages of the second round that the first had", again)
    runs = sum(search.again > 0 for search in searches)
    first, second, question = map(figures.inline, (*searches[0].queries, questions[0]))
    return (
        f"In {runs} of {len(searches)} searches of the agent the second round brought passages again that the first "
        f"had: {figures.score_text(again)} of all that it brought. For \N{LEFT DOUBLE QUOTATION MARK}{question}"
        f"\N{RIGHT DOUBLE QUOTATION MARK} it looked for \N{LEFT DOUBLE QUOTATION MARK}{first}"
        f"\N{RIGHT DOUBLE QUOTATION MARK}, then for \N{LEFT DOUBLE QUOTATION MARK}{second}"
        f"\N{RIGHT DOUBLE QUOTATION MARK}."
    )


# ------------------------------------------------------------------------------------------------------------- answer


def answer(
    run: Run,
    of: Measured,
    known: Sequence[Asked],
    compared: Sequence[Compared],
    cypher_first: Score,
    truth: Score | None,
    *,
    passage_tokens: int,
    draws: int,
) -> str:
    """The page's answer in Markdown, from the values of the run: two sentences, the arms, and the details.

    Args:
        run: whose claims are decided.
        of: the larger model's answers.
        known: the questions with known answers that it was asked.
        compared: DrugRAG against the baselines by the F1 of the answer sets.
        cypher_first: the share of first statements that were right.
        truth: whether the judge rates right answers above wrong ones.
        passage_tokens: length of a passage of text RAG.
        draws: of the bootstrap.
    """
    verdicts = {claim.id: claim.verdict for claim in run.claims}
    on_sets, on_measures = (verdicts[f"{PAPER}.claim.drugrag_beats_baselines{which}"] for which in ("_on_sets", ""))
    unread = sum(int(of.sets[arm].unparsed.sum()) for arm in ARMS)
    return "\n".join(
        [
            f"**In short.** {_AHEAD[on_sets]} when it answers from a graph than when it answers from nothing, from "
            f"text, or as an agent that searches text ({len(known)} questions are written from this graph; passages of "
            f"{passage_tokens} tokens). {_measures(truth)}, {_LEADS[on_measures]}.",
            "",
            _by_arm(of, draws),
            "",
            f"{told_apart(compared)} Of all {len(ARMS) * len(known)} answers to questions with known answers, by "
            f"{of.model}, {unread} could not be read as what was asked for. The first Cypher statement was right for "
            f"{figures.score_text(cypher_first)} of {cypher_first.n} questions. MedQuAD's questions are about drugs, "
            "but a graph of interactions was not made for them; nearest to the references are, by the cosine, the "
            f"answers of {_nearest(of, lambda near: near.cosine, draws)}; by BERTScore's F1, those of "
            f"{_nearest(of, lambda near: near.bertscore.f1, draws)}.",
            "",
            _judged(truth),
        ]
    )


_AHEAD: dict[str, str] = {
    "agrees": "A language model names the right drugs and side effects better",
    "differs": "A language model does not name the right drugs and side effects better",
    "undecided": "It stays open whether a language model names the right drugs and side effects better",
}
_LEADS: dict[str, str] = {
    "agrees": "the graph leads",
    "differs": "the graph does not lead",
    "undecided": "these questions are too few to tell whether the graph leads",
}


def _measures(truth: Score | None) -> str:
    """The paper's measures, or what is left of them, in words."""
    if useful(truth):
        return "By the paper's own measures, likeness to a reference answer and a judge's rating"
    return (
        "By likeness to a reference answer, the only one of the paper's measures that can be used, as the judge was "
        "not seen to tell right from wrong"
    )


def _by_arm(of: Measured, draws: int) -> str:
    """Each arm by the F1 of its answer sets and by its likeness to the references, as a list in Markdown."""
    known, medquad = len(of.sets["none"]), len(of.medquad["none"])
    lines = [f"Right names (F1, {known} questions) and likeness to the reference (cosine, {medquad} questions):", ""]
    for arm in ARMS:
        f1, cosine = bootstrap(of.sets[arm].f1, draws=draws), bootstrap(of.near[arm].cosine, draws=draws)
        lines.append(
            f"- **{label(arm)}**: {figures.score_text(f1)} and {figures.score_text(cosine, 'count', digits=2)}"
        )
    return "\n".join(lines)


def _judged(truth: Score | None) -> str:
    """What the judge's ratings are worth, in a sentence."""
    if truth is None:
        return (
            "Whether the language model as judge can tell right from wrong cannot be said: the arms' answers are all "
            "right, or all wrong. Its ratings are Table II's measure."
        )
    can, so = (
        ("can", "so that its ratings can be read")
        if useful(truth)
        else ("cannot", "so that its ratings, Table II's measure, say little")
    )
    return (
        f"The language model as judge {can} tell right answers from wrong ones (area under the curve "
        f"{figures.score_text(truth, 'count', digits=2)}; 0.5 is chance), {so}."
    )


def told_apart(compared: Sequence[Compared], significant: float = 0.05) -> str:
    """Which differences of DrugRAG to its baselines are more than chance, in a sentence."""
    sure = [c for c in compared if c.adjusted < significant]
    if not sure:
        smallest = figures.p_text(min(c.adjusted for c in compared))
        return (
            f"None of DrugRAG's differences to its {len(compared)} baselines is significant (paired tests, the "
            f"smallest p after Holm's correction {smallest})."
        )
    parts = []
    for words, of in (
        ("above", [c.other for c in sure if c.test.difference > 0]),
        ("below", [c.other for c in sure if c.test.difference < 0]),
        ("not told apart from", [c.other for c in compared if c not in sure]),
    ):
        if of:
            parts.append(f"{words} {_listed(of)}")
    return f"By paired tests with Holm's correction DrugRAG is {'; '.join(parts)}."


def _listed(arms: Sequence[Arm]) -> str:
    return ", ".join(label(arm) for arm in arms)


def _leaders(values: Mapping[Arm, float]) -> list[Arm]:
    """The arms with the highest value: more than one if they tie."""
    return [arm for arm in values if np.isclose(values[arm], max(values.values()))]


def _nearest(of: Measured, measure: Callable[[Nearness], np.ndarray], draws: int) -> str:
    """The arms whose answers are nearest to the references, with DrugRAG's value beside theirs."""
    scores = {arm: bootstrap(measure(of.near[arm]), draws=draws) for arm in ARMS}
    words = {arm: figures.score_text(score, "count", digits=2) for arm, score in scores.items()}
    nearest = _leaders({arm: score.value for arm, score in scores.items()})
    beside = "" if "drugrag" in nearest else f"; DrugRAG {words['drugrag']}"
    return f"{_listed(nearest)} (mean {words[nearest[0]]}{beside})"


# ------------------------------------------------------------------------------------------------------------ figures


def draw_by_kind(tables: Mapping[Arm, pd.DataFrame], draws: int) -> Figure:
    """Mean F1 of the answer sets by kind of question and arm, with 95 % intervals."""
    kinds = [kind for kind in KINDS if (next(iter(tables.values())).kind == kind).any()]
    fig, axes = plt.subplots(figsize=(7.2, 0.7 * len(kinds) + 1.4))
    for i, (arm, table) in enumerate(tables.items()):
        scores = [bootstrap(table.f1[table.kind == kind], draws=draws) for kind in kinds]
        at = np.arange(len(kinds)) + 0.15 * (i - (len(tables) - 1) / 2)
        colour = LABELS[arm][1]
        axes.hlines(at, [s.low for s in scores], [s.high for s in scores], color=colour, linewidth=1.6)
        axes.plot(
            [s.value for s in scores], at, "osD^v"[i], color=colour, markersize=6, label=label(arm), clip_on=False
        )
    axes.set_yticks(range(len(kinds)), [KINDS[kind] for kind in kinds])
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    axes.set_xlabel("F1 of the answer set")
    axes.grid(axis="x")
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def by_kind_words(tables: Mapping[Arm, pd.DataFrame]) -> str:
    """What `draw_by_kind` shows, in words."""
    parts = []
    for kind, name in KINDS.items():
        of = {arm: float(t.f1[t.kind == kind].mean()) for arm, t in tables.items() if (t.kind == kind).any()}
        if of:
            means = ", ".join(f"{label(arm)} {figures.number(value, digits=0)}" for arm, value in of.items())
            parts.append(f"{name}: {means}")
    return f"Mean F1 by kind of question. {'; '.join(parts)}."


_PANELS: tuple[tuple[str, Callable[[Measured, Arm], np.ndarray]], ...] = (
    ("judge's rating\n(MedQuAD)", lambda of, arm: of.marks(arm, medquad=True)),
    ("cosine\n(MedQuAD)", lambda of, arm: of.near[arm].cosine),
    ("BERTScore F1\n(MedQuAD)", lambda of, arm: of.near[arm].bertscore.f1),
    ("F1 of the set\n(known answers)", lambda of, arm: of.sets[arm].f1.to_numpy()),
)


def draw_figure_four(run: Run, of: Measured, draws: int) -> Figure:
    """Figure 4: each arm by the judge and by similarity, and here also by the truth; Table II as printed beside it."""
    fig, axes = plt.subplots(1, len(_PANELS), figsize=(7.6, 3.4), sharey=True)
    for number, (ax, (title, values)) in enumerate(zip(axes, _PANELS, strict=True)):
        scores = {arm: bootstrap(values(of, arm), draws=draws) for arm in ARMS}
        for y, (arm, score) in enumerate(scores.items()):
            ax.hlines(y, score.low, score.high, color=LABELS[arm][1], linewidth=2.2)
            ax.plot(score.value, y, "o", color=LABELS[arm][1], clip_on=False, zorder=3)
            if number == 0 and arm in PRINTED:
                printed = run.printed.number(f"{PAPER}.table2.{PRINTED[arm]}.llama_70b").value
                ax.plot(printed, y, "D", color=LABELS[arm][1], markerfacecolor="none", clip_on=False)
        ax.set_title(title, fontsize=10.5)
        # a cosine may lie below 0
        ax.set_xlim(min(0.0, *(score.low for score in scores.values())), 1)
        ax.set_xticks([0, 0.5, 1])
        ax.grid(axis="x")
    axes[0].set_yticks(range(len(ARMS)), [label(arm) for arm in ARMS])
    axes[0].set_ylim(len(ARMS) - 0.5, -0.5)
    return fig


def figure_four_words(of: Measured) -> str:
    """What `draw_figure_four` shows, in words."""
    parts = []
    for title, values in _PANELS:
        means = ", ".join(f"{label(arm)} {values(of, arm).mean():.2f}" for arm in ARMS)
        parts.append(f"{' '.join(title.split())}: {means}")
    return f"Means by arm. {'; '.join(parts)}."


def _id(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_")
