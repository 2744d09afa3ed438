"""What the authors of biomedrag.md release of their runs: LLaMA2-13B's answers for GIT, and the documents shown to it.

The answers let the rows "LLaMA2 13B + BiomedRAG" on GIT of Tables 1, 3 and 4 be rescored. The documents show what the
trained scorer retrieved, sentence by sentence.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from evaluation import figures
from evaluation.answers import Answer, make_row
from evaluation.metrics import Floats, Score, bootstrap
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import KEYS, Corpus, CorpusError, Example, json_lines
from papers.biomedrag.scoring import parse_triples
from papers.biomedrag.study import row_of, units
from resources.datasets import locate, locate_available

GENERATIONS: Final = "biomedrag/released/generations.json"
EARLIER: Final = "biomedrag/released/generations_5000.json"
LABELS: Final = {
    "lora_rag": "LLaMA2 13B with BiomedRAG, step 8,000",
    "earlier": "The same, step 5,000",
}
CHOICES: Final = {
    "scorer": ("biomedrag/released/scorer_test.json", "trained scorer, m = 5"),
    "no_diversity": ("biomedrag/released/scorer_test_no_diversity.json", "without diversity"),
    "words_3": ("biomedrag/released/prompts_3.json", "prompts for m = 3"),
    "ablation": ("biomedrag/released/prompts_ablation.json", "prompts of an unnamed ablation"),
    "knn": ("biomedrag/released/prompts_knn.json", "nearest sentence (KNN)"),
}
"""Registry name and label of each file of chosen documents for the GIT test."""

_ANSWER: Final = re.compile(r"### Response:\s*(.*?)\s*(?:\n\s*\n|\Z)", re.DOTALL)
_DOCUMENT: Final = re.compile(
    r"Context:\s*(.*?)\s*Response:\s*(.*?)\s*(?:\d\. Context:|\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The document that a retriever chose for a sentence, the relation that it shows, and that of the sentence."""

    sentence: str
    label: str
    document: str
    document_label: str

    @property
    def hit(self) -> bool:
        """Whether the document shows the sentence's own relation."""
        return self.document_label == self.label


def read_generations(path: Path) -> list[tuple[Example, Prediction]]:
    """The released answers (`chuck_5_triplet_8000.json`): a sentence with its triple, and the reply to a blank line.

    Raises CorpusError: a row is not in its format.
    """
    generations = []
    for number, row in enumerate(json_lines(path), start=1):
        gold = parse_triples(row.get("ground_truth", ""))
        answer = _ANSWER.search(row.get("predicted", ""))
        if not (gold and answer):
            raise CorpusError(f"{path.name}, row {number}: needed a true triple and an answer.")
        example = Example(f"GIT.released.{number}", row["sentence"], gold[0].relation, tuple(gold))
        generations.append(
            (example, Prediction(None, tuple(parse_triples(answer[1])), reply=answer[1]))
        )
    return generations


def read_choices(path: Path) -> list[Choice]:
    """The document in each released prompt, of a scorer file or of a prompt file.

    Raises CorpusError: a row is not in its format.
    """
    choices = []
    for number, row in enumerate(json_lines(path), start=1):
        document = _DOCUMENT.search(row.get("instruction", ""))
        answer = str(row.get("response", "")).split("|")
        if document is None or not row.get("context") or not answer[0]:
            raise CorpusError(
                f"{path.name}, row {number}: needed an instruction with a document, a context, a response."
            )
        shown = document[2].split("|")
        # a prompt for triples shows and asks for head|relation|tail, one for relations the relation alone
        label, document_label = (
            parts[1 if len(parts) > 1 else 0].strip() for parts in (answer, shown)
        )
        choices.append(Choice(row["context"], label, document[1], document_label))
    return choices


def rescored(run: Run, corpus: Corpus) -> list[Answer]:
    """The released answers for GIT as rows of the table of answers, and those of an earlier checkpoint if at hand.

    Raises DataUnavailable: the file is not to be had; CorpusError: it is not in its format.
    """
    files = {GENERATIONS: locate(GENERATIONS, "real")} | locate_available([EARLIER])
    run.data(*files.values())
    common = {"source": "released", "run": "released", "model": "LLaMA2 13B"}
    rows = []
    for name, file in files.items():
        arm = "lora_rag" if name == GENERATIONS else "earlier"
        generations = read_generations(file.path)
        of = units(corpus, [example for example, _ in generations])
        told = zip(of, generations, strict=True)
        rows += [
            make_row(row_of(corpus, unit.example, p), unit, arm=arm, **common)
            for unit, (_, p) in told
        ]
    return rows


def report_rescored(run: Run, out: Outcomes) -> figures.Html:
    """Report every printed cell that the released answers cover; Tables 1, 3 and 4, printed and rescored."""
    rows = []
    for number in run.printed.numbers:
        if GENERATIONS in number.rescore_from:
            score = out.score(number.id.rpartition(".")[2].removeprefix("git_"), "lora_rag")
            run.rescored(number.id, score, source=GENERATIONS)
            rows.append(
                {
                    "where": number.table,
                    "score": number.column,
                    "printed": number.printed,
                    "rescored": score,
                }
            )
    return figures.table(pd.DataFrame(rows), "GIT: printed and rescored")


def report_sizes(run: Run, corpora: Sequence[Corpus]) -> pd.DataFrame:
    """Tables 5 and 6 beside what is counted in the released files; of SAMPLE data nothing is reported.

    Entities are distinct names in all splits, relation types distinct relations, in the DDI corpus without "None".
    """
    rows = []
    for corpus in corpora:
        triples = [t for split in corpus.splits.values() for e in split for t in e.triples]
        counted = {
            "train": len(corpus.train),
            "test": len(corpus.test),
            "dev": len(corpus.validation),
            "entities": len({name for t in triples for name in (t.head, t.tail)}),
            "relations": len({t.relation for t in triples} - {"None"}),
            "umls_triples": sum(map(len, corpus.splits.values())),
        }
        read = {file.name for file in corpus.files}
        place = f"biomedrag.table{5 if corpus.task == 'triples' else 6}.{KEYS[corpus.name]}."
        places = (place, "biomedrag.text.data_sets.umls") if corpus.name == "UMLS" else (place,)
        mine = [
            n
            for n in run.printed.numbers
            if n.id.startswith(places) and read.intersection(n.rescore_from)
        ]
        numbers = {n.id.rpartition(".")[2]: n for n in mine}
        for what, count in counted.items():
            if number := numbers.get(what):
                if not corpus.sample:
                    run.rescored(number.id, float(count), source=number.rescore_from[0])
                told = {"what": number.column, "printed": number.printed, "in the files": count}
                rows.append({"data": corpus.name, **told})
    return pd.DataFrame(rows)


def released_choices(run: Run) -> dict[str, list[Choice]]:
    """The documents chosen for the GIT test, by retriever.

    Raises DataUnavailable: a file is not to be had; CorpusError: it has another format or other sentences.
    """
    files = {name: locate(file, "real") for name, (file, _) in CHOICES.items()}
    run.data(*files.values())
    choices = {name: read_choices(file.path) for name, file in files.items()}
    if len({tuple(c.sentence for c in of) for of in choices.values()}) != 1:
        raise CorpusError(
            "The files of chosen documents are not of the same sentences in the same order."
        )
    return choices


def by_chance(of: Sequence[Choice]) -> float:
    """How many documents would show the relation of their sentence if they were shuffled over the sentences."""
    sentences, documents = Counter(c.label for c in of), Counter(c.document_label for c in of)
    return sum(n * documents[label] for label, n in sentences.items()) / len(of)


def agreement(of: Sequence[Choice], draws: int) -> Score:
    """Cohen's kappa of the relations of documents and of their sentences; 0 is chance."""
    sentences, documents = (
        np.array([getattr(c, name) for c in of]) for name in ("label", "document_label")
    )

    def kappa(rows: Floats) -> float:
        at = rows.astype(int)
        return float(cohen_kappa_score(sentences[at], documents[at]))

    return bootstrap(np.arange(len(of)), kappa, draws=draws)


def choices_shown(choices: Mapping[str, Sequence[Choice]], draws: int) -> figures.Picture:
    """How often each retriever's document shows the sentence's own relation, a dot for each, and by chance in words."""
    rows = [
        Answer(
            arm,
            str(i),
            source="released",
            measures={"shows_relation": (float(choice.hit), 1.0)},
            cluster=str(i),
        )
        for arm, of in choices.items()
        for i, choice in enumerate(of)
    ]
    counts = ", ".join(
        f"{CHOICES[arm][1]}: {sum(c.hit for c in of)} of {len(of)} ({by_chance(of):.0f} by chance; "
        f"{len({c.document for c in of})} different documents)"
        for arm, of in choices.items()
    )
    caption = f"Documents chosen for GIT, as released, that show the relation of their sentence: {counts}."
    out = Outcomes(rows, labels={arm: label for arm, (_, label) in CHOICES.items()}, draws=draws)
    return out.interval_plot(["shows_relation"], caption)
