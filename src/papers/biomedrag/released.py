"""What the authors of biomedrag.md release of their runs: LLaMA2-13B's answers for GIT, and the documents shown to it.

The answers let the rows "LLaMA2 13B + BiomedRAG" on GIT of Tables 1, 3 and 4 be rescored. The documents show what the
trained scorer retrieved, sentence by sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from helpers.datasets import Located, locate
from helpers.results import figures
from helpers.results.answers import Answer, answered
from helpers.results.metrics import Score
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import Corpus, CorpusError, Example, Split, Triple
from papers.biomedrag.scoring import parse_triples
from papers.biomedrag.study import row_of, units

GENERATIONS: Final = "biomedrag/released/generations.json"
CHOICES: Final = {
    "scorer": ("biomedrag/released/scorer_test.json", "trained scorer, m = 5"),
    "no_diversity": ("biomedrag/released/scorer_test_no_diversity.json", "without diversity"),
    "words_3": ("biomedrag/released/prompts_3.json", "prompts for m = 3"),
    "ablation": ("biomedrag/released/prompts_ablation.json", "prompts of an unnamed ablation"),
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


def generations(run: Run) -> list[Generation]:
    """The released answers.

    Raises:
        DataUnavailable: the file is not to be had.
        CorpusError: it is not in its format.
    """
    file = locate(GENERATIONS, "real")
    run.data(file)
    return read_generations(file.path)


def rescored(corpus: Corpus, generations: Sequence[Generation]) -> list[Answer]:
    """The released answers as rows of the table of answers."""
    asked = units(corpus, [g.example for g in generations])
    said = [Prediction(None, tuple(g.triples or ()), reply=g.answer) for g in generations]
    return [
        answered(
            row_of(corpus, unit.example, p), unit, arm="lora_rag", source="released", run="released", model="LLaMA2 13B"
        )
        for unit, p in zip(asked, said, strict=True)
    ]


def report_rescored(run: Run, out: Outcomes) -> figures.Html:
    """Report every printed cell that the released answers cover; Tables 1, 3 and 4, printed and rescored."""
    rows = []
    for number in run.printed.numbers:
        if GENERATIONS in number.rescore_from:
            score = out.where(source="released").score(number.id.rpartition(".")[2].removeprefix("git_"))
            run.rescored(number.id, score, source=GENERATIONS)
            rows.append({"where": number.table, "score": number.column, "printed": number.printed, "rescored": score})
    return figures.table(pd.DataFrame(rows), "GIT: printed and rescored")


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


def choices_shown(choices: Mapping[str, Sequence[Choice]], commonest: Score, draws: int) -> figures.Picture:
    """How often each retriever's document shows the sentence's own relation, a dot for each.

    Args:
        choices: of `released_choices`.
        commonest: the share of test sentences whose relation is the commonest of training: what one document that is
            always shown would reach.
        draws: of the bootstrap.
    """
    rows = [
        Answer(arm, str(i), source="released", measures={"shows_relation": (float(choice.hit), 1.0)}, cluster=str(i))
        for arm, of in choices.items()
        for i, choice in enumerate(of)
    ]
    counts = ", ".join(
        f"{CHOICES[arm][1]} {sum(c.hit for c in of)} of {len(of)} ({len({c.document for c in of})} documents)"
        for arm, of in choices.items()
    )
    caption = f"Documents chosen for GIT, as released, that show the relation of their sentence: {counts}. Dotted: one "
    out = Outcomes(rows, labels={arm: label for arm, (_, label) in CHOICES.items()}, draws=draws)
    return out.dots(["shows_relation"], caption + "document of the commonest relation.", chance=commonest.value)


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
