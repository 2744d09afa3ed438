"""The system of side_effects.md for a person's own questions, about SIDER or a table of their own.

    with open_system() as system:
        print(system.ask("Which drugs cause tinnitus?"))

The queries are those that the notebooks measure: 01 and 02 for drugs and effects, 04 for classes,
frequencies, organ classes and comparisons.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from helpers import graph as graph_client
from helpers.counting import counted
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects import corpus, facts, own_table
from papers.side_effects.catalogue import Catalogue, read_sider
from papers.side_effects.own_graph import OwnGraph, own_labels
from papers.side_effects.own_table import FOUND_BY_NAME, Layout, TableError
from papers.side_effects.reading import EXAMPLES, AskForm, Reader, Reading, examples_for
from papers.side_effects.results import make_result
from rag.system_answer import SystemAnswer
from resources import services
from resources.engine_install import EngineError
from resources.services import ServiceError
from resources.settings import BUILD, profile_model, settings

log = logging.getLogger(__name__)

ROWS_PER_SECOND: Final = 4_000
"""Listings that the embedded graph loads in a second, with what belongs to them."""
LISTING = (
    "A listing says that {source} names the effect. It does not say that the drug caused it, and a "
    "drug that is not listed may still cause it."
)
RULES_READ = "Rules read the question; no language model was asked."
NO_MODEL = (
    "No language model is available to read it: name one by LLM_BASE_URL, or start the embedded "
    "one (--llm)."
)


@dataclass(frozen=True)
class SideEffects:
    """A catalogue of side effects that is ready to be asked.

    Attributes:
        catalogue: What it answers from.
        graph: The graph that holds the catalogue.
        reader: Reads the questions.
    """

    catalogue: Catalogue
    graph: Graph
    reader: Reader

    def ask(self, question: str) -> SystemAnswer:
        """Answer a question; where it is not understood, say what is missing.

        Raises:
            GraphError: The graph cannot be read.
        """
        reading = self.reader.read(question)
        if reading.form is None:
            return self._ask_back(question, reading)
        rows = self.graph.read(reading.form.cypher, **reading.parameters)
        result = make_result(self.catalogue, reading.form, reading.parameters, rows)
        details = {
            "form": reading.form.name,
            "label": result.label,
            "names": list(result.names),
            "catalogue": self.catalogue.name,
        }
        return SystemAnswer(
            question,
            result.text,
            evidence=result.evidence,
            citations=self.catalogue.citations,
            statement=self._statement(reading.form),
            parameters=reading.parameters,
            notes=(
                *self.catalogue.notes,
                *_reading_notes(reading, self.catalogue.subject),
                *result.notes,
                self._listing(),
            ),
            details=details,
        )

    def _listing(self) -> str:
        """Say what a row of the catalogue means."""
        return LISTING.format(source="the table" if self.catalogue.is_own else "a label")

    def _statement(self, form: AskForm) -> str:
        """Return the query of a form as the graph runs it."""
        statement = form.cypher.strip()
        return own_labels(statement) if self.catalogue.is_own else statement

    def _ask_back(self, question: str, reading: Reading) -> SystemAnswer:
        notes = [*self.catalogue.notes, *_reading_notes(reading, self.catalogue.subject)]
        if self.catalogue.note_on_unread:
            notes.append(self.catalogue.note_on_unread)
        if self.reader.llm is None and not reading.lacks_only_names:
            notes.append(NO_MODEL)
        known = examples_for(self.catalogue.facts) if self.catalogue.is_own else EXAMPLES
        same = question.strip().casefold()
        examples = "\n".join(f"  {item}" for item in known if item.casefold() != same)
        text = f"{reading.problem}\nQuestions that can be answered, for example:\n{examples}"
        return SystemAnswer(question, text, answered=False, notes=tuple(notes))


def _reading_notes(reading: Reading, subject: str) -> list[str]:
    """Say how a question was read: corrected names, and what it was taken to ask."""
    notes = [f"{name.written!r} was read as {name.name!r}." for name in reading.names]
    if reading.form is not None:
        notes.append(f"The question was read as: {reading.wording}")
    if reading.reader:
        notes.append(f"{reading.reader} chose what the question asks; code found the names in it.")
    elif reading.form is not None:
        notes.append(RULES_READ)
    for name in reading.absent:
        notes.append(f"{subject} has no drug called {name!r}, which this answer leaves out.")
    for name in reading.unused:
        notes.append(f"The question also names {name!r}, which this answer does not use.")
    return notes


@contextmanager
def open_system(
    table: str | Path = "",
    *,
    layout: Layout = FOUND_BY_NAME,
    data: str = "auto",
    start_llm: bool = False,
) -> Iterator[SideEffects]:
    """Load a catalogue into the graph and make it ready to be asked.

    A model reads questions that rules do not understand, if one is named by `LLM_BASE_URL` or runs
    already. Nothing of a table, a question or an answer is stored with the requests of the book.

    Args:
        table: A table of one's own (CSV, TSV or Excel); SIDER if left out.
        layout: What its columns are, and what separates several effects in a cell.
        data: Which SIDER to read: "real", "sample", or "auto".
        start_llm: Whether to start the embedded model if none is available.

    Raises:
        TableError: The table cannot be used, or another command is using a table.
        GraphError: The graph cannot be used.
    """
    if table:
        catalogue = own_table.read_catalogue(table, layout)
    else:
        catalogue = read_sider(data)
    with ExitStack() as stack:
        if catalogue.is_own:
            stack.enter_context(_own_table_lock())
        endpoint = services.graph_endpoint()
        graph = OwnGraph(endpoint) if catalogue.is_own else graph_client.connect(endpoint)
        stack.enter_context(graph)
        load_catalogue(graph, catalogue)
        llm = find_llm(start=start_llm)
        reader = Reader(
            catalogue.facts.vocabulary,
            llm,
            may_have_lists=catalogue.is_own,
            subject=catalogue.subject,
        )
        yield SideEffects(catalogue, graph, reader)


@contextmanager
def _own_table_lock() -> Iterator[None]:
    """Keep the graph of own tables for one process.

    Raises:
        TableError: Another process has it.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(BUILD / "own-table.lock", timeout=0):
            yield
    except Timeout:
        raise TableError(
            "Another command of this project is using a table of your own: end it, or wait for it."
        ) from None


def load_catalogue(graph: Graph, catalogue: Catalogue) -> None:
    """Load a catalogue, unless the graph holds it already; a line says what it will take."""
    listings = sum(len(effects) for effects in catalogue.facts.effects.values())
    if not graph.loaded("side_effects", catalogue.digest):
        seconds = max(1, round(listings / ROWS_PER_SECOND))
        sys.stderr.write(
            f"Loading {counted(listings, 'listing')} of {catalogue.name} into the graph: about "
            f"{seconds} s, once.\n"
        )
    corpus.load_graph(graph, catalogue.facts.effects, catalogue.digest)
    facts.extend_graph(graph, catalogue.facts)


def find_llm(*, start: bool = False) -> LLM | None:
    """Find the model of the settings, which keeps no requests.

    Args:
        start: Whether to start the embedded model if it does not run.

    Returns:
        The model; None if none is available.
    """
    try:
        endpoint = services.llm_endpoint(profile_model(settings().profile), start=start)
    except (ServiceError, EngineError) as error:
        log.warning("No language model is used: %s", error)
        return None
    return LLM(endpoint, folder=None) if endpoint.base_url else None
