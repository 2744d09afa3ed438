"""An open textbook as text to ingest (drug_interactions.md, Methods, A), and its side effects held against SIDER's.

The paper's two textbooks are not named. This one, OpenStax's Pharmacology for Nurses, has nothing marked in it.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
from spacy.lang.en import English

from evaluation.answers import Answer, PlainUnit
from papers.drug_interactions.corpora import CAUSES, CorpusError, Fact, Sentence, canonical, facts
from rag.names import split_names
from resources import datasets
from resources.datasets import DataUnavailable, Located

BOOK = "drug_interactions/pharmacology_for_nurses.cnxml"
SIDER = ("side_effects/data_format_a.csv", "side_effects/side_effects.csv")

_INLINE = {"emphasis", "term", "span", "link", "sub", "sup"}
# names stand in the title or the first cell of a table and effects in other cells: no sentence holds both
_LEFT_OUT = {"metadata", "title", "exercise", "table", "figure", "media", "math", "iframe"}
_LEFT_OUT_CLASSES = {"learning-objectives", "references"}


def located(data: str) -> tuple[list[Located], str]:
    """The textbook's file and SIDER's two, and what is to be said if they are not read.

    Raises HashMismatch: a file has other content than the registry states.
    """
    if data == "sample":
        return [], "The bundled sample has no textbook."
    try:
        return [*datasets.locate_all((BOOK, *SIDER), "real").values()], ""
    except DataUnavailable:
        return [], "The textbook could not be fetched, so it was not read."


def read(path: Path) -> list[Sentence]:
    """The sentences of a textbook in CNXML, module by module, from paragraphs, lists and glossaries.

    Raises CorpusError: the file is not CNXML.
    """
    try:
        modules = ET.fromstring(b"<book>" + path.read_bytes() + b"</book>")  # noqa: S314  # as in `read_ddi`
    except ET.ParseError as error:
        raise CorpusError(f"{path.name} is not CNXML: {error}") from error
    cut = English()
    cut.add_pipe("sentencizer")
    sentences: list[Sentence] = []
    for module in modules:
        document = (
            module.findtext(".//{http://cnx.rice.edu/mdml}content-id") or f"module {len(sentences)}"
        )
        blocks = (" ".join(part.split()) for part in "".join(_pieces(module)).split("\0"))
        texts = [sent.text for block in blocks if block for sent in cut(block).sents]
        sentences += [
            Sentence(f"{document}.s{i}", document, "Textbook", "test", text)
            for i, text in enumerate(texts)
        ]
    return sentences


def _pieces(node: ET.Element) -> Iterator[str]:
    """The running text, with NUL wherever an element begins or ends that is not part of a line."""
    tag = node.tag.rpartition("}")[2]
    edge = "" if tag in _INLINE else "\0"
    yield edge
    if tag not in _LEFT_OUT and node.get("class") not in _LEFT_OUT_CLASSES:
        yield node.text or ""
        for child in node:
            yield from _pieces(child)
            yield child.tail or ""
    yield edge


def sider(format_a: Path, terms: Path) -> dict[str, set[str]]:
    """The side effects of each drug in SIDER, by canonical names, from the two files of `SIDER`."""
    with_comma = [str(term) for term in pd.read_csv(terms).iloc[:, 0] if ", " in str(term)]
    table = pd.read_csv(format_a)
    listed = (split_names(text.partition(": ")[2], with_comma) for text in table.text)
    return {
        canonical(drug): set(map(canonical, of))
        for drug, of in zip(table.drug, listed, strict=True)
    }


def pairs(found: Sequence[Sentence], known: Mapping[str, set[str]]) -> list[PlainUnit]:
    """Each pair of drug and effect that a method found and whose names SIDER has; gold is whether it lists the pair."""
    effects = set().union(*known.values())
    return [
        PlainUnit(
            unit=f"{drug}: {effect}",
            cluster=drug,
            text=f"Does {drug} cause {effect}?",
            gold="YES" if effect in known[drug] else "NO",
            strata={"corpus": "Textbook"},
        )
        for _, drug, effect in sorted(_causes(found))
        if drug in known and effect in effects
    ]


def says(found: Sequence[Sentence]) -> Callable[[Sequence[PlainUnit]], list[Answer]]:
    """A method as an arm: YES for the pairs that it reads off the book."""
    stated = {f"{fact.start}: {fact.end}" for fact in _causes(found)}
    return lambda units: [
        Answer(task="textbook", predicted="YES" if u.unit in stated else "NO") for u in units
    ]


def _causes(found: Sequence[Sentence]) -> set[Fact]:
    return {fact for sentence in found for fact in facts(sentence) if fact.type == CAUSES}
