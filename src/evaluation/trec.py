"""Writes the rankings of a notebook as TREC run and qrels files, and scores the files by ir-measures.

python -m evaluation.trec NOTEBOOK

`_build/trec/<notebook>` gets a `.run` for each arm that ranks, and `.qrels` of passages, and of documents where rows
say which one a question was taken from. A rank that a row does not list is named `unlisted-<rank>`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ir_measures
import pandas as pd
from ir_measures import AP, RR, P, R, Success, nDCG

from evaluation import answers
from evaluation.answers import Item
from helpers.requests import StoreError
from resources.settings import BUILD, run_command_line, settings

OF_SOURCE = "of_source"  # stratum of an item whose label names the document that the question was taken from
PASSAGES = {
    "nDCG@10": nDCG @ 10,
    "P@5": P @ 5,
    "R@10": R @ 10,
    "MRR": RR,
    "AP": AP,
    "answer_found": Success @ 6,
}
DOCUMENTS = {"document_recall": R @ 6, "mrr": RR, "ndcg": nDCG @ 6}
MEASURES = {"passages": PASSAGES, "documents": DOCUMENTS}  # of a ranking, as ir-measures names them


def write(rows: pd.DataFrame, folder: Path) -> list[tuple[str, str, float, float]]:
    """Write the rankings of rows, in place of earlier files: (level and arm, measure, the book's mean, the files')."""
    rows = rows[rows.repeat == 0]
    ranks = rows["items"].map(lambda items: any(item.rank for item in items))
    rows = rows[
        ranks.groupby([rows.task, rows.arm]).transform("any").astype(bool)
    ]  # with who found nothing
    if rows.empty:
        raise StoreError("No row of this notebook has a ranking.")
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.run"), *folder.glob("*.qrels")]:
        path.unlink()
    found = []
    for level in MEASURES:
        wanted: dict[str, dict[str, int]] = {}
        for unit, items in zip(rows.unit, rows["items"], strict=True):
            wanted.setdefault(unit, {}).update(_relevant(level, items))
        if level == "documents" and not any(wanted.values()):
            continue
        relevant = [
            (u, 0, name, grade) for u, of in wanted.items() for name, grade in sorted(of.items())
        ]
        qrels = _written(folder / f"{level}.qrels", relevant)
        for (task, arm), mine in rows.groupby(["task", "arm"], sort=False):
            ranked = [
                (unit, "Q0", name, place, 1 / place, arm)
                for unit, items in zip(mine.unit, mine["items"], strict=True)
                for place, name in enumerate(_ranked(level, items), start=1)
            ]
            run = _written(
                folder / f"{level}.{'.'.join(_id(part) for part in (arm, task) if part)}.run",
                ranked,
            )
            found += [(f"{level}: {arm}", *scores) for scores in _scored(run, qrels, mine, level)]
    return found


def score_rankings(
    measures: Mapping[str, Any],
    grades: Mapping[str, Mapping[str, int]],
    rankings: Mapping[str, Sequence[str]],
) -> dict[str, dict[str, float]]:
    """Each measure of every ranking (grades and ids, best first, by unit) by ir-measures; 0 without any result."""
    # a score for each place, so that nothing is tied
    run = {
        unit: {id: 1 / place for place, id in enumerate(of, start=1)}
        for unit, of in rankings.items()
        if of
    }
    names = {metric: name for name, metric in measures.items()}
    scores = {unit: dict.fromkeys(measures, 0.0) for unit in rankings}
    wanted = {unit: dict(grades[unit]) for unit in rankings}
    for found in ir_measures.iter_calc([*names], wanted, run) if run else ():
        scores[found.query_id][names[found.measure]] = found.value
    return scores


def _written(path: Path, lines: Sequence[tuple[object, ...]]) -> Path:
    path.write_text("".join(f"{' '.join(map(_id, fields))}\n" for fields in lines), "utf-8")
    return path


def _ranked(level: str, items: Sequence[Item]) -> list[str]:
    """What a row ranked, best first: passages, or documents at the rank of their first passage."""
    listed = {item.rank: item for item in items if item.rank}
    if level == "documents":
        return list(dict.fromkeys(listed[rank].label for rank in sorted(listed)))
    return [
        listed[rank].id if rank in listed else f"unlisted-{rank}"
        for rank in range(1, max(listed, default=0) + 1)
    ]


def _relevant(level: str, items: Sequence[Item]) -> dict[str, int]:
    """What a row says is relevant, with its grade: of passages a label that is a number, else 1."""
    if level == "documents":
        return {item.label: 1 for item in items if OF_SOURCE in item.strata}
    return {item.id: int(item.label) if item.label.isdigit() else 1 for item in items if item.gold}


def _scored(
    run: Path, qrels: Path, rows: pd.DataFrame, level: str
) -> Iterator[tuple[str, float, float]]:
    """Mean of each measure that the rows have, as the rows have it and as the files give it."""
    for name, measure in MEASURES[level].items():
        book = {
            _id(u): of[name][0]
            for u, of in zip(rows.unit, rows.measures, strict=True)
            if name in of
        }
        if not book:
            continue
        judged = [q for q in ir_measures.read_trec_qrels(str(qrels)) if q.query_id in book]
        given = [r for r in ir_measures.read_trec_run(str(run)) if r.query_id in book]
        # who found nothing is in no run file, and has 0
        files = (
            {m.query_id: m.value for m in ir_measures.iter_calc([measure], judged, given)}
            if given
            else {}
        )
        yield name, sum(book.values()) / len(book), sum(files.values()) / len(book)


def _id(field: object) -> str:
    """A field without spaces, which would end it."""
    return quote(str(field), safe="/:|,;()+'") or "_"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; a StoreError if the files give another score than the book."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.trec", description="Write TREC files."
    )
    parser.add_argument("notebook")
    notebook: str = parser.parse_args(arguments).notebook
    folder = BUILD / "trec" / notebook
    found = write(answers.read(answers.newest(notebook, settings().profile)), folder)
    differ = [scores for scores in found if abs(scores[2] - scores[3]) >= 1e-9]
    for arm, measure, book, files in found:
        other = f", but {files:.4f} from the files" if (arm, measure, book, files) in differ else ""
        sys.stdout.write(f"{arm}, {measure}: {book:.4f}{other}\n")
    sys.stdout.write(f"The files are in {folder}.\n")
    if differ:
        raise StoreError(
            f"Some rows list too little of their rankings. Make them anew: make notebook NB={notebook}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
