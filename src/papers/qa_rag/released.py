"""What the authors released of their results, question by question, with the tests the paper lacks.

Read are the RAGAS scores of each test question for four rankings, the final answers of five arms,
and the mean BERTScore of each arm. BERTScore per question is computed again from the answers.
"""

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, Item, make_row
from evaluation.metrics import ratio
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from papers.qa_rag import data as qa_rag
from papers.qa_rag.answers import PAPER_ENCODER
from papers.qa_rag.data import CONTEXTS, PAIRS, Context, Data, QaRagDataError, words
from papers.qa_rag.retrieval import AUTHORS, PRINTED
from resources import datasets
from resources.authors_code import Code, NotInCode
from resources.datasets import Located

ARMS = {
    "qa_rag": "QA-RAG",
    "hypothetical": "Only hypothetical answer",
    "hyde": "HyDE",
    "multiquery": "Multiquery",
    "question": "Only question",
    "hypothetical_12": "Only hypothetical answer (12)",
    "question_12": "Only question (12)",
}
"""Arms of Tables 3 to 5; the last two are those of the ablation, with half as many candidates."""
RAGAS = {
    "qa_rag": "qa_rag/ragas/qa_rag.csv",
    "question": "qa_rag/ragas/question.csv",
    "hypothetical": "qa_rag/ragas/hypothetical.csv",
    "hypothetical_12": "qa_rag/ragas/ablation_hypothetical.csv",
}
MORE = {
    "multiquery": "qa_rag/ragas/multiquery.csv",
    "hyde": "qa_rag/ragas/hyde.csv",
    "question_12": "qa_rag/ragas/ablation_question.csv",
    "qa_rag_agent": "qa_rag/ragas/agent/qa_rag.csv",
    "hypothetical_agent": "qa_rag/ragas/agent/hypothetical.csv",
    "hyde_agent": "qa_rag/ragas/agent/hyde.csv",
    "multiquery_agent": "qa_rag/ragas/agent/multiquery.csv",
    "question_agent": "qa_rag/ragas/agent/question.csv",
}
"""Further scores, those of Table 2 too, of which no copy was at hand for the reference.

They are read if a source gives them.
"""
AGENT_LABELS = {
    f"{arm}_agent": f"{label} with the scoring agent"
    for arm, label in ARMS.items()
    if not arm.endswith("_12")
}
"""Names of the methods of Table 2 whose contexts the scoring agent ordered."""

ANSWERS = {
    arm: f"qa_rag/answers/{arm}.json"
    for arm in ("qa_rag", "multiquery", "hyde", "question", "hypothetical")
}
NOTEBOOK = "qa_rag/answer_evaluation.ipynb"
BERTSCORE = "qa_rag/answers/bertscore.csv"
"""The authors' own mean BERTScore of each arm (Table 4), unrounded."""

BERTSCORE_ROWS = {
    "qa_rag": "QA_RAG",
    "multiquery": "Multiquery_questions",
    "hyde": "HyDE_with_reranker",
    "question": "Only_question",
    "hypothetical": "Only_hypothetical_answer",
}
"""How that file names the arms."""

JUDGE = "an unnamed judge"
ANSWERER = "gpt-3.5-turbo"
"""As the printed numbers name them."""


@dataclass(frozen=True)
class Released:
    """The released results by arm, in the order of `Data.test`.

    Attributes:
        ragas: Columns precision and recall of the contexts, as the authors computed them.
        answers: The final answers.
        bertscore: Mean f1, precision and recall of the answers, as the authors computed them.
        files: Where they came from.
    """

    ragas: Mapping[str, pd.DataFrame]
    answers: Mapping[str, Sequence[str]]
    bertscore: Mapping[str, Mapping[str, float]]
    files: Sequence[Located]


def load(data: Data) -> Released:
    """Load every released result, checked against the test questions. There is no sample of them.

    Raises:
        DataUnavailable: No source gives a file.
        QaRagDataError: A file is not of these questions.
    """
    files = datasets.locate_all([*RAGAS.values(), *ANSWERS.values(), BERTSCORE, NOTEBOOK], "real")
    if PAPER_ENCODER not in files[NOTEBOOK].path.read_text(encoding="utf-8"):
        raise QaRagDataError(
            f"{files[NOTEBOOK].path} should name {PAPER_ENCODER} as the encoder of BERTScore."
        )
    files |= datasets.locate_available(MORE.values())
    questions = [question.text for question in data.test]
    ragas = {}
    for arm, name in (RAGAS | MORE).items():
        if name in files:
            ragas[arm] = read_ragas(files[name].path, questions)
    answers = {}
    for arm, name in ANSWERS.items():
        answers[arm] = json.loads(files[name].path.read_text(encoding="utf-8"))
    bertscore = read_bertscore(files[BERTSCORE].path)
    return Released(ragas, answers, bertscore, tuple(files.values()))


def read_bertscore(path: Path) -> dict[str, dict[str, float]]:
    """Read the authors' means of BERTScore by arm: f1, precision and recall.

    Raises:
        QaRagDataError: An arm or a column is missing.
    """
    rows = pd.read_csv(path, index_col=0).to_dict(orient="index")
    means: dict[str, dict[str, float]] = {}
    try:
        for arm, name in BERTSCORE_ROWS.items():
            row = rows[name]
            means[arm] = {column: float(row[column]) for column in ("f1", "precision", "recall")}
    except KeyError as error:
        raise QaRagDataError(
            f"{path} should have the rows {', '.join(BERTSCORE_ROWS.values())} with precision, "
            f"recall and f1; {error} is missing."
        ) from None
    return means


RAGAS_COLUMNS = ("question", "context_precision", "context_recall")
N_COMPARED_CHARACTERS = 60
"""Characters of the end of a question that decide: some titles are spelled otherwise than in the
file of pairs."""


def read_ragas(path: Path, questions: Sequence[str]) -> pd.DataFrame:
    """Read context precision and recall of each question, as RAGAS wrote them.

    Raises:
        QaRagDataError: A column or a score is missing, or the questions are others, or in another
            order.
    """
    table = pd.read_csv(path, usecols=lambda name: name in RAGAS_COLUMNS)
    if table.shape[1] != len(RAGAS_COLUMNS) or table.isna().any(axis=None):
        raise QaRagDataError(
            f"{path} should have question, context_precision and context_recall in every row."
        )
    found = [words(text)[-N_COMPARED_CHARACTERS:] for text in table.question]
    needed = [words(text)[-N_COMPARED_CHARACTERS:] for text in questions]
    if found != needed:
        raise QaRagDataError(
            f"{path} should hold the {len(questions)} test questions in order; it has {len(table)} "
            "rows."
        )
    renamed = table.rename(columns={"context_precision": "precision", "context_recall": "recall"})
    return renamed[["precision", "recall"]]


def contexts(data: Data, released: Released) -> list[Answer]:
    """Rows of the judged contexts, with the authors' context precision and recall.

    The stratum `holds` is what the six passages hold of the FDA's answer, where it has eight words
    or more.
    """
    shares = {}
    for question in data.test:
        shares[question.id] = qa_rag.answer_passages(question, data.corpus, 0.0)
    rows = []
    for arm, table in released.ragas.items():
        rankings = data.released.get(arm, {})  # contexts of `MORE` are not read
        scores = zip(data.test, table.precision, table.recall, strict=True)
        for question, precision, recall in scores:
            ids = rankings.get(question.id, ())
            row = Answer(
                task="contexts",
                strata=qa_rag.holds_stratum(ids, shares[question.id]),
                items=_ranked_items(ids, data),
                measures={"precision": (float(precision), 1.0), "recall": (float(recall), 1.0)},
            )
            rows.append(
                make_row(row, question, arm=arm, source="released", run="release", model=JUDGE)
            )
    return rows


def _ranked_items(ids: Sequence[str], data: Data) -> list[Item]:
    return [
        Item(passage_id, data.corpus.by_id[passage_id].document, rank=rank)
        for rank, passage_id in enumerate(ids, start=1)
    ]


def more_parts_than_sentences(data: Data, released: Released) -> str:
    """Say for how many questions recall has more parts than the answer has sentences, by arm.

    The denominators are those of the scores in lowest terms, so the counts are lower bounds.
    """
    n_sentences = []
    for question in data.test:
        sentences = re.split(r"(?<=[.!?])\s+", question.answer.strip())
        n_sentences.append(len(sentences))
    counts = []
    for arm, table in released.ragas.items():
        n_more = 0
        for recall, n in zip(table.recall, n_sentences, strict=False):
            n_more += Fraction(recall).limit_denominator(50).denominator > n
        counts.append(f"{n_more} ({(ARMS | AGENT_LABELS).get(arm, arm)})")
    return (
        f"For at least {figures.listed(counts)} of {len(n_sentences)} questions, the divisor of "
        "the released recall is larger than the number of sentences in the FDA's answer"
    )


def written(data: Data, released: Released) -> list[Answer]:
    """Rows of the released answers, not yet scored."""
    rows = []
    for arm, texts in released.answers.items():
        for question, text in zip(data.test, texts, strict=True):
            n_words = float(len(text.split()))
            row = Answer(task="answers", answer=text, measures={"words": (n_words, 1.0)})
            rows.append(
                make_row(row, question, arm=arm, source="released", run="release", model=ANSWERER)
            )
    return rows


FILE_NOT_FETCHED = (
    "The scores behind this number are published in a file that this run did not fetch."
)


def report(run: Run, outcomes: Outcomes, data: Data, released: Released) -> None:
    """Report every printed number that a released file gives, from rows of `contexts`.

    Those whose file was not fetched have the reason in the place of a value.
    """
    counts = _counts(data, released)
    for number in run.printed.numbers:
        if not number.rescore_from:
            continue
        _, table, *place = number.id.split(".")
        if table == "text":
            value, n, source = counts[place[0]]
            run.rescored(number.id, value, n=n, source=source)
            continue
        if table == "table4":
            mean = released.bertscore[place[0]][place[1]]
            run.rescored(number.id, mean, n=len(data.test), source=BERTSCORE)
            continue
        measure, _, way = place[1].partition("_")
        arm = _released_arm(table, place[0], way)
        if arm in released.ragas:
            score = outcomes.score(measure, arm)
            run.rescored(number.id, score, n=len(data.test), source=number.rescore_from[0])
        else:
            run.not_run(number.id, FILE_NOT_FETCHED, kind="rescored")


def _released_arm(table: str, arm: str, way: str) -> str:
    """The name of a printed arm in the release; the ablation has half as many candidates."""
    if table == "table5" and arm != "qa_rag":
        return f"{arm}_12"
    return f"{arm}_agent" if way == "agent" else arm


def _counts(data: Data, released: Released) -> dict[str, tuple[float, int, str]]:
    """Value, n and source of each number in the text of the paper.

    Of the passages that are kept, the fewest of any ranking count, since the paper says six of all.
    """
    n_test = len(data.test)
    n_pairs = len(data.questions)
    loss = released.ragas["qa_rag"].precision - released.ragas["hypothetical_12"].precision
    n_passages = []
    for rankings in data.released.values():
        n_passages += [len(ids) for ids in rankings.values()]
    lengths = [len(passage.text) for passage in data.corpus.passages]
    return {
        "ablation_loss": (float(loss.mean()), n_test, RAGAS["hypothetical_12"]),
        "pairs": (float(n_pairs), n_pairs, PAIRS),
        "test_share": (n_test / n_pairs, n_pairs, CONTEXTS["qa_rag"]),
        "kept": (float(min(n_passages)), len(n_passages), CONTEXTS["question"]),
        "chunk_size": (float(max(lengths)), len(lengths), CONTEXTS["qa_rag"]),
    }


NOT_FETCHED = "published, not fetched"
"""In the place of a score whose released file the run did not fetch."""


def context_table(printed: Published, table: str, outcomes: Outcomes) -> pd.DataFrame:
    """Tabulate the context scores of one table of the paper, printed and rescored.

    Args:
        printed: The printed numbers.
        table: "table2", "table3" or "table5".
        outcomes: The judged contexts as released.

    Returns:
        A row for each printed number.
    """
    rows = []
    for number in printed.numbers:
        _, place, *name = number.id.split(".")
        if place != table:
            continue
        method = name[0]
        measure, _, order = name[1].partition("_")
        arm = _released_arm(table, method, order)
        score = outcomes.format_score(measure, arm, digits=number.digits)
        row = {"method": ARMS[_released_arm(table, method, "")]}
        if order:
            row["ordered by"] = {"agent": "scoring agent"}.get(order, order)
        row |= {"measure": measure, "printed": number.printed, "rescored": score or NOT_FETCHED}
        rows.append(row)
    return pd.DataFrame(rows)


def bertscore_table(printed: Published, released: Released, outcomes: Outcomes) -> pd.DataFrame:
    """Tabulate Table 4: printed, the authors' mean, and scored here.

    Args:
        printed: The printed numbers.
        released: The authors' means.
        outcomes: The released answers, scored by the encoder of the run.
    """
    rows = []
    for arm, means in released.bertscore.items():
        for measure, mean in means.items():
            row = {
                "method": ARMS[arm],
                "measure": "F1" if measure == "f1" else measure,
                "printed": printed.number(f"qa_rag.table4.{arm}.{measure}").printed,
                "mean in the authors' file": f"{mean:.5f}",
                "scored here": outcomes.format_score(measure, arm, digits=3),
            }
            rows.append(row)
    return pd.DataFrame(rows)


OWN_DOCUMENT_CAPTION = (
    "For each method, whether the authors' rule removes a question's own document from the "
    "searches that the paper describes, and how often one of the six passages comes from this "
    "document. The counts cover the questions whose own document the rule recognises. In the "
    "released code, HyDE also searches by the question, and Multiquery by the fine-tuned model's "
    "answer. The rule removes the document only from searches by question, Multiquery's included"
)


OWN_DOCUMENT_REMOVED = "removed from the searches that the paper describes"
"""Name of the column: the released code gives Multiquery and HyDE further queries."""


def own_document_table(data: Data, printed: Published) -> pd.DataFrame:
    """Tabulate what became of a question's own document, the best methods of Tables 3 and 5 first.

    Does the authors' rule remove it, and how many rankings have it, of the questions whose document
    the rule recognises?
    """
    own = {}
    for question in data.test:
        documents = qa_rag.own_documents(question, data.corpus)
        if documents:
            own[question.id] = documents
    rows = []
    for arm, label in ARMS.items():
        name, ablation, _ = arm.partition("_12")
        table = 5 if ablation else 3
        number = printed.number(f"qa_rag.table{table}.{name}.precision")
        row = {
            "method": label,
            "printed precision": number.printed,
            OWN_DOCUMENT_REMOVED: _removed_in_words(arm),
            "found among the six passages": _found_in_words(data, own, arm),
        }
        rows.append(row)
    return pd.DataFrame(rows).sort_values("printed precision", ascending=False, kind="stable")


def _removed_in_words(arm: str) -> str:
    kinds = {kind for kind, _ in PRINTED[arm].tracks}
    removed = kinds & set(AUTHORS["multiquery_rule"].removed)
    if not removed:
        return "no"
    return "yes" if removed == kinds else "only from the search by question"


def _found_in_words(data: Data, own: Mapping[str, Collection[str]], arm: str) -> str:
    rankings = data.released.get(arm, {})
    if not rankings:
        return "contexts missing"
    n_found = 0
    n_recognised = 0
    for question_id, ids in rankings.items():
        if question_id not in own:
            continue
        titles = {data.corpus.by_id[passage_id].document for passage_id in ids}
        n_recognised += 1
        n_found += not titles.isdisjoint(own[question_id])
    return f"{n_found} of {n_recognised}" if n_recognised else "none recognised"


LARGER = (
    ("question", "question_12"),
    ("hypothetical", "hypothetical_12"),
    ("qa_rag", "question_12"),
    ("qa_rag", "hypothetical_12"),
)
"""Pairs of rankings of which the first was chosen from all that the second was chosen from, and
more (section 3.3)."""


def outranked(data: Data) -> pd.DataFrame:
    """For each pair of `LARGER`, the passages of the smaller pool that the larger one lacks.

    Both were cut to six by the same reranker's relevance. So a passage of the smaller pool that is
    more relevant than the last of the six of the larger pool must be among these six, too.
    """
    documents_in_order = [question.cluster for question in data.test]
    document_of = dict(zip(data.rankings["qa_rag"], documents_in_order, strict=True))
    rows = []
    for larger, smaller in LARGER:
        rankings = data.rankings[smaller]
        n_missing = []
        documents = []
        for question, selected in data.rankings[larger].items():
            n_missing.append(_count_missing(selected, rankings[question]))
            documents.append(document_of[question])
        is_missing = np.array(n_missing) > 0
        row = {
            "larger pool": ARMS[larger],
            "smaller pool": ARMS[smaller],
            "questions with a missing passage": ratio(
                is_missing, np.ones(len(n_missing)), clusters=documents
            ),
            "passages missing": sum(n_missing),
            "of": sum(map(len, rankings.values())),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _count_missing(selected: Sequence[Context], others: Sequence[Context]) -> int:
    """Passages that are more relevant than the last one that is selected, and are not selected."""
    present = {(context.document, context.text) for context in selected}
    last = min(context.relevance for context in selected)
    relevant = [context for context in others if context.relevance > last]
    return sum((context.document, context.text) not in present for context in relevant)


@dataclass(frozen=True)
class SortKey:
    """What the released code sorts merged passages by: the number that a pattern finds, or 0."""

    pattern: re.Pattern[str]

    def __call__(self, text: str) -> float:
        """The key of a passage."""
        match = self.pattern.search(text)
        return float(match[1]) if match else 0.0


def sort_key(code: Code) -> SortKey:
    """Read the pattern of the released code (`model.py`, `extract_relevance_score`).

    Raises:
        NotInCode: The function has no pattern.
    """
    tree = ast.parse(code.path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if getattr(node, "name", "") == _SORT_FUNCTION]
    for node in ast.walk(functions[0]) if functions else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.search":
            return SortKey(re.compile(ast.literal_eval(node.args[0])))
    raise NotInCode(
        f"{code.path} should hold {_SORT_FUNCTION} with a pattern; it does not. Fetch it again."
    )


_SORT_FUNCTION = "extract_relevance_score"

TRACKS = ("hypothetical_12", "question_12")
"""The tracks of QA-RAG as the ablation has them, in the order in which the released code lists
their passages."""

BOTH_TRACKS = "in both tracks"
ANSWER_TRACK = "in the hypothetical answer's track alone"
QUESTION_TRACK = "in the question's track alone"
NO_TRACK = "in neither track"

PassageKey = tuple[str, str]
"""Title and text of a passage."""


def merged(data: Data, code: Code) -> pd.DataFrame:
    """Tabulate which track has the passages of QA-RAG (section 2.4).

    They are ordered by the released merge, by relevance, and as released. The released merge
    (`get_combined_top_contexts_with_ft`) lists six passages of each track without repetition, sorts
    them by `sort_key`, which leaves equals in their order, and selects six. Counts are over all
    questions.
    """
    raw = _raw_contexts(data)
    key = sort_key(code)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    n_read = 0
    n_passages = 0
    for text in raw["qa_rag"]:
        tracks = {arm: _passage_keys(data.rankings[arm][text.strip()]) for arm in TRACKS}
        keys: dict[PassageKey, float] = {}
        relevance: dict[PassageKey, float] = {}
        for arm in TRACKS:
            shown = raw[arm][text]
            track_contexts = data.rankings[arm][text.strip()]
            for passage, context, full in zip(tracks[arm], track_contexts, shown, strict=True):
                keys.setdefault(passage, key(full))
                relevance.setdefault(passage, context.relevance)
        n_read += sum(map(bool, keys.values()))
        n_passages += len(keys)
        orders = {
            "the released merge": sorted(keys, key=keys.__getitem__, reverse=True),
            "a merge by relevance": sorted(keys, key=relevance.__getitem__, reverse=True),
            "the released ranking": _passage_keys(data.rankings["qa_rag"][text.strip()]),
        }
        n_selected = len(raw["qa_rag"][text])
        for name, order in orders.items():
            counts[name].update(_track_of(passage, tracks) for passage in order[:n_selected])
    columns = [BOTH_TRACKS, ANSWER_TRACK, QUESTION_TRACK, NO_TRACK]
    table = pd.DataFrame(list(counts.values()), columns=columns).fillna(0).astype(int)
    table.insert(0, "six passages by", list(counts))
    read = [f"{n_read:,} of {n_passages:,}", f"{n_passages:,} of {n_passages:,}", ""]
    table.insert(1, "relevance scores that the merge reads", read)
    return table


def in_neither_track(tracks: pd.DataFrame) -> str:
    """Say how many released passages are in neither track, from a table of `merged`."""
    ranking = tracks[tracks["six passages by"] == "the released ranking"]
    columns = (BOTH_TRACKS, ANSWER_TRACK, QUESTION_TRACK, NO_TRACK)
    n_in = {column: int(ranking[column].sum()) for column in columns}
    n_passages = sum(n_in.values())
    return (
        f"{n_in[NO_TRACK]} of the {n_passages} passages of the released ranking "
        f"({figures.number(n_in[NO_TRACK] / n_passages)}) are in neither track"
    )


def _raw_contexts(data: Data) -> dict[str, dict[str, list[str]]]:
    """The released rankings as they are written, by arm and text of the question."""
    paths = {file.name: file.path for file in data.files}
    return {
        arm: json.loads(paths[name].read_text(encoding="utf-8")) for arm, name in CONTEXTS.items()
    }


def _passage_keys(ranking: Sequence[Context]) -> list[PassageKey]:
    return [(context.document, context.text) for context in ranking]


def _track_of(passage: PassageKey, tracks: Mapping[str, Collection[PassageKey]]) -> str:
    in_answer, in_question = (passage in tracks[arm] for arm in TRACKS)
    if in_answer and in_question:
        return BOTH_TRACKS
    if in_answer:
        return ANSWER_TRACK
    return QUESTION_TRACK if in_question else NO_TRACK
