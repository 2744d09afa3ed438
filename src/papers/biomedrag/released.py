"""What the authors of biomedrag.md release of their runs.

That is LLaMA2-13B's answers for GIT, and the documents in its prompts. The answers let the rows
"LLaMA2 13B + BiomedRAG" on GIT of Tables 1, 3 and 4 be rescored. The documents show what the
trained scorer retrieved, sentence by sentence.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from evaluation import figures
from evaluation.answers import Answer, make_row
from evaluation.metrics import Floats, Score, bootstrap, proportion
from evaluation.outcomes import Outcomes
from evaluation.published import Number
from evaluation.record import Run
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import KEYS, Corpus, CorpusError, Example, json_lines
from papers.biomedrag.scoring import parse_triples, same_text
from papers.biomedrag.study import to_answer, units
from resources.datasets import locate, locate_available

GENERATIONS: Final = "biomedrag/released/generations.json"
N_COMMONEST: Final = 2
"""Documents that `commonest_share` counts."""
EARLIER: Final = "biomedrag/released/generations_5000.json"
LABELS: Final = {
    "lora_rag": "LLaMA2 13B with BiomedRAG (step 8,000)",
    "earlier": "LLaMA2 13B with BiomedRAG (step 5,000)",
}
CHOICES: Final = {
    "scorer": ("biomedrag/released/scorer_test.json", "scorer, m = 5"),
    "no_diversity": ("biomedrag/released/scorer_test_no_diversity.json", "without diversity"),
    "words_3": ("biomedrag/released/prompts_3.json", "prompts for m = 3"),
    "ablation": ("biomedrag/released/prompts_ablation.json", "prompts of an unnamed ablation"),
    "knn": ("biomedrag/released/prompts_knn.json", "nearest sentence (KNN)"),
}
"""Registry name and label of each file of chosen documents for the GIT test."""

_ANSWER: Final = re.compile(r"### Response:\s*(.*?)\s*(?:\n\s*\n|\Z)", re.DOTALL)
_INSTRUCTION: Final = re.compile(r"### Instruction:(.*?)### Input:", re.DOTALL)
_DOCUMENT: Final = re.compile(
    r"Context:\s*(.*?)\s*Response:\s*(.*?)\s*(?:\d\. Context:|\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The document that a retriever chose for a sentence.

    Attributes:
        sentence: The sentence.
        label: Relation of the sentence.
        document: The document.
        document_label: Relation that the document shows.
    """

    sentence: str
    label: str
    document: str
    document_label: str

    @property
    def hit(self) -> bool:
        """Whether the document shows the sentence's own relation."""
        return self.document_label == self.label


def read_generations(path: Path) -> list[tuple[Example, Prediction]]:
    """Read released answers (`chuck_5_triplet_8000.json`).

    Returns:
        Each sentence with its triple, and the reply up to its first empty line.

    Raises:
        CorpusError: A row is not in its format.
    """
    generations = []
    for number, row in enumerate(json_lines(path), start=1):
        gold = parse_triples(row.get("ground_truth", ""))
        answer = _ANSWER.search(row.get("predicted", ""))
        if not (gold and answer):
            raise CorpusError(f"{path.name}, row {number}: needed a true triple and an answer.")
        example = Example(f"GIT.released.{number}", row["sentence"], gold[0].relation, tuple(gold))
        reply = answer[1]
        prediction = Prediction(None, tuple(parse_triples(reply)), reply=reply)
        generations.append((example, prediction))
    return generations


def read_choices(path: Path) -> list[Choice]:
    """Read the document in each released prompt, of a scorer file or of a prompt file.

    Raises:
        CorpusError: A row is not in its format.
    """
    choices = []
    for number, row in enumerate(json_lines(path), start=1):
        document = _DOCUMENT.search(row.get("instruction", ""))
        response = str(row.get("response", ""))
        has_response = bool(response.partition("|")[0])
        if document is None or not row.get("context") or not has_response:
            raise CorpusError(
                f"{path.name}, row {number}: needed an instruction with a document, a context, a "
                "response."
            )
        label, document_label = _relation(response), _relation(document[2])
        choices.append(Choice(row["context"], label, document[1], document_label))
    return choices


def _relation(answer: str) -> str:
    """Return the relation of head|relation|tail, or of the relation alone.

    A prompt for triples shows and asks for the former, one for relations for the latter.
    """
    parts = answer.split("|")
    return parts[1 if len(parts) > 1 else 0].strip()


def rescored(run: Run, corpus: Corpus) -> list[Answer]:
    """Make rows of the table of answers of the released answers for GIT.

    Those of an earlier checkpoint are added if a source has them.

    Raises:
        DataUnavailable: No source has the file.
        CorpusError: It is not in its format.
    """
    files = {GENERATIONS: locate(GENERATIONS, "real")} | locate_available([EARLIER])
    run.data(*files.values())
    common = {"source": "released", "run": "released", "model": "LLaMA2 13B"}
    rows = []
    for name, file in files.items():
        arm = "lora_rag" if name == GENERATIONS else "earlier"
        generations = read_generations(file.path)
        example_units = units(corpus, [example for example, _ in generations])
        for unit, (example, prediction) in zip(example_units, generations, strict=True):
            answer = to_answer(corpus, example, prediction)
            rows.append(make_row(answer, unit, arm=arm, **common))
    return rows


def report_rescored(run: Run, out: Outcomes) -> figures.Html:
    """Report every printed cell that the released answers cover, and show both scores.

    These are cells of Tables 1, 3 and 4.
    """
    rows = []
    for number in run.printed.numbers:
        if GENERATIONS not in number.rescore_from:
            continue
        column = number.id.rpartition(".")[2]
        score = out.score(column.removeprefix("git_"), "lora_rag")
        run.rescored(number.id, score, source=GENERATIONS)
        row = {
            "where": number.table,
            "score": number.column,
            "printed": number.printed,
            "rescored": score,
        }
        rows.append(row)
    caption = (
        "Scores of LLaMA2 13B with BiomedRAG on GIT, as printed and as rescored from the released "
        "answers"
    )
    return figures.table(pd.DataFrame(rows), caption)


def report_sizes(run: Run, corpora: Sequence[Corpus]) -> pd.DataFrame:
    """Compare Tables 5 and 6 with the sizes of the released files.

    Of the bundled samples nothing is reported. Entities are distinct names in all splits, relation
    types distinct relations, in the DDI corpus without "None".
    """
    rows = []
    for corpus in corpora:
        numbers = _size_numbers(run, corpus)
        for what, count in _sizes(corpus).items():
            if what not in numbers:
                continue
            number = numbers[what]
            if not corpus.sample:
                run.rescored(number.id, float(count), source=number.rescore_from[0])
            row = {
                "data": corpus.name,
                "what": number.column,
                "printed": number.printed,
                "in the files": count,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def _sizes(corpus: Corpus) -> dict[str, int]:
    examples = list(chain.from_iterable(corpus.splits.values()))
    triples = list(chain.from_iterable(example.triples for example in examples))
    heads = {triple.head for triple in triples}
    tails = {triple.tail for triple in triples}
    relations = {triple.relation for triple in triples}
    return {
        "train": len(corpus.train),
        "test": len(corpus.test),
        "dev": len(corpus.validation),
        "entities": len(heads | tails),
        "relations": len(relations - {"None"}),
        "umls_triples": len(examples),
    }


def _size_numbers(run: Run, corpus: Corpus) -> dict[str, Number]:
    """Return the printed sizes of a data set that its loaded files give, by what they count."""
    files = {file.name for file in corpus.files}
    table = "table5" if corpus.task == "triples" else "table6"
    beginnings = [f"biomedrag.{table}.{KEYS[corpus.name]}."]
    if corpus.name == "UMLS":
        beginnings.append("biomedrag.text.data_sets.umls")
    numbers = {}
    for number in run.printed.numbers:
        if number.id.startswith(tuple(beginnings)) and files.intersection(number.rescore_from):
            numbers[number.id.rpartition(".")[2]] = number
    return numbers


def released_choices(run: Run) -> dict[str, list[Choice]]:
    """Read the documents chosen for the GIT test, by retriever.

    Raises:
        DataUnavailable: No source has a file.
        CorpusError: A file has another format or other sentences.
    """
    files = {name: locate(file, "real") for name, (file, _) in CHOICES.items()}
    run.data(*files.values())
    choices = {name: read_choices(file.path) for name, file in files.items()}
    first, *others = map(_sentences, choices.values())
    if any(sentences != first for sentences in others):
        raise CorpusError(
            "The files of chosen documents are not of the same sentences in the same order."
        )
    return choices


def _sentences(choices: Sequence[Choice]) -> list[str]:
    return [choice.sentence for choice in choices]


def by_chance(choices: Sequence[Choice]) -> float:
    """Return how many documents would fit if they were shuffled over the sentences.

    A document fits if it shows the relation of its sentence.
    """
    sentences = Counter(choice.label for choice in choices)
    documents = Counter(choice.document_label for choice in choices)
    n_pairs = sum(count * documents[label] for label, count in sentences.items())
    return n_pairs / len(choices)


def agreement(choices: Sequence[Choice], draws: int) -> Score:
    """Compute Cohen's kappa of the relations of documents and of their sentences; 0 is chance."""
    sentences = np.array([choice.label for choice in choices])
    documents = np.array([choice.document_label for choice in choices])

    def kappa(rows: Floats) -> float:
        positions = rows.astype(int)
        return float(cohen_kappa_score(sentences[positions], documents[positions]))

    return bootstrap(np.arange(len(choices)), kappa, draws=draws)


def commonest_share(choices: Sequence[Choice]) -> Score:
    """Return the share of sentences that one of the `N_COMMONEST` commonest documents serves."""
    return proportion(_n_with_commonest(choices), len(choices))


def _n_with_commonest(choices: Sequence[Choice]) -> int:
    documents = Counter(choice.document for choice in choices)
    return sum(count for _, count in documents.most_common(N_COMMONEST))


def documents_table(
    choices: Mapping[str, Sequence[Choice]], corpus: Corpus, draws: int
) -> figures.Html:
    """Show how many documents each retriever chose for GIT, how often, and from which split.

    Args:
        choices: The choices of each retriever.
        corpus: GIT, whose validation sentences a document may be.
        draws: Bootstrap samples of the intervals.
    """
    validation = {same_text(example.text) for example in corpus.validation}
    rows = []
    for name, chosen in choices.items():
        counts = Counter(choice.document for choice in chosen)
        n_validation = sum(same_text(choice.document) in validation for choice in chosen)
        row = {
            "retriever": CHOICES[name][1],
            "sentences": len(chosen),
            "different documents": len(counts),
            "with one of the two commonest documents": _n_with_commonest(chosen),
            "share of these two": commonest_share(chosen),
            "with a whole validation sentence": n_validation,
            "with the relation of the sentence": sum(choice.hit for choice in chosen),
            "by chance": f"{by_chance(chosen):.1f}",
            "Cohen's kappa": figures.score_text(agreement(chosen, draws), "ratio"),
            "commonest document": counts.most_common(1)[0][0].strip(),
        }
        rows.append(row)
    caption = (
        "Documents that the authors' retrievers chose for the test sentences of GIT. Kappa "
        "compares the relations of the documents with those of the sentences, and chance gives 0. "
        "In rows named prompts, a document includes the head and tail around its chunk."
    )
    return figures.table(pd.DataFrame(rows), caption)


def answers_with_documents(choices: Sequence[Choice]) -> int:
    """Count the released answers whose prompt shows the document chosen for their sentence.

    Raises:
        DataUnavailable: No source has the file of the answers.
    """
    answers = json_lines(locate(GENERATIONS, "real").path)
    is_shown = []
    for answer, choice in zip(answers, choices, strict=True):
        prompt = _INSTRUCTION.search(answer["predicted"])
        document = same_text(choice.document)
        is_shown.append(prompt is not None and document in same_text(prompt[1]))
    return sum(is_shown)


def documents_in_prompts() -> list[str]:
    """Return BiomedRAG's document in the prompt of each released answer, in the released order.

    Raises:
        DataUnavailable: No source has the file of the answers.
        CorpusError: A prompt shows no document.
    """
    path = locate(GENERATIONS, "real").path
    documents = []
    for number, answer in enumerate(json_lines(path), start=1):
        prompt = _INSTRUCTION.search(answer["predicted"])
        document = _DOCUMENT.search(prompt[1]) if prompt else None
        if document is None:
            raise CorpusError(f"{path.name}, row {number}: needed a prompt with a document.")
        documents.append(document[1])
    return documents


def choices_plot(choices: Mapping[str, Sequence[Choice]], draws: int) -> figures.Picture:
    """Plot how often each retriever's document shows the sentence's own relation.

    The caption says how often it would by chance.
    """
    rows = []
    counts = []
    for arm, chosen in choices.items():
        for i, choice in enumerate(chosen):
            measures = {"shows_relation": (float(choice.hit), 1.0)}
            row = Answer(arm, str(i), source="released", measures=measures, cluster=str(i))
            rows.append(row)
        counts.append(f'{_count_text(chosen)} for "{CHOICES[arm][1]}"')
    n_sentences = max(map(len, choices.values()))
    caption = (
        f"How often the released document shows the relation of its sentence, among {n_sentences} "
        f"sentences of GIT, with 95 % intervals. The numbers are {figures.listed(counts)}."
    )
    labels = {arm: label for arm, (_, label) in CHOICES.items()}
    out = Outcomes(rows, labels=labels, draws=draws)
    return out.interval_plot(["shows_relation"], caption)


def _count_text(choices: Sequence[Choice]) -> str:
    n_hits = sum(choice.hit for choice in choices)
    n_documents = len({choice.document for choice in choices})
    return f"{n_hits} ({by_chance(choices):.0f} by chance, with {n_documents} different documents)"
