"""Writes the rankings of a notebook as TREC run and qrels files, and scores the files by ir-measures.

python -m helpers.results.trec NOTEBOOK

`_build/trec/<notebook>` gets a `.run` for each arm that ranks, and the `.qrels` that they are held against: `passages`,
and `documents` where rows say which document a question was taken from. A rank that a row does not list, because its
passage is not relevant, is filled with the name `unlisted-<rank>`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import ir_measures
import pandas as pd
from ir_measures import AP, RR, P, R, Success, nDCG

from helpers.results import answers
from helpers.results.answers import Item
from helpers.results.requests import StoreError
from helpers.settings import BUILD, settings, told

OF_SOURCE: Final = "of_source"
"""The stratum of an item whose document, named by its label, is the one that the question was taken from."""
MEASURES: Final[Mapping[str, Mapping[str, ir_measures.Measure]]] = {
    "passages": {
        "nDCG@10": nDCG @ 10,
        "P@5": P @ 5,
        "R@10": R @ 10,
        "MRR": RR,
        "AP": AP,
        "answer_found": Success @ 6,
    },
    "documents": {"document_recall": R @ 6, "mrr": RR, "ndcg": nDCG @ 6},
}
"""The book's measures of a ranking, by the level that they are about, as ir-measures names them."""
Ranking = Sequence[Item]


def ranked(level: str, items: Ranking) -> list[str]:
    """What a row ranked, best first: passages, or documents where their first passage stands."""
    listed = {item.rank: item for item in items if item.rank}
    if level == "documents":
        return list(dict.fromkeys(listed[rank].label for rank in sorted(listed)))
    return [listed[rank].id if rank in listed else f"unlisted-{rank}" for rank in range(1, max(listed, default=0) + 1)]


def relevant(level: str, items: Ranking) -> dict[str, int]:
    """What a row says is relevant, with its grade: of passages a label that is a number, else 1."""
    if level == "documents":
        return {item.label: 1 for item in items if OF_SOURCE in item.strata}
    return {item.id: int(item.label) if item.label.isdigit() else 1 for item in items if item.gold}


def write(rows: pd.DataFrame, folder: Path) -> list[tuple[str, str, float, float]]:
    """Write the files, and score them.

    Args:
        rows: of a notebook.
        folder: of the files; those of an earlier call go.

    Returns:
        Level and arm, measure, the book's mean and that of the files: a row for each that the book has.

    Raises:
        StoreError: no row has a ranking.
    """
    rows = rows[rows.repeat == 0]
    ranks = rows["items"].map(lambda items: any(item.rank for item in items))
    rows = rows[ranks.groupby([rows.task, rows.arm]).transform("any").astype(bool)]  # with who found nothing
    if rows.empty:
        raise StoreError("No row of this notebook has a ranking.")
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.run"), *folder.glob("*.qrels")]:
        path.unlink()
    found = []
    for level, measures in MEASURES.items():
        wanted: dict[str, dict[str, int]] = {}
        for unit, items in zip(rows.unit, rows["items"], strict=True):
            wanted.setdefault(unit, {}).update(relevant(level, items))
        if level == "documents" and not any(wanted.values()):
            continue
        qrels = folder / f"{level}.qrels"
        _lines(qrels, (f"{_id(u)} 0 {_id(d)} {grade}" for u, of in wanted.items() for d, grade in sorted(of.items())))
        for (task, arm), mine in rows.groupby(["task", "arm"], sort=False):
            path = folder / f"{level}.{'.'.join(_id(part) for part in (str(arm), str(task)) if part)}.run"
            _lines(path, _run(level, str(arm), mine))
            found += [(f"{level}: {arm}", *scores) for scores in _scored(path, qrels, mine, measures)]
    return found


def _run(level: str, arm: str, rows: pd.DataFrame) -> Iterator[str]:
    for unit, items in zip(rows.unit, rows["items"], strict=True):
        for place, name in enumerate(ranked(level, items), start=1):
            yield f"{_id(unit)} Q0 {_id(name)} {place} {1 / place!r} {_id(arm)}"


def _scored(
    run: Path, qrels: Path, rows: pd.DataFrame, measures: Mapping[str, ir_measures.Measure]
) -> Iterator[tuple[str, float, float]]:
    """Mean of each measure that the rows have, as the rows have it and as the files give it."""
    for name, measure in measures.items():
        book = {_id(u): of[name][0] for u, of in zip(rows.unit, rows.measures, strict=True) if name in of}
        if not book:
            continue
        judged = [q for q in ir_measures.read_trec_qrels(str(qrels)) if q.query_id in book]
        given = [r for r in ir_measures.read_trec_run(str(run)) if r.query_id in book]
        # who found nothing is in no run file, and has 0
        files = {m.query_id: m.value for m in ir_measures.iter_calc([measure], judged, given)} if given else {}
        yield name, sum(book.values()) / len(book), sum(files.values()) / len(book)


def _id(text: str) -> str:
    """A name without spaces, which end a field."""
    return quote(text, safe="/:|,;()+'") or "_"


def _lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if the files give another score than the book."""
    parser = argparse.ArgumentParser(prog="python -m helpers.results.trec", description="Write TREC files.")
    parser.add_argument("notebook")
    notebook: str = parser.parse_args(arguments).notebook
    folder = BUILD / "trec" / notebook
    found = write(answers.read(answers.newest(notebook, settings().profile)), folder)
    for arm, measure, book, files in found:
        same = abs(book - files) < 1e-9
        sys.stdout.write(f"{arm}, {measure}: {book:.4f}{'' if same else f', but {files:.4f} from the files'}\n")
    sys.stdout.write(f"The files are in {folder}.\n")
    if any(abs(book - files) >= 1e-9 for *_, book, files in found):
        raise StoreError(f"Some rows list too little of their rankings. Make them anew: make notebook NB={notebook}")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
