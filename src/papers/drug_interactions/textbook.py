"""An open textbook as text to ingest (drug_interactions.md, Methods, A), compared with SIDER.

The paper's two textbooks are not named. This one, OpenStax's Pharmacology for Nurses, has nothing
marked in it.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
# names stand in the title or the first cell of a table and effects in other cells: no sentence
# holds both
_LEFT_OUT = {"metadata", "title", "exercise", "table", "figure", "media", "math", "iframe"}
_LEFT_OUT_CLASSES = {"learning-objectives", "references"}


def locate(data: str) -> tuple[list[Located], str]:
    """Locate the textbook's file and SIDER's two.

    Returns:
        The files, and why there are none, in a sentence.

    Raises:
        HashMismatch: If a file has other content than the registry states.
    """
    if data == "sample":
        return [], "The bundled sample has no textbook."
    try:
        files = datasets.locate_all((BOOK, *SIDER), "real")
    except DataUnavailable:
        return [], "The textbook could not be fetched, so it was not read."
    return list(files.values()), ""


def read(path: Path) -> list[Sentence]:
    """Read the sentences of a textbook in CNXML, module by module.

    They are those of paragraphs, lists and glossaries.

    Raises:
        CorpusError: If the file is not CNXML.
    """
    try:
        modules = ET.fromstring(b"<book>" + path.read_bytes() + b"</book>")  # noqa: S314  # as in `read_ddi`
    except ET.ParseError as error:
        raise CorpusError(f"{path.name} is not CNXML: {error}") from error
    splitter = English()
    splitter.add_pipe("sentencizer")
    sentences: list[Sentence] = []
    for module in modules:
        name = module.findtext(".//{http://cnx.rice.edu/mdml}content-id")
        document = name or f"module {len(sentences)}"
        for number, text in enumerate(_split_sentences(splitter, module)):
            sentences.append(Sentence(f"{document}.s{number}", document, "Textbook", "test", text))
    return sentences


def _split_sentences(splitter: English, module: ET.Element) -> Iterator[str]:
    running_text = "".join(_pieces(module))
    for block in running_text.split("\0"):
        text = " ".join(block.split())
        if text:
            yield from (span.text for span in splitter(text).sents)


def _pieces(node: ET.Element) -> Iterator[str]:
    """Yield the running text, with NUL at the ends of elements that are not part of a line."""
    tag = node.tag.rpartition("}")[2]
    edge = "" if tag in _INLINE else "\0"
    yield edge
    if tag not in _LEFT_OUT and node.get("class") not in _LEFT_OUT_CLASSES:
        yield node.text or ""
        for child in node:
            yield from _pieces(child)
            yield child.tail or ""
    yield edge


def read_sider(format_a: Path, terms: Path) -> dict[str, set[str]]:
    """Read the side effects of each drug in SIDER, by canonical names, from the files of `SIDER`.

    Args:
        format_a: A table of drugs, and of texts that list their side effects.
        terms: A table whose first column has all side effects.
    """
    all_terms = [str(term) for term in pd.read_csv(terms).iloc[:, 0]]
    with_comma = [term for term in all_terms if ", " in term]
    table = pd.read_csv(format_a)
    effects = {}
    for drug, text in zip(table.drug, table.text, strict=True):
        _, _, listed = text.partition(": ")
        effects[canonical(drug)] = {canonical(name) for name in split_names(listed, with_comma)}
    return effects


def pair_units(found: Sequence[Sentence], known: Mapping[str, set[str]]) -> list[PlainUnit]:
    """Make a unit of each pair of drug and effect that a method found and whose names SIDER has.

    Args:
        found: The sentences with the relations that the method found.
        known: The side effects that SIDER lists of each drug: whether it lists a pair is gold.
    """
    effects = set().union(*known.values())
    units = []
    for _, drug, effect in sorted(_causes(found)):
        if drug not in known or effect not in effects:
            continue
        unit = PlainUnit(
            unit=f"{drug}: {effect}",
            cluster=drug,
            text=f"Does {drug} cause {effect}?",
            gold="YES" if effect in known[drug] else "NO",
            strata={"corpus": "Textbook"},
        )
        units.append(unit)
    return units


@dataclass(frozen=True)
class ReadPairs:
    """A method as an arm: YES for the pairs that it reads off the book."""

    found: Sequence[Sentence]

    def __call__(self, units: Sequence[PlainUnit]) -> list[Answer]:
        """Answer for each pair whether the method read it."""
        stated = {f"{fact.start}: {fact.end}" for fact in _causes(self.found)}
        return [
            Answer(task="textbook", predicted="YES" if unit.unit in stated else "NO")
            for unit in units
        ]


def _causes(sentences: Sequence[Sentence]) -> set[Fact]:
    stated = set().union(*map(facts, sentences))
    return {fact for fact in stated if fact.type == CAUSES}
