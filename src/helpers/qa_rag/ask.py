"""Ask guidance documents in words: the hypothetical answer, the passages of both tracks, the answer, its sources.

The steps are the paper's (qa_rag.md, Figure 1): a language model answers from what it knows; half of the passages are
found by the question and half by that answer; they are ranked anew by the question, and the model answers from the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from helpers import figures
from helpers.llm import LLM
from helpers.qa_rag.answers import Excerpt, excerpts, left_of, prompt, read
from helpers.qa_rag.data import Passage

if TYPE_CHECKING:
    import ipywidgets

EACH = 12
"""Passages by the question, and as many by the hypothetical answer (section 3.3)."""
KEPT = 6
"""Passages after ranking (section 3.3)."""
CHARACTERS = 4800
"""Of passages in the prompt: about 1,200 tokens."""


class Library(Protocol):
    """What can be asked: passages, found by a text and ranked by one."""

    def find(self, text: str, k: int) -> Sequence[Passage]:
        """The `k` passages nearest to a text, best first."""

    def rank(self, question: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """The passages, those that answer the question best first."""


@dataclass(frozen=True)
class Source:
    """A passage that the answer was written from.

    Attributes:
        number: as the answer cites it.
        excerpt: what the model was shown of it.
        by: what found it: question, hypothetical answer, or both.
        cited: whether the answer names it.
    """

    number: int
    excerpt: Excerpt
    by: str
    cited: bool


@dataclass(frozen=True)
class Answer:
    """What became of a question.

    Attributes:
        question: as asked.
        hypothetical: what the model answered from its own knowledge; it is searched with, and not to be relied on.
        text: the answer from the sources.
        sources: in the order of their numbers.
        quoted: share of the answer's sequences of eight words that stand in its sources word by word.
        refused: the model says that the sources do not tell.
        seconds: of each step.
    """

    question: str
    hypothetical: str
    text: str
    sources: tuple[Source, ...]
    quoted: float
    refused: bool
    seconds: dict[str, float] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        return show(self).html

    def __str__(self) -> str:
        """The answer, and the documents that it names."""
        cited = "; ".join(f"[{s.number}] {s.excerpt.passage.document}" for s in self.sources if s.cited)
        return f"{self.text}\n{cited or 'It names no source.'}"


def answer(question: str, library: Library, llm: LLM, *, characters: int = CHARACTERS, max_tokens: int = 160) -> Answer:
    """Answer a question from a library of guidance documents.

    Args:
        question: in words.
        library: to search.
        llm: writes the hypothetical answer and the answer.
        characters: of passages in the prompt; from longer ones the parts nearest to the question are shown.
        max_tokens: longest answer.

    Raises:
        ValueError: the question is empty, or the library has no passage.
        helpers.llm.ContextOverflowError: the prompt does not fit; ask for fewer characters.
    """
    if not question.strip():
        raise ValueError("There is no question. Write one, such as: May a batch record be kept on paper alone?")
    seconds: dict[str, float] = {}
    with _timed(seconds, "answer without sources"):
        guess = llm.chat_many([prompt(question, ())], max_tokens=96, label="hypothetical answer")[0].text.strip()
    with _timed(seconds, "find passages"):
        tracks = {"question": library.find(question, EACH), "hypothetical answer": library.find(guess, EACH)}
    pool = {passage.id: passage for of in tracks.values() for passage in of}
    if not pool:
        raise ValueError("The library has no passage. Give a folder with .pdf, .txt or .md files that hold text.")
    with _timed(seconds, "rank passages"):
        best = library.rank(question, list(pool.values()))[:KEPT]
    shown = excerpts(question, best, "windows", characters)
    with _timed(seconds, "answer from passages"):
        reply = llm.chat_many([prompt(question, shown)], max_tokens=max_tokens, label="answer")[0]
    given = read("", reply, shown)
    sources = tuple(
        Source(number, excerpt, _found_by(excerpt.passage, tracks), number in given.cited)
        for number, excerpt in enumerate(shown, start=1)
    )
    quoted = left_of(given.text, [excerpt.text for excerpt in shown])
    return Answer(question, guess, given.text, sources, quoted, given.refused, seconds)


def _found_by(passage: Passage, tracks: dict[str, Sequence[Passage]]) -> str:
    names = [name for name, of in tracks.items() if any(passage.id == other.id for other in of)]
    return " and ".join(names)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - began


# ------------------------------------------------------------------------------------------------------------ showing


def show(given: Answer, *, sample: bool = False) -> figures.Html:
    """An answer with its sources as a table: those that it names first."""
    rows = [
        {
            "": f"[{source.number}]",
            "document": source.excerpt.passage.document,
            "passage": source.excerpt.text,
            "found by": source.by,
        }
        for source in sorted(given.sources, key=lambda source: (not source.cited, source.number))
    ]
    took = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in given.seconds.items())
    named = [f"[{source.number}]" for source in given.sources if source.cited]
    facts = [
        f"It names {', '.join(named)}." if named else "It names no source: check it before you rely on it.",
        f"{figures.number(given.quoted, digits=0)} of its word sequences stand in the passages word by word.",
        f"Without sources the model said: {given.hypothetical}",
        f"({took}.)",
    ]
    text = " ".join(facts)
    table = figures.table(pd.DataFrame(rows), f"Sources of the answer to: {given.question}", sample=sample)
    head = figures.prompt_box([{"role": "question", "content": given.question}], answer=given.text)
    html = f"{head.html}<p>{figures.escape(text)}</p>{table.html}"
    return figures.Html(html, f"{given.question}\n{given.text}\n{text}\n{table.text}")


def box(ask: Callable[[str], Answer], *, sample: bool = False) -> ipywidgets.VBox:
    """A text box that answers: type a question, press Enter. It needs a running kernel.

    Args:
        ask: answers one question, for example `lambda question: answer(question, library, llm)`.
        sample: the library is the bundled sample.
    """
    import ipywidgets  # noqa: PLC0415  # only for who has a notebook open
    from IPython.display import display  # noqa: PLC0415

    # answers at Enter, not at each letter
    text = ipywidgets.Text(description="Question", continuous_update=False, layout={"width": "100%"})
    output = ipywidgets.Output()

    def respond(_: object) -> None:
        output.clear_output()
        with output:
            display(show(ask(text.value), sample=sample))

    text.observe(respond, names="value")
    return ipywidgets.VBox([text, output])
