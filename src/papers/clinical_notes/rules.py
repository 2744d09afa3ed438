"""Rules of claims in `data/published/clinical_notes.yml` that the grammar of rules cannot express.

Each takes the rows of a run, and facts that a notebook hands over, and returns a Decision.
"""

from typing import Any

from evaluation import decisions
from evaluation.decisions import Decision
from evaluation.outcomes import Outcomes


def filters_respected(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # other rules' facts
    """Count the questions with a candidate of another patient or period than they name.

    The candidates of a question are the same for every arm that filters, so one row of each
    question is enough.
    """
    rows = outcomes.rows_with("candidates_outside").drop_duplicates("unit")
    if rows.empty:
        why = "No question of this run names a patient or a period."
        return Decision("not tested", why, reason="no answers")
    n_outside = [measures["candidates_outside"][0] for measures in rows.measures]
    n_wrong = sum(count > 0 for count in n_outside)
    n_dated = sum(strata.get("period named") == "yes" for strata in rows.strata)
    why = (
        f"{n_wrong} of {len(rows)} questions that name a patient or a period have a candidate from "
        f"another one; {n_dated} of the questions name a period."
    )
    return Decision(decisions.exactly(n_wrong == 0), why)
