"""Verdicts on claims as a page shows them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from evaluation import figures
from evaluation.markup import Markup
from evaluation.published import BASIS_LABELS, Claim, Contradiction
from evaluation.record import Run
from evaluation.records import Finding, HereFinding
from evaluation.vocabulary import ANSWERED_HERE, HERE_WORDS, TESTED

_COMPARISON_END: Final = re.compile(r"(\bn = [\d,]+[^().;]*\)\.) |(\bn = [\d,]+); ")
_FEWEST_FOLDED: Final = 3
"""Number of untested claims from which a list folds them together."""
FINDINGS_CLASS: Final = "rag-findings"
"""CSS class of the list of verdicts. The book shows one list in the place of all."""


def findings(
    claims: Iterable[Claim],
    found: Iterable[Finding],
    here_findings: Iterable[HereFinding] = (),
    *,
    sample: bool,
) -> figures.Html:
    """List claims with the answers to both questions: for the paper's system, and here.

    Args:
        claims: Claims to list, in this order.
        found: The verdicts of a run.
        here_findings: Whether the claims hold by the models that ran.
        sample: Whether the run used sample data, which decides nothing.

    Returns:
        One line per claim that the run answers or says to be untested, with the evidence and the
        rule folded in. Three or more untested claims are folded together at the end. Empty if
        there is no claim.
    """
    all_found = list(found)
    here_by_id = {finding.id: finding for finding in here_findings}
    lines: list[Markup] = []
    tested: list[Markup] = []
    untested: list[Markup] = []
    for claim in claims:
        of_claim = [finding for finding in all_found if finding.id == claim.id]
        answer = here_by_id.get(claim.id)
        if not of_claim and not answer:
            continue
        line = _finding_line(claim, of_claim, answer, sample=sample)
        lines.append(line)
        (tested if _is_tested(of_claim, answer) else untested).append(line)
    if not lines:
        return figures.Html("", "")
    if len(untested) < _FEWEST_FOLDED:
        return _folded_list(FINDINGS_CLASS, lines, separator="\n")
    shown = _folded_list(FINDINGS_CLASS, [*tested, _folded_together(untested)], separator="\n")
    return replace(shown, text=_plain_lines([*tested, *untested]))


def _is_tested(found: Iterable[Finding], here_finding: HereFinding | None) -> bool:
    """Whether a run tests a claim, for the paper's system or by its own models."""
    if any(finding.verdict in TESTED for finding in found):
        return True
    return here_finding is not None and here_finding.answer in ANSWERED_HERE


def _folded_together(untested: Sequence[Markup]) -> Markup:
    """One item for claims that no run here tests. Each of them still unfolds."""
    return Markup(
        "<li><details><summary>{} claims that this run does not test</summary>"
        "<ul>{}</ul></details></li>"
    ).format(len(untested), Markup("\n").join(untested))


def _finding_line(
    claim: Claim, found: Sequence[Finding], here_finding: HereFinding | None, *, sample: bool
) -> Markup:
    answers = []
    evidence = Markup()
    for finding in found:
        label = BASIS_LABELS[finding.kind]
        text = "SAMPLE" if sample and finding.verdict in TESTED else finding.verdict
        answers.append(_answer_mark(f"{label}:", text, finding.reason))
        why = evidence_lines(finding.why)
        evidence += Markup("<p>{}: {}</p>").format(label.capitalize(), why)
    if here_finding:
        answers.append(_here_mark(here_finding, sample=sample))
        if here_finding.why not in [finding.why for finding in found]:
            why = evidence_lines(here_finding.why)
            evidence += Markup("<p>{}: {}</p>").format(here_label(here_finding), why)
    if claim.note:
        evidence += Markup("<p>{}</p>").format(claim.note)
    here_findings = [here_finding] if here_finding else []
    rule = [*found, *here_findings][0].test
    return Markup("<li><details><summary>{} {}</summary>{}<p>Rule: {}</p></details></li>").format(
        claim.text, Markup(" ").join(answers), evidence, rule
    )


def evidence_lines(why: str) -> Markup:
    """Evidence for the page, with a line for each comparison."""
    lines = []
    start = 0
    for match in _COMPARISON_END.finditer(why):
        lines.append(why[start : match.end(match.lastindex or 0)])
        start = match.end()
    return Markup("<br>").join([*lines, why[start:]])


def here_word(answer: str) -> str:
    """The word of a page for an answer to whether a claim holds here."""
    return HERE_WORDS.get(answer, answer)


def _here_mark(finding: HereFinding, *, sample: bool) -> Markup:
    is_sample = sample and finding.answer in ANSWERED_HERE
    answer = "SAMPLE" if is_sample else here_word(finding.answer)
    return _answer_mark(f"{here_label(finding)}:", answer, finding.reason)


def here_label(here_finding: HereFinding) -> str:
    """Whose answers say whether a claim holds here."""
    if here_finding.models:
        return f"Here, by {figures.listed(here_finding.models)}"
    return "Here"


def _answer_mark(label: str, text: str, reason: str | None) -> Markup:
    mark = verdict_with_reason(text, reason)
    return Markup('<span class="rag-source">{} {}</span>').format(label, mark)


def disagreements(run: Run) -> figures.Html:
    """List where a paper contradicts itself or its release, or is unclear.

    The places are those of `data/published`.
    """
    contradictory = []
    unclear = []
    for contradiction in run.printed.contradictions:
        line = _contradiction_line(run, contradiction)
        if contradiction.reconciled:
            unclear.append(line)
        else:
            contradictory.append(line)
    shown = _headed_list("Contradictory statements", contradictory)
    if not unclear:
        return shown
    also_shown = _headed_list("Unclear statements", unclear)
    return figures.Html(f"{shown.html}{also_shown.html}", f"{shown.text}\n{also_shown.text}")


def _contradiction_line(run: Run, contradiction: Contradiction) -> Markup:
    statements = [f"{place.what} ({place.where})" for place in contradiction.says]
    if contradiction.reconciled:
        statements.append(contradiction.reconciled)
    numbers = [run.printed.number(n).printed for n in contradiction.numbers]
    if numbers:
        distinct = list(dict.fromkeys(numbers))
        noun = "value is" if len(distinct) == 1 else "values are"
        statements.append(f"The affected printed {noun} {figures.listed(distinct)}.")
    paragraphs = [Markup("<p>{}</p>").format(statement) for statement in statements]
    return Markup("<li><details><summary>{}</summary>{}</details></li>").format(
        contradiction.about, Markup("").join(paragraphs)
    )


def _headed_list(heading: str, lines: Sequence[Markup]) -> figures.Html:
    lead = Markup('<p class="rag-lead">{}</p>').format(heading)
    shown = _folded_list("rag-folded", lines)
    return replace(shown, html=f"{lead}{shown.html}")


def _folded_list(css_class: str, lines: Sequence[Markup], separator: str = "") -> figures.Html:
    """A list whose items unfold; in a terminal, one line per item."""
    html = Markup('<ul class="{} {}">{}</ul>').format(
        css_class, figures.NO_MATH, Markup(separator).join(lines)
    )
    return figures.Html(str(html), _plain_lines(lines))


def _plain_lines(lines: Iterable[Markup]) -> str:
    return "\n".join(line.striptags() for line in lines)


def verdict_mark(text: str) -> Markup:
    """A verdict for the page. Colour is never its only sign."""
    return Markup('<span class="rag-verdict" data-verdict="{0}">{0}</span>').format(text)


def verdict_with_reason(verdict: str, reason: str | None) -> Markup:
    """An answer about a claim for the page, with the reason if there is none."""
    mark = verdict_mark(verdict)
    return mark + f" ({reason})" if reason else mark
