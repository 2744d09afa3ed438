"""Audit a table of answers, of a run or one's own, for ways in which its scores mislead.

python -m evaluation.audit TABLE
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from evaluation import audit_checks, figures, paired
from evaluation.audit_checks import JUDGE_SCORES, OWN, PLACE, ROWS_BESIDE_CUT, SUBSET, CheckedPart
from evaluation.audit_input import read
from evaluation.metrics import ALPHA
from evaluation.outcomes import Outcomes
from resources.settings import run_command_line

__all__ = ["CHECKS", "DRAWS", "OWN", "PLACE", "SUBSET", "audit", "audit_table", "main", "read"]

DRAWS: Final = 500
"""Bootstrap samples of an audit: enough to tell 0.05 apart, and fast."""


@dataclass(frozen=True)
class Check:
    """A check of an audit.

    Attributes:
        find: Yields the groups of rows that it applies to.
        needs: The columns that it needs, in words.
    """

    find: Callable[[Outcomes], Iterator[CheckedPart]]
    needs: str


CHECKS: Final = {
    "A label inside a name is read as the answer": Check(
        audit_checks.labels_in_names, "question, predicted, and gold of a few labels"
    ),
    "Answers are rarely right beyond a place in the prompt": Check(
        audit_checks.cut_off, f"measures: {PLACE} and accuracy, of {2 * ROWS_BESIDE_CUT} rows"
    ),
    "A gain depends on whether the source is indexed": Check(
        audit_checks.leakage, f"strata: '{OWN}'; and a significant gain"
    ),
    "A method is not shown to beat a floor": Check(
        audit_checks.floors, "predicted and gold of a few labels, or names in the question"
    ),
    "Questions repeat across splits or clusters": Check(audit_checks.duplicates, "question"),
    "A gain is significant only if clusters are ignored": Check(
        audit_checks.clusters_ignored, "cluster, with several questions; two arms"
    ),
    "A judge is not shown to beat chance": Check(
        audit_checks.judges_at_chance, f"of, gold YES or NO, and one of {', '.join(JUDGE_SCORES)}"
    ),
}


def audit(out: Outcomes, max_groups: int = 3) -> pd.DataFrame:
    """Run all checks.

    Args:
        out: Answers of any arms and sources.
        max_groups: Number of groups of rows whose numbers are shown.

    Returns:
        One row per check: its verdict, with the number of groups of rows, and the numbers of some
        and how many more there are. P-values are adjusted by Holm's method within a check.
    """
    rows = []
    for name, check in CHECKS.items():
        parts = list(check.find(out))
        adjusted = paired.holm([part.p for part in parts])
        found = []
        for part, p in zip(parts, adjusted, strict=True):
            if part.suspect and p < ALPHA:
                found.append(part)
        shown = found or parts
        texts = [_part_text(part) for part in shown[:max_groups]]
        if len(shown) > max_groups:
            texts.append(f"{len(shown) - max_groups} more")
        rows.append((name, _verdict(check, len(found), len(parts)), " | ".join(texts)))
    return pd.DataFrame(rows, columns=["check", "verdict", "numbers"])


def _verdict(check: Check, n_found: int, n_parts: int) -> str:
    if not n_parts:
        return f"not applicable: needs {check.needs}"
    return f"found in {n_found} of {n_parts}" if n_found else "not found"


def _part_text(part: CheckedPart) -> str:
    return f"{part.where}: {part.numbers}" if part.where else part.numbers


def audit_table(out: Outcomes) -> figures.Html:
    """Tabulate the audit of a chapter's released answers, with three findings of each check."""
    result = audit(out)
    is_found = result.verdict.str.startswith("found")
    verdicts = result.verdict.str.partition(":")[0]
    table = result.assign(numbers=result.numbers.where(is_found, ""), verdict=verdicts)
    return figures.table(table, "Audit of the released answers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: it takes what `read` takes."""
    [table] = sys.argv[1:] if arguments is None else arguments
    out = read(Path(table))
    arms = sorted(set(out.frame.arm) - {""})
    names = ", ".join(arms) or "one system"
    n_unparsed = (~out.frame.parsed.astype(bool)).sum()
    sys.stdout.write(f"{len(out.frame):,} rows of {names}; {n_unparsed:,} without an answer\n")
    for row in audit(out).itertuples():
        lines = [f"{row.check}: {row.verdict}"]
        lines += [text for text in str(row.numbers).split(" | ") if text]
        sys.stdout.write("\n  ".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
