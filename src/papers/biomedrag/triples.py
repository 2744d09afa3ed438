"""Triple extraction (biomedrag.md, section 4.1.1): what the released sentences give away, and floors that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from helpers.results import figures
from helpers.results.metrics import proportion
from helpers.results.outcomes import Outcomes
from helpers.results.published import Published
from helpers.vectors import Encoder
from papers.biomedrag.arms import Arm, PairReader, marked_entities, marks_the_pair, with_gold_pair
from papers.biomedrag.balance import Balance, best_printed
from papers.biomedrag.corpora import Corpus
from papers.biomedrag.study import LABELS, floor_arms

READERS: Final = ("blanks", "names")
"""Floors that find the pair of entities themselves."""
GIVEN: Final = {arm: f"{LABELS[arm]}, given the pair" for arm in ("majority", "nearest", "tfidf", "encoded")}
"""Labels of floors that are given the gold pair, and predict its relation."""


def floors(corpus: Corpus, encoder: Encoder) -> dict[str, Arm]:
    """Four arms that are given the gold pair, and two that find it: by blanks, or by names known from training."""
    with_pairs = replace(corpus, task="relations")  # a classifier then reads the pair
    given = {name: with_gold_pair(arm) for name, arm in floor_arms(with_pairs, encoder).items()}
    return given | {"blanks": PairReader(corpus.train), "names": PairReader(corpus.train, blanks=False)}


def blanks_table(printed: Published, out: Outcomes, corpora: Mapping[str, Corpus]) -> pd.DataFrame:
    """How often blanks mark the gold pair, and what a classifier gains by reading them."""
    rows = []
    for name, corpus in corpora.items():
        of = out.where(task=name)
        rows.append(
            {
                "data": name,
                "blanks mark exactly the gold pair": proportion(
                    sum(map(marks_the_pair, corpus.test)), len(corpus.test)
                ),
                "F1, reading the blanks": of.score("f1", "blanks"),
                "F1, without": of.score("f1", "names"),
                "printed F1, LLaMA2 13B": printed.number(f"biomedrag.table1.llama2.{name.lower()}_f1").printed,
                "with BiomedRAG": printed.number(f"biomedrag.table1.llama2_br.{name.lower()}_f1").printed,
            }
        )
    return pd.DataFrame(rows)


def blanks_example(corpora: Mapping[str, Corpus]) -> list[dict[str, str]]:
    """The first test sentence of each corpus whose blanks mark its pair, blanks made visible."""
    shown = []
    for name, corpus in corpora.items():
        found = next((e for e in corpus.test if marks_the_pair(e)), None)
        if found:
            text = found.text.replace("  ", "\N{OPEN BOX}\N{OPEN BOX}")
            shown.append({"role": name, "content": f"{text}\n\nread off it: {', '.join(marked_entities(found.text))}"})
    return shown


def ceilings_words(printed: Published, balances: Sequence[Balance], related: Balance) -> str:
    """Which printed scores lie above what the text of a row can decide, in Markdown.

    Args:
        printed: the paper.
        balances: of the test files.
        related: of the DDI rows alone that state an interaction.
    """
    said = []
    for b in balances:
        number = best_printed(printed, b)
        released, words = (figures.number(c.value) for c in (b.ceiling_as_released, b.ceiling))
        if number.value > b.ceiling_as_released.value:
            text = (
                f"On **{b.name}** the printed F1 ({number.printed}) is above the most that any extractor can have "
                f"right that sees the released sentence and gives one answer to it ({released}): rows repeat a "
                "sentence with other pairs. So it was counted on other rows, or with more than the sentence."
            )
            if b.name == related.name:
                ceiling = figures.number(related.ceiling_as_released.value)
                text += (
                    f" Of the {related.rows:,} rows that state a relation, one answer a text can have {ceiling} right."
                )
            said.append(text)
        elif number.value > b.ceiling.value:
            said.append(
                f"On **{b.name}** the printed F1 ({number.printed}) is above what the words can decide ({words}): rows "
                "of the same words differ in their answers, and only the blanks tell them apart."
            )
    return "\n\n".join(said) or "No printed F1 lies above what the text of the rows can decide."
