"""What the authors released of their results, question by question, with the tests that the paper lacks.

Read are the RAGAS scores of each test question for four rankings, the final answers of five arms, and the mean
BERTScore of each arm. BERTScore per question is computed again from the answers.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import gt
from pathlib import Path

import numpy as np
import pandas as pd

from evaluation.answers import Answer, Item, make_row
from evaluation.metrics import proportion
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from papers.qa_rag import data as qa_rag
from papers.qa_rag.answers import PAPER_ENCODER
from papers.qa_rag.data import CONTEXTS, PAIRS, Data, QaRagDataError, words
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
    "hypothetical_12": "Only hypothetical answer, 12",
    "question_12": "Only question, 12",
}
"""Arms of Tables 3 to 5; the last two are those of the ablation, with half as many candidates."""
RAGAS = {arm: f"qa_rag/ragas/{arm}.csv" for arm in ("qa_rag", "question", "hypothetical")} | {
    "hypothetical_12": "qa_rag/ragas/ablation_hypothetical.csv"
}
MORE = {arm: f"qa_rag/ragas/{arm}.csv" for arm in ("multiquery", "hyde")} | {
    "question_12": "qa_rag/ragas/ablation_question.csv",
    **{f"{arm}_agent": f"qa_rag/ragas/agent/{arm}.csv" for arm in list(ARMS)[:5]},
}
"""Further scores, of which no copy was at hand for the reference: read if a source gives them, those of Table 2 too."""
ANSWERS = {
    arm: f"qa_rag/answers/{arm}.json"
    for arm in ("qa_rag", "multiquery", "hyde", "question", "hypothetical")
}
NOTEBOOK = "qa_rag/answer_evaluation.ipynb"
WHOLE = 0.95
"""Share of an answer's word sequences from which on a passage holds all of it, but for what OCR may have garbled."""
JUDGE, ANSWERER = "an unnamed judge", "gpt-3.5-turbo"  # as the printed numbers name them


@dataclass(frozen=True)
class Released:
    """The released results by arm, in the order of `Data.test`.

    `ragas` has columns precision and recall of the contexts, as the authors computed them.
    """

    ragas: Mapping[str, pd.DataFrame]
    answers: Mapping[str, Sequence[str]]
    files: Sequence[Located]


def load(data: Data) -> Released:
    """Every released result, checked against the test questions. There is no sample of them.

    Raises resources.datasets.DataUnavailable: no source gives a file; QaRagDataError: a file is not of these questions.
    """
    files = datasets.locate_all([*RAGAS.values(), *ANSWERS.values(), NOTEBOOK], "real")
    if PAPER_ENCODER not in files[NOTEBOOK].path.read_text(encoding="utf-8"):
        raise QaRagDataError(
            f"{files[NOTEBOOK].path} should name {PAPER_ENCODER} as the encoder of BERTScore."
        )
    asked = [question.text for question in data.test]
    files |= datasets.locate_available(MORE.values())
    return Released(
        ragas={
            arm: read_ragas(files[name].path, asked)
            for arm, name in (RAGAS | MORE).items()
            if name in files
        },
        answers={
            arm: json.loads(files[name].path.read_text(encoding="utf-8"))
            for arm, name in ANSWERS.items()
        },
        files=tuple(files.values()),
    )


def read_ragas(path: Path, asked: Sequence[str]) -> pd.DataFrame:
    """Context precision and recall of each question, as RAGAS wrote them.

    Raises QaRagDataError: a column or a score is missing, or the questions are not those asked, in that order.
    """
    table = pd.read_csv(
        path, usecols=lambda name: name in ("question", "context_precision", "context_recall")
    )
    if table.shape[1] != 3 or table.isna().any(axis=None):
        raise QaRagDataError(
            f"{path} should have question, context_precision and context_recall in every row."
        )
    # some titles are spelled in other characters than in the file of pairs, so the end of the question decides
    same = [words(a)[-60:] == words(b)[-60:] for a, b in zip(table.question, asked, strict=False)]
    if len(table) != len(asked) or not all(same):
        raise QaRagDataError(
            f"{path} should hold the {len(asked)} test questions in order; it has {len(table)} rows."
        )
    return table.rename(columns={"context_precision": "precision", "context_recall": "recall"})[
        ["precision", "recall"]
    ]


def contexts(data: Data, released: Released) -> list[Answer]:
    """Rows of the judged contexts, with the authors' context precision and recall.

    The stratum `holds` is what the six passages hold of the FDA's answer, where it has eight words or more.
    """
    there = {
        question.id: qa_rag.answer_passages(question, data.corpus, 0.0) for question in data.test
    }
    rows = []
    for arm, table in released.ragas.items():
        for question, precision, recall in zip(
            data.test, table.precision, table.recall, strict=True
        ):
            ids = data.released.get(arm, {}).get(question.id, ())  # contexts of `MORE` are not read
            strata = {}
            if ids and (shares := there[question.id]):
                most = max(shares[id] for id in ids)
                strata["holds"] = (
                    "the whole answer" if most >= WHOLE else "a part" if most else "nothing"
                )
            row = Answer(
                task="contexts",
                strata=strata,
                items=[
                    Item(id, data.corpus.of_id[id].document, rank=rank)
                    for rank, id in enumerate(ids, start=1)
                ],
                measures={"precision": (float(precision), 1.0), "recall": (float(recall), 1.0)},
            )
            rows.append(
                make_row(row, question, arm=arm, source="released", run="release", model=JUDGE)
            )
    return rows


def more_parts_than_sentences(data: Data, released: Released) -> str:
    """For how many questions the denominator of the context recall exceeds the sentences of the FDA's answer, by arm.

    The denominators are those of the scores in lowest terms, so the counts are lower bounds.
    """
    sentences = [len(re.split(r"(?<=[.!?])\s+", question.answer.strip())) for question in data.test]
    counts = []
    for arm, table in released.ragas.items():
        parts = [Fraction(recall).limit_denominator(50).denominator for recall in table.recall]
        counts.append(f"{ARMS.get(arm, arm)} {sum(map(gt, parts, sentences))}")
    return f"{'; '.join(counts)} of {len(sentences)}"


def written(data: Data, released: Released) -> list[Answer]:
    """Rows of the released answers, not yet scored."""
    rows = []
    for arm, texts in released.answers.items():
        for question, text in zip(data.test, texts, strict=True):
            row = Answer(
                task="answers", answer=text, measures={"words": (float(len(text.split())), 1.0)}
            )
            rows.append(
                make_row(row, question, arm=arm, source="released", run="release", model=ANSWERER)
            )
    return rows


def report(run: Run, outcomes: Outcomes, data: Data, released: Released) -> None:
    """Report every printed number that a released file gives, from rows of `contexts`."""
    tests, pairs = len(data.test), len(data.questions)
    stated = int(run.printed.number("qa_rag.text.pairs").value)
    lost = released.ragas["qa_rag"].precision - released.ragas["hypothetical_12"].precision
    counts = {
        "ablation_loss": (float(lost.mean()), tests, RAGAS["hypothetical_12"]),
        "pairs": (float(pairs), pairs, PAIRS),
        "test_share": (tests / stated, stated, CONTEXTS["qa_rag"]),
        "kept": (
            float(np.mean([len(of) for of in data.released["qa_rag"].values()])),
            tests,
            CONTEXTS["qa_rag"],
        ),
    }
    for number in run.printed.numbers:
        _, table, *place = number.id.split(".")
        if not number.rescore_from:
            continue
        if table == "text":
            value, n, source = counts[place[0]]
            run.rescored(number.id, value, n=n, source=source)
        else:
            measure, _, way = place[1].partition("_")
            arm = place[0] + (
                "_12" if table == "table5" and place[0] != "qa_rag" else "_agent" * (way == "agent")
            )
            if arm in released.ragas:
                run.rescored(
                    number.id, outcomes.score(measure, arm), n=tests, source=number.rescore_from[0]
                )


OWN_KEPT = (
    "The question's own document: whether the authors' rule removes it, and how often it is among the six passages, "
    "of the questions whose document the rule recognises"
)


def own_kept(data: Data, printed: Published) -> pd.DataFrame:
    """The methods of Tables 3 and 5, the best first: does the authors' rule remove a question's own document, and how
    many rankings kept it, of the questions whose document the rule recognises?
    """
    found = {question.id: qa_rag.own_documents(question, data.corpus) for question in data.test}
    own = {id: documents for id, documents in found.items() if documents}
    rows = []
    for arm, label in ARMS.items():
        name, small, _ = arm.partition("_12")
        number = printed.number(f"qa_rag.table{5 if small else 3}.{name}.precision")
        removed = {kind in AUTHORS["multiquery_rule"].removed for kind, _ in PRINTED[arm].tracks}
        six = {
            id: {data.corpus.of_id[p].document for p in of}
            for id, of in data.released.get(arm, {}).items()
        }
        held = [bool(own[id] & of) for id, of in six.items() if id in own]
        among = (
            f"{sum(held)} of {len(held)}"
            if held
            else "none recognised"
            if six
            else "contexts missing"
        )
        told = "for the question alone" if len(removed) == 2 else "yes" if True in removed else "no"
        row = {"method": label, "printed precision": number.printed, "own document removed": told}
        rows.append(row | {"found among the six": among})
    return pd.DataFrame(rows).sort_values("printed precision", ascending=False, kind="stable")


LARGER = (
    ("question", "question_12"),
    ("hypothetical", "hypothetical_12"),
    ("qa_rag", "question_12"),
    ("qa_rag", "hypothetical_12"),
)
"""Pairs of rankings of which the first was chosen from all that the second was chosen from, and more (section 3.3)."""


def outranked(data: Data) -> pd.DataFrame:
    """For each pair of `LARGER`, the passages that the smaller pool kept and the larger one should have kept too.

    Both were cut to six by the same reranker's relevance. So a passage of the smaller pool that is more relevant than
    the last one that the larger pool kept must be among these six, too.
    """
    rows = []
    for larger, smaller in LARGER:
        missing = []
        for question, kept in data.rankings[larger].items():
            there = {(context.document, context.text) for context in kept}
            last = min(context.relevance for context in kept)
            missing.append(
                sum(
                    c.relevance > last and (c.document, c.text) not in there
                    for c in data.rankings[smaller][question]
                )
            )
        share = proportion(sum(map(bool, missing)), len(missing))
        rows.append(
            (
                ARMS[larger],
                ARMS[smaller],
                share,
                sum(missing),
                sum(map(len, data.rankings[smaller].values())),
            )
        )
    return pd.DataFrame(
        rows,
        columns=[
            "larger pool",
            "smaller pool",
            "questions with a missing passage",
            "passages missing",
            "of",
        ],
    )


def sort_key(code: Code) -> Callable[[str], float]:
    """What the released code sorts merged passages by (`model.py`, `extract_relevance_score`): a number, or else 0.

    Raises NotInCode: the function has no pattern.
    """
    tree = ast.parse(code.path.read_text(encoding="utf-8"))
    function = next(
        (n for n in ast.walk(tree) if getattr(n, "name", "") == "extract_relevance_score"),
        ast.Pass(),
    )
    patterns = [
        n.args[0]
        for n in ast.walk(function)
        if isinstance(n, ast.Call) and ast.unparse(n.func) == "re.search"
    ]
    if not patterns:
        raise NotInCode(
            f"{code.path} should hold extract_relevance_score with a pattern; it does not. Fetch it again."
        )
    pattern = re.compile(ast.literal_eval(patterns[0]))

    def key(text: str) -> float:
        found = pattern.search(text)
        return float(found[1]) if found else 0.0

    return key


TRACKS = ("hypothetical_12", "question_12")
"""The tracks of QA-RAG as the ablation has them, in the order in which the released code lists their passages."""
WHERE = {
    (True, True): "in both tracks",
    (True, False): "in the hypothetical answer's alone",
    (False, True): "in the question's alone",
    (False, False): "in neither",
}


def merged(data: Data, code: Code) -> pd.DataFrame:
    """Which track has the passages of QA-RAG: by the released merge, by relevance, and as released (section 2.4).

    The released merge (`get_combined_top_contexts_with_ft`) lists six passages of each track without repetition, sorts
    them by `sort_key`, which leaves equals in their order, and keeps six. Counts are over all questions.
    """
    located = {file.name: file.path for file in data.files}
    raw = {
        arm: json.loads(located[name].read_text(encoding="utf-8")) for arm, name in CONTEXTS.items()
    }
    key, rows, read, total = sort_key(code), [], 0, 0
    for question, shown in raw["qa_rag"].items():
        of = {arm: data.rankings[arm][question.strip()] for arm in ("qa_rag", *TRACKS)}
        six = {
            arm: [(context.document, context.text) for context in contexts]
            for arm, contexts in of.items()
        }
        keys: dict[tuple[str, str], float] = {}
        relevance: dict[tuple[str, str], float] = {}
        for arm in TRACKS:
            for passage, context, text in zip(six[arm], of[arm], raw[arm][question], strict=True):
                keys.setdefault(passage, key(text))
                relevance.setdefault(passage, context.relevance)
        read, total = read + sum(map(bool, keys.values())), total + len(keys)
        orders = {
            "the released merge": sorted(keys, key=keys.__getitem__, reverse=True),
            "a merge by relevance": sorted(keys, key=relevance.__getitem__, reverse=True),
            "the released ranking": six["qa_rag"],
        }
        for name, order in orders.items():
            rows += [
                (name, *(passage in six[arm] for arm in TRACKS)) for passage in order[: len(shown)]
            ]
    counts = pd.DataFrame(
        [{where: rows.count((name, *both)) for both, where in WHERE.items()} for name in orders]
    )
    counts.insert(0, "six passages by", list(orders))
    counts.insert(
        1, "relevances that it reads", [f"{read:,} of {total:,}", f"{total:,} of {total:,}", ""]
    )
    return counts
