"""What the authors of biomedrag.md release of their runs: LLaMA2-13B's answers for GIT, and the documents shown to it.

The answers let the rows "LLaMA2 13B + BiomedRAG" on GIT of Tables 1, 3 and 4 be rescored. The documents show what the
trained scorer retrieved, sentence by sentence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from helpers.datasets import Located, locate
from helpers.results import figures
from helpers.results.metrics import DRAWS, Score, holm, mcnemar, proportion
from helpers.results.record import Run
from helpers.results.verdicts import all_of, better
from papers.biomedrag.corpora import Corpus, CorpusError, Example, Split, Triple
from papers.biomedrag.scoring import (
    MEASURES,
    PARTS,
    Part,
    Scores,
    parse_triples,
    right_triples,
    score_parts,
)

GENERATIONS: Final = "biomedrag/released/generations.json"
CHOICES: Final = {
    "scorer": ("biomedrag/released/scorer_test.json", "trained scorer"),
    "no_diversity": ("biomedrag/released/scorer_test_no_diversity.json", "without diversity"),
    "knn": ("biomedrag/released/prompts_knn.json", "nearest sentence (KNN)"),
}
"""Registry name and label of each file of chosen documents for the GIT test."""

SCRIPTS: Final = "https://github.com/ToneLi/BIoMedRAG/blob/7911231a070e97990637a5aaebbfea8c115008d9"
"""The authors' code, at the commit whose evaluation script notes the scores of two checkpoints."""
CHECKPOINTS: Final = {5000: 0.7883369330453565, 8000: 0.8142548596112312}
"""F1 of triples on the GIT test by step of training, as noted there; the authors' release has the answers of the
second."""

_ANSWER: Final = re.compile(r"### Response:\s*(.*?)\s*(?:\n\s*\n|\Z)", re.DOTALL)
_DOCUMENT: Final = re.compile(r"Context:\s*(.*?)\s*Response:\s*(.*?)\s*(?:\d\. Context:|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Generation:
    """One released answer.

    Attributes:
        example: the sentence with its true triple.
        answer: the model's words up to the first empty line.
        triples: the answer read strictly; None if it is no triple.
        document: the text shown as the example.
        document_label: its relation.
    """

    example: Example
    answer: str
    triples: list[Triple] | None
    document: str
    document_label: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The document that a retriever chose for one sentence.

    Attributes:
        sentence: the input.
        label: its true relation.
        document: the text of the chosen document.
        document_label: the relation that the document shows.
    """

    sentence: str
    label: str
    document: str
    document_label: str

    @property
    def hit(self) -> bool:
        """Whether the document shows the sentence's own relation."""
        return self.document_label == self.label


def read_generations(path: Path) -> list[Generation]:
    """The released answers (`chuck_5_triplet_8000.json`): a sentence, its triple, and prompt and answer as one text.

    Raises:
        CorpusError: a row is not in its format.
    """
    generations = []
    for number, row in enumerate(_lines(path), start=1):
        gold = parse_triples(row.get("ground_truth", ""))
        prompt, _, _ = row.get("predicted", "").partition("### Input:")
        answer = _ANSWER.search(row.get("predicted", ""))
        document = _DOCUMENT.search(prompt)
        if not (gold and answer and document):
            raise CorpusError(f"{path.name}, row {number}: needed a true triple, a document and an answer.")
        example = Example(f"GIT.released.{number}", row["sentence"], gold[0].relation, tuple(gold))
        shown = document[2].split("|")
        generations.append(
            Generation(example, answer[1], parse_triples(answer[1]), document[1], shown[min(1, len(shown) - 1)].strip())
        )
    return generations


def read_choices(path: Path) -> list[Choice]:
    """The document in each released prompt, of a scorer file or of a prompt file.

    Raises:
        CorpusError: a row is not in its format.
    """
    choices = []
    for number, row in enumerate(_lines(path), start=1):
        document = _DOCUMENT.search(row.get("instruction", ""))
        answer = str(row.get("response", "")).split("|")
        if document is None or not row.get("context") or not answer[0]:
            raise CorpusError(
                f"{path.name}, row {number}: needed an instruction with a document, a context, a response."
            )
        shown = document[2].split("|")
        # a prompt for triples shows and asks for head|relation|tail, one for relations the relation alone
        label, document_label = (parts[1 if len(parts) > 1 else 0].strip() for parts in (answer, shown))
        choices.append(Choice(row["context"], label, document[1], document_label))
    return choices


def _lines(path: Path) -> list[dict[str, str]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise CorpusError(f"{path.name}, line {number}: needed JSON ({error}).") from None
    return rows


# ------------------------------------------------------------------------------------------------------- rescoring


def rescore(run: Run, draws: int = DRAWS) -> tuple[list[Generation], dict[Part, Scores]]:
    """The released answers and their scores; every printed cell that they cover is reported as rescored.

    Raises:
        DataUnavailable: the file is not to be had.
        CorpusError: it is not in its format.
    """
    file = locate(GENERATIONS, "real")
    run.data(file)
    generations = read_generations(file.path)
    scores = score_parts([g.example for g in generations], [g.triples for g in generations], draws=draws)
    for measure in MEASURES:
        ids = [f"table1.llama2_br.git_{measure}", f"table4.te_whole.{measure}"]
        for id in ids:
            run.rescored(f"biomedrag.{id}", scores["triple"][measure], source=GENERATIONS)
        for part in PARTS:
            run.rescored(f"biomedrag.table3.llama2_br_git.{part}_{measure}", scores[part][measure], source=GENERATIONS)
    return generations, scores


def rescored_table(run: Run, scores: Mapping[Part, Scores]) -> pd.DataFrame:
    """Table 3's row of GIT as printed and as the released answers give it."""
    return pd.DataFrame(
        [
            {"part": part, "score": measure, "printed": printed.printed, "rescored": scores[part][measure]}
            for part in PARTS
            for measure in MEASURES
            for printed in [run.printed.number(f"biomedrag.table3.llama2_br_git.{part}_{measure}")]
        ]
    )


def report_sizes(run: Run, corpora: Sequence[Corpus]) -> pd.DataFrame:
    """Tables 5 and 6 beside what is counted in the released files; of SAMPLE data nothing is reported.

    Entities are distinct names in all splits, relation types distinct relations, in the DDI corpus without "None".
    """
    rows = []
    for corpus in corpora:
        key, table = _TABLE_OF.get(corpus.name, ("", ""))
        sizes = {part: len(corpus.splits[split]) for part, split in _PARTS_OF.items() if _released(corpus, part)}
        if table == "table5":
            triples = [t for split in corpus.splits.values() for e in split for t in e.triples]
            sizes["entities"] = len({name for t in triples for name in (t.head, t.tail)})
            sizes["relations"] = len({t.relation for t in triples} - {"None"})
        for part, count in sizes.items() if table else ():
            printed = run.printed.number(f"biomedrag.{table}.{key}.{part}")
            if not corpus.sample:
                run.rescored(printed.id, float(count), source=printed.rescore_from[0])
            rows.append(
                {"data": corpus.name, "what": printed.column, "printed": printed.printed, "in the files": count}
            )
        if corpus.name == "UMLS" and not corpus.sample:
            printed = run.printed.number("biomedrag.text.data_sets.umls_triples")
            run.rescored(printed.id, float(sum(map(len, corpus.splits.values()))), source=printed.rescore_from[0])
    return pd.DataFrame(rows)


_PARTS_OF: Final[dict[str, Split]] = {"train": "train", "test": "test", "dev": "validation"}
_TABLE_OF: Final = {
    "ChemProt": ("chemprot", "table5"),
    "DDI": ("ddi", "table5"),
    "GIT": ("git", "table5"),
    "ADE-corpus-v2": ("ade", "table6"),
    "MTSamples": ("mtsamples", "table6"),
    "UMLS": ("umls", "table6"),
    "ADInt": ("adint", "table6"),
}


def _released(corpus: Corpus, part: str) -> bool:
    """Whether a split is counted in a released file, and not one that was made here."""
    return part == "test" or (corpus.name != "MTSamples" and (part, corpus.name) != ("dev", "ADE-corpus-v2"))


# ------------------------------------------------------------------------------------------- what was retrieved


def released_choices(run: Run) -> dict[str, list[Choice]]:
    """The documents chosen for the GIT test, by retriever.

    Raises:
        DataUnavailable: a file is not to be had.
        CorpusError: a file is not in its format, or the files are not of the same sentences.
    """
    files: dict[str, Located] = {name: locate(file, "real") for name, (file, _) in CHOICES.items()}
    for file in files.values():
        run.data(file)
    choices = {name: read_choices(file.path) for name, file in files.items()}
    sentences = {tuple(c.sentence for c in of) for of in choices.values()}
    if len(sentences) != 1:
        raise CorpusError("The files of chosen documents are not of the same sentences in the same order.")
    return choices


def choices_table(choices: Mapping[str, Sequence[Choice]], commonest: Score) -> pd.DataFrame:
    """What each retriever chose: how many documents at all, and how often one of the sentence's own relation.

    Args:
        choices: of `released_choices`.
        commonest: the share of test sentences whose relation is the commonest of training: what one document that is
            always shown would reach.
    """
    rows = []
    for name, of in choices.items():
        counted = Counter(c.document for c in of)
        rows.append(
            {
                "retriever": CHOICES[name][1],
                "sentences": len(of),
                "documents chosen": len(counted),
                "the one chosen most": proportion(counted.most_common(1)[0][1], len(of)),
                "shows the sentence's relation": proportion(sum(c.hit for c in of), len(of)),
            }
        )
    rows.append(
        {
            "retriever": "always one of the commonest relation",
            "sentences": commonest.n,
            "documents chosen": 1,
            "the one chosen most": proportion(commonest.n, commonest.n),
            "shows the sentence's relation": commonest,
        }
    )
    return pd.DataFrame(rows)


def choices_words(choices: Mapping[str, Sequence[Choice]]) -> str:
    """What the trained scorer chose, in a sentence of Markdown with an example."""
    of = choices["scorer"]
    counted = Counter(c.document for c in of)
    document, times = counted.most_common(1)[0]
    return (
        f"For {len(of)} test sentences the released files of the trained scorer show {len(counted)} documents. "
        f"One of them, *{document}*, stands in {times} prompts. In {sum(c.hit for c in of)} prompts the document shows "
        f"the relation that the sentence has. The released file of KNN, which no scorer made, shows "
        f"{len({c.document for c in choices['knn']})} documents. So few documents are no sign of how a scorer was "
        "trained."
    )


def checkpoint_words(run: Run) -> str:
    """A lead in Markdown: the printed F1 on GIT may be that of the better of two checkpoints, chosen on the test."""
    (other, less), (best, most) = CHECKPOINTS.items()
    whole, without = (run.printed.number(f"biomedrag.table4.te_{row}.f1") for row in ("whole", "without_scorer"))
    return (
        f"**A lead.** A remark in the authors' [evaluation script]({SCRIPTS}/4_generation_triple_model/"
        f"0_F1_triplet_evalution.py) notes F1 on the test rows for two checkpoints, {less:.4f} at step {other:,} and "
        f"{most:.4f} at step {best:,}; the second is the printed {whole.printed}. The training script gives the test "
        "file as its evaluation data. So the printed score may be the better of two, chosen on the rows that it is "
        f"measured on. They lie {100 * (most - less):.1f} points apart; taking the scorer away costs "
        f"{100 * (whole.value - without.value):.1f} in Table 4."
    )


def decide_scorer_claim(run: Run, choices: Mapping[str, Sequence[Choice]], commonest: str) -> None:
    """Whether the released documents of the trained scorer fit their sentences better than what is not trained.

    Args:
        run: takes the claim.
        choices: of `released_choices`.
        commonest: relation of training.
    """
    of = choices["scorer"]
    hits = [c.hit for c in of]
    others = {"KNN": [c.hit for c in choices["knn"]], f"always {commonest}": [c.label == commonest for c in of]}
    # each sentence stands once in the released files
    tests = [mcnemar(hits, other) for other in others.values()]
    adjusted = holm([test.p for test in tests])
    documents = {name: len({c.document for c in choices[name]}) for name in ("scorer", "knn")}
    run.claim(
        "biomedrag.claim.scorer_fits_the_sentence",
        all_of(better(test, p) for test, p in zip(tests, adjusted, strict=True)),
        f"The document of the trained scorer shows the sentence's relation in {sum(hits)} of {len(hits)} released "
        "prompts; "
        + "; ".join(
            f"{name} has it in {sum(other)} (difference {figures.points(test)} points, {figures.p_words(p)})"
            for (name, other), test, p in zip(others.items(), tests, adjusted, strict=True)
        )
        + f". The scorer's prompts hold {documents['scorer']} documents, those of KNN {documents['knn']}.",
        p=max(adjusted),
    )


def answers_by_document(generations: Sequence[Generation]) -> pd.DataFrame:
    """How often the released answer is right, where the document shows the right relation and where it does not."""
    rows = []
    for words, hit in (("the sentence's relation", True), ("another relation", False)):
        of = [g for g in generations if (g.document_label == g.example.label) is hit]
        if of:
            right = sum(right_triples([g.example for g in of], [g.triples for g in of]))
            rows.append({"the document shows": words, "sentences": len(of), "answer right": proportion(right, len(of))})
    return pd.DataFrame(rows)
