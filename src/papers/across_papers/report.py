"""The advice that the page across the papers opens with."""

from __future__ import annotations

from helpers.results import figures
from helpers.results.outcomes import Outcomes
from helpers.results.verdicts import ALPHA


def advice(outcomes: Outcomes) -> str:
    """What to build for such questions on this run: the quickest arm that is not significantly worse than the best."""
    accuracy = {arm: outcomes.score("accuracy", arm) for arm in outcomes.arms}
    seconds = {arm: outcomes.score("median(seconds)", arm) for arm in outcomes.arms}
    best = max(outcomes.arms, key=lambda arm: (accuracy[arm].value, -seconds[arm].value))
    rivals = outcomes.against([(best, arm) for arm in outcomes.arms if arm != best], "accuracy")
    level = [best, *(c.second for c in rivals if c.p >= ALPHA)]
    quickest = min(level, key=lambda arm: seconds[arm].value)
    kinds = {kind: outcomes.where(kind=kind).score("accuracy", best) for kind in outcomes.strata("kind")}
    weakest = min(kinds, key=lambda kind: kinds[kind].value)
    text = (
        f"**{outcomes.label(best)}** has the highest accuracy: {figures.score_text(accuracy[best])} of "
        f"{accuracy[best].n} questions, at {figures.score_text(seconds[best], 'seconds')} each. "
    )
    if len(level) > 1:
        names = ", ".join(outcomes.label(arm) for arm in level[1:])
        text += f"Not significantly different on these questions: {names}. "
        if quickest != best:
            at = figures.score_text(seconds[quickest], "seconds")
            text += f"The fastest of these is {outcomes.label(quickest)}, at {at}. "
    else:
        text += "Every other architecture is significantly less accurate after Holm correction. "
    return f"{text}Its weakest kind of question: {weakest}, {figures.score_text(kinds[weakest])}."
