"""Write the rankings of a notebook as TREC run and qrels files, and score the files by ir-measures.

python -m evaluation.trec NOTEBOOK

`_build/trec/<notebook>` gets a `.run` for each arm that ranks, and `.qrels` of passages, and of
documents where rows say which one a question was taken from. A rank that a row does not list is
named `unlisted-<rank>`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

OF_SOURCE = "of_source"
"""Stratum of an item whose label names the document that the question was taken from."""
PASSAGES = {
    "nDCG@10": nDCG @ 10,
    "P@5": P @ 5,
    "R@10": R @ 10,
    "MRR": RR,
    "AP": AP,
    "answer_found": Success @ 6,
}
DOCUMENTS = {"document_recall": R @ 6, "mrr": RR, "ndcg": nDCG @ 6}
MEASURES = {"passages": PASSAGES, "documents": DOCUMENTS}
"""Measures of a ranking, as ir-measures names them, by level."""
ROUNDING = 1e-9
"""Scores that differ by less are the same."""

Relevant = Mapping[str, Mapping[str, int]]
"""Grade of each relevant id, by unit."""


@dataclass(frozen=True)
class FileScore:
    """A mean that the book has, beside the one that the files give.

    Attributes:
        ranking: Level and arm.
        measure: Name of the measure.
        book: The mean of the rows.
        files: The mean of the files.
    """

    ranking: str
    measure: str
    book: float
    files: float

    def differs(self) -> bool:
        """Whether the files give another score than the book."""
        return abs(self.book - self.files) >= ROUNDING


def write(rows: pd.DataFrame, folder: Path) -> list[FileScore]:
    """Write the rankings of rows, in place of earlier files.

    Args:
        rows: Rows of the table of answers.
        folder: Folder of the files.

    Returns:
        The scores of the files, beside those of the book.

    Raises:
        StoreError: If no row has a ranking.
    """
    rows = _rows_of_ranking_arms(rows[rows.repeat == 0])
    if rows.empty:
        raise StoreError("No row of this notebook has a ranking.")
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.run"), *folder.glob("*.qrels")]:
        path.unlink()
    scores: list[FileScore] = []
    for level in MEASURES:
        relevant = _relevant_by_unit(level, rows)
        if level == "documents" and not any(relevant.values()):
            continue
        qrels = _write_qrels(folder / f"{level}.qrels", relevant)
        for (task, arm), arm_rows in rows.groupby(["task", "arm"], sort=False):
            names = [_id(part) for part in (arm, task) if part]
            path = folder / f"{level}.{'.'.join(names)}.run"
            _write_run(path, level, str(arm), arm_rows)
            scores += _scores(path, qrels, arm_rows, level)
    return scores


def _rows_of_ranking_arms(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of arms that rank, with those in which an arm found nothing."""
    has_ranking = [_is_ranking(items) for items in rows["items"]]
    ranks = pd.Series(has_ranking, index=rows.index, dtype=bool)
    of_arm = ranks.groupby([rows.task, rows.arm])
    return rows[of_arm.transform("any").astype(bool)]


def _is_ranking(items: Sequence[Item]) -> bool:
    return any(item.rank for item in items)


def _relevant_by_unit(level: str, rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    relevant: dict[str, dict[str, int]] = {}
    for unit, items in zip(rows.unit, rows["items"], strict=True):
        relevant.setdefault(unit, {}).update(_relevant(level, items))
    return relevant


def _write_qrels(path: Path, relevant: Relevant) -> Path:
    lines = []
    for unit, grades in relevant.items():
        for name, grade in sorted(grades.items()):
            lines.append((unit, 0, name, grade))
    return _write_lines(path, lines)


def _write_run(path: Path, level: str, arm: str, rows: pd.DataFrame) -> Path:
    lines = []
    for unit, items in zip(rows.unit, rows["items"], strict=True):
        for rank, name in enumerate(_ranked(level, items), start=1):
            lines.append((unit, "Q0", name, rank, 1 / rank, arm))
    return _write_lines(path, lines)


def _write_lines(path: Path, lines: Sequence[tuple[object, ...]]) -> Path:
    text = ""
    for fields in lines:
        text += " ".join(_id(field) for field in fields) + "\n"
    path.write_text(text, "utf-8")
    return path


def _id(field: object) -> str:
    """A field without spaces, which would end it."""
    return quote(str(field), safe="/:|,;()+'") or "_"


def score_rankings(
    measures: Mapping[str, Any], grades: Relevant, rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Score rankings by ir-measures.

    Args:
        measures: Measures of ir-measures, by name.
        grades: Grade of each relevant id, by unit.
        rankings: Ids, best first, by unit.

    Returns:
        Each measure by name, by unit; 0 for a ranking without any result.
    """
    run = {}
    for unit, ranking in rankings.items():
        if ranking:
            # A score for each rank, so that nothing is tied.
            run[unit] = {name: 1 / rank for rank, name in enumerate(ranking, start=1)}
    scores = {unit: dict.fromkeys(measures, 0.0) for unit in rankings}
    if not run:
        return scores
    names = {metric: name for name, metric in measures.items()}
    qrels = {unit: dict(grades[unit]) for unit in rankings}
    for result in ir_measures.iter_calc(list(names), qrels, run):
        scores[result.query_id][names[result.measure]] = result.value
    return scores


def _ranked(level: str, items: Sequence[Item]) -> list[str]:
    """Ids in a row's ranking, best first: of passages, or of documents by their first passage."""
    listed = {item.rank: item for item in items if item.rank}
    if level == "documents":
        labels = [listed[rank].label for rank in sorted(listed)]
        return list(dict.fromkeys(labels))
    ids = []
    for rank in range(1, max(listed, default=0) + 1):
        ids.append(listed[rank].id if rank in listed else f"unlisted-{rank}")
    return ids


def _relevant(level: str, items: Sequence[Item]) -> dict[str, int]:
    """Relevant ids of a row. The grade of a passage is its label if that is a number, else 1."""
    if level == "documents":
        return {item.label: 1 for item in items if OF_SOURCE in item.strata}
    grades = {}
    for item in items:
        if item.gold:
            grades[item.id] = int(item.label) if item.label.isdigit() else 1
    return grades


def _scores(run: Path, qrels: Path, rows: pd.DataFrame, level: str) -> Iterator[FileScore]:
    """Mean of each measure that the rows have, by the rows and by the files."""
    arm = rows.arm.iloc[0]
    for name, measure in MEASURES[level].items():
        book = {}
        for unit, measures in zip(rows.unit, rows.measures, strict=True):
            if name in measures:
                book[_id(unit)] = measures[name][0]
        if book:
            files_sum = _sum_of_files(run, qrels, measure, book.keys())
            book_mean = sum(book.values()) / len(book)
            yield FileScore(f"{level}: {arm}", name, book_mean, files_sum / len(book))


def _sum_of_files(run: Path, qrels: Path, measure: Any, units: Any) -> float:  # noqa: ANN401
    """The sum of a measure over units; one without results is in no run file, and has 0."""
    judged = [line for line in ir_measures.read_trec_qrels(str(qrels)) if line.query_id in units]
    ranked = [line for line in ir_measures.read_trec_run(str(run)) if line.query_id in units]
    if not ranked:
        return 0
    values = {
        result.query_id: result.value for result in ir_measures.iter_calc([measure], judged, ranked)
    }
    return sum(values.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Raises:
        StoreError: If the files give another score than the book.
    """
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.trec", description="Write TREC files."
    )
    parser.add_argument("notebook")
    notebook: str = parser.parse_args(arguments).notebook
    folder = BUILD / "trec" / notebook
    newest = answers.newest(notebook, settings().profile)
    scores = write(answers.read(newest), folder)
    for score in scores:
        text = f"{score.ranking}, {score.measure}: {score.book:.4f}"
        if score.differs():
            text += f", but {score.files:.4f} from the files"
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"The files are in {folder}.\n")
    if any(score.differs() for score in scores):
        raise StoreError(
            "Some rows list too little of their rankings. "
            f"Make them anew: make notebook NB={notebook}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
