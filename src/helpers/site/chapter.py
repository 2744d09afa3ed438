"""A table that chapters share: where a paper disagrees with itself."""

from __future__ import annotations

import pandas as pd

from helpers.results.published import Contradiction, Published


def contradictions_table(printed: Published) -> pd.DataFrame:
    """Where the paper disagrees with itself, from `data/published`; the last column if printed numbers are at odds."""
    at_odds = any(c.numbers for c in printed.contradictions)
    return pd.DataFrame(
        [
            {
                "about": c.about,
                "one place": f"{c.says[0].what} ({c.says[0].where})",
                "another place": "; ".join(f"{s.what} ({s.where})" for s in c.says[1:]),
            }
            | ({"printed numbers at odds": _printed(printed, c)} if at_odds else {})
            for c in printed.contradictions
        ]
    )


def _printed(printed: Published, contradiction: Contradiction) -> str:
    return ", ".join(dict.fromkeys(printed.number(id).printed for id in contradiction.numbers))
