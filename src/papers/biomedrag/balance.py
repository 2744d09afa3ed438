"""What the data of biomedrag.md decide before any model does: floors, ceilings, and the digits of printed proportions.

A floor answers the same to all. A ceiling is what one answer to each text can reach where rows repeat a text with
different answers. The digits of a printed proportion say whether it can have been counted on so many rows.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import binom

from evaluation import figures
from evaluation.metrics import Score, proportion
from evaluation.published import Published
from papers.biomedrag.arms import given
from papers.biomedrag.corpora import KEYS, Corpus
from papers.biomedrag.floors import marks_the_pair
from papers.biomedrag.scoring import same_text


def floor(corpus: Corpus) -> tuple[str, Score]:
    """The commonest label of training, or of the test where no training is at hand, and its share of the test."""
    label = Counter(e.label for e in corpus.train or corpus.test).most_common(1)[0][0]
    return label, proportion(sum(e.label == label for e in corpus.test), len(corpus.test))


def ceiling(corpus: Corpus, *, blanks: bool = False) -> Score:
    """The share of the test that one answer a text can have right; with `blanks`, white space tells texts apart."""
    answers: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for example in corpus.test:
        text = given(example, corpus.task)
        answers[text if blanks else same_text(text)][example.label, example.triples] += 1
    return proportion(sum(max(of.values()) for of in answers.values()), len(corpus.test))


def interacting(corpus: Corpus) -> Corpus:
    """DDI with the rows that state an interaction alone."""
    train, test = (
        tuple(e for e in rows if e.label != "None") for rows in (corpus.train, corpus.test)
    )
    return replace(corpus, train=train, test=test)


def balance_table(corpora: Mapping[str, Corpus], printed: Published) -> pd.DataFrame:
    """Floors and ceilings beside the F1 that the paper prints for LLaMA2 13B with BiomedRAG, a row for each name.

    Texts are compared without case and runs of white space. As released, white space tells them apart: in GIT and
    ChemProt it sets the two entities of the row off, and so gives away which pair is asked for.
    """
    rows = []
    for name, corpus in corpora.items():
        label, share = floor(corpus)
        known = {same_text(given(e, corpus.task)) for e in corpus.train}
        met = sum(same_text(given(e, corpus.task)) in known for e in corpus.test)
        marked = sum(map(marks_the_pair, corpus.test))
        best = next(
            n for n in printed.numbers if n.id.endswith(f".llama2_br.{KEYS[corpus.name]}_f1")
        )
        row = {
            "data": name,
            "test rows": len(corpus.test),
            "labels": len({e.label for e in corpus.test}),
            "commonest label": label,
            "its share": share,
            "ceiling, one answer a text": ceiling(corpus),
            "ceiling, blanks kept": ceiling(corpus, blanks=True),
            "text in training": proportion(met, len(corpus.test)) if known else None,
            "printed F1, LLaMA2 13B + BiomedRAG": best.printed,
        }
        if corpus.task == "triples":
            row["blanks mark exactly the gold pair"] = proportion(marked, len(corpus.test))
        rows.append(row)
    return pd.DataFrame(rows)


def possible(recalls: Iterable[float], n: int) -> tuple[list[float], float]:
    """Which of some recalls, in per cent to two decimals, are a whole number of n rows, and how many would by chance.

    The GRIM test of Brown and Heathers. The paper cuts digits off in some places and rounds in others; both count.
    """
    exact = 10_000 * np.arange(n + 1) / n
    reachable = {int(x) for x in np.floor(exact + 1e-6)} | {int(x) for x in np.floor(exact + 0.5)}
    looked_at = sorted(set(recalls))
    return [x for x in looked_at if round(100 * x) in reachable], len(looked_at) * len(
        reachable
    ) / 10_001


def digits_table(
    printed: Published, names: Sequence[str], others: Mapping[str, tuple[int, str]] | None = None
) -> pd.DataFrame:
    """The printed recalls of Tables 1 to 3 against the test sizes that the paper states, and against `others`.

    Left out are whole per cents, which may be rounded ones, and OneRel, whose columns are out of order. `others` has
    for a data set another count of rows to hold against, and what they are.
    """
    rows = []
    for name in names:
        key = KEYS[name]
        numbers = [
            n
            for n in printed.numbers
            if n.id.endswith("recall")
            and "onerel" not in n.id
            and (f".{key}_recall" in n.id or (n.table == "Table 3" and f"_{key}." in n.id))
        ]
        recalls = {r for n in numbers if not float(r := round(100 * n.value, 2)).is_integer()}
        held = [
            (numbers[0].n or 0, "test size of Tables 5 and 6"),
            *filter(None, [(others or {}).get(name)]),
        ]
        for n, what in held:
            fit, by_chance = possible(recalls, n)
            p = binom.sf(len(fit) - 1, len(recalls), by_chance / len(recalls)) if recalls else 1.0
            rows.append(
                {
                    "data": name,
                    "rows": f"{n:,}, {what}",
                    "printed recalls": len(recalls),
                    "attainable with these rows": len(fit),
                    "expected by chance": f"{by_chance:.1f}",
                    "p": figures.p_text(float(p)),
                    "unattainable": ", ".join(f"{x:.2f}" for x in sorted(recalls - set(fit))),
                }
            )
    return pd.DataFrame(rows)
