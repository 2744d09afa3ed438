"""Word what a query returned: the answer, its evidence, and what the reader must know of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from evaluation import figures
from helpers.counting import counted
from papers.side_effects.catalogue import NO_FREQUENCY, Catalogue, Pair
from papers.side_effects.facts import Facts
from papers.side_effects.label_lock import fact
from papers.side_effects.reading import AskForm
from rag.system_answer import Evidence

MAX_LISTED: Final = 50
"""Names that an answer in words lists; the evidence has all of them."""
MAX_SOURCES: Final = 3
"""Sources that one row of the evidence names."""
STATEMENTS = {
    "reverse": "{drugs} {are} listed with {side_effect}",
    "effects": "{effects} {are} listed for {drug}",
    "class_drugs": "{drugs} among the {cls} {are} listed with {effect}",
    "class_all": "{effects} {are} listed for every drug among the {cls}",
    "class_most": "{effects} {are} listed for more than half of the {cls}",
    "frequency_top": "{effects} of {drug} {have} the highest stated {frequency}",
    "frequency_at_least": "{effects} of {drug} {have} a stated frequency of {percent} % or more",
    "organ_effects": "{effects} of the organ class {organ} {are} listed for {drug}",
    "organ_class": "{drugs} among the {cls} {have} {n} or more listed effects of the class {organ}",
    "compare_shared": "{effects} {are} listed for both {a} and {b}",
    "compare_only": "{effects} {are} listed for {a} and not for {b}",
    "why_effects": "{effects} of the organ class {organ} {are} listed for both {a} and {b}",
    "why_classmates": "{drugs} of the classes of {drug} {are} listed with {effect}",
}
"""What the answer of each form that returns names states before it lists them."""
OTHER_DRUGS: Final = ("why_classmates",)
"""Forms whose drugs are others than the one in the question."""
NONE_RANKED = "No side effect of {drug} has a stated frequency."
RANKED = "For each effect, the highest stated lower bound counts; the range shows all statements."


@dataclass(frozen=True)
class Result:
    """What a query returned, in words.

    Attributes:
        text: The answer.
        evidence: The listings behind it.
        names: The names that it returned.
        label: Whether what was asked is listed; None for a question that asks for names.
        notes: What the reader must know too.
    """

    text: str
    evidence: tuple[Evidence, ...]
    names: tuple[str, ...] = ()
    label: bool | None = None
    notes: tuple[str, ...] = ()


def make_result(
    catalogue: Catalogue,
    form: AskForm,
    parameters: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> Result:
    """Word the rows that the query of a form returned.

    Args:
        catalogue: What the question is about.
        form: The form of the question.
        parameters: The names and numbers in it.
        rows: What the graph returned.
    """
    if form.name == "forward":
        return _pair_result(catalogue, (parameters["drug"], parameters["side_effect"]), bool(rows))
    if form.name == "both":
        return _both_result(catalogue, parameters, rows)
    names = _names(form, rows)
    evidence = [_name_evidence(catalogue, form, parameters, name) for name in names]
    text = _state(form, parameters, len(names))
    listed = names
    if form.name.startswith("frequency"):
        listed = [_with_frequency(catalogue, parameters["drug"], name) for name in names]
        text = text if names else f"{text} {_why_none(catalogue)}".strip()
    if names:
        text += f": {_list_in_words(listed)}."
    notes = _coverage_notes(catalogue, form, parameters, names)
    return Result(text, tuple(evidence), tuple(names), notes=tuple(notes))


def _state(form: AskForm, parameters: Mapping[str, Any], n: int) -> str:
    """State how many names an answer has, as a sentence that ends where they begin."""
    if not n and form.name == "frequency_top":
        return NONE_RANKED.format(**parameters)
    other = "other " if form.name in OTHER_DRUGS else ""
    nouns = {"drugs": f"{other}drug", "effects": "side effect"}
    counts = {key: counted(n, noun) if n else f"No {noun}" for key, noun in nouns.items()}
    verbs = {"are": "is", "have": "has"} if n < 2 else {"are": "are", "have": "have"}
    frequency = "frequency" if n < 2 else "frequencies"
    percent = f"{100 * parameters.get('share', 0):g}"
    further = {"percent": percent, "frequency": frequency}
    text = STATEMENTS[form.name].format(**parameters, **counts, **verbs, **further)
    return text if n else f"{text}."


def _why_none(catalogue: Catalogue) -> str:
    """Why no frequency is stated, if that is because no column has it."""
    return "" if catalogue.no_frequency == NO_FREQUENCY else catalogue.no_frequency


def _names(form: AskForm, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names in the rows, in the order of the query if it ranks them."""
    if form.name == "reverse":
        return sorted(drug for row in rows for drug in row["drugs"])
    names = [str(row["answer"]) for row in rows]
    return names if form.name == "frequency_top" else sorted(names)


def _list_in_words(names: Sequence[str]) -> str:
    """List names; with semicolons where one of them has a comma."""
    n_more = len(names) - MAX_LISTED
    items = [*names[:MAX_LISTED], f"{n_more:,} more"] if n_more > 0 else list(names)
    if any("," in item for item in items):
        return "; ".join(items)
    return figures.listed(items)


def _pair_result(catalogue: Catalogue, pair: Pair, listed: bool) -> Result:
    drug, effect = pair
    label = "YES" if listed else "NO"
    text = f"{label}. {fact(drug, effect, listed=listed)}"
    if not listed:
        return Result(text, (), label=False)
    frequency = catalogue.frequency_in_words(drug, effect)
    text += f" Frequency: {frequency}." if frequency else f" {catalogue.no_frequency}"
    return Result(text, _pair_evidence(catalogue, pair), label=True)


def _pair_evidence(catalogue: Catalogue, pair: Pair) -> tuple[Evidence, ...]:
    """Return the listing of a pair, and each statement of its frequency."""
    drug, effect = pair
    listing = {"drug": drug, "side_effect": effect}
    evidence = [Evidence(f"{drug}: {effect}", catalogue.source(drug, effect), listing)]
    for statement in catalogue.frequencies.get(pair, ()):
        values = {**listing, "frequency": statement.words}
        text = f"{drug}: {effect}, frequency {statement.words}"
        evidence.append(Evidence(text, statement.source, values))
    return tuple(evidence)


def _both_result(
    catalogue: Catalogue, parameters: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Result:
    effect = parameters["side_effect"]
    drugs = (parameters["a"], parameters["b"])
    returned = {row["drug"] for row in rows}
    having = [drug for drug in drugs if drug in returned]
    lacking = [drug for drug in drugs if drug not in returned]
    label = "NO" if lacking else "YES"
    parts = [f"is listed for {' and '.join(having)}"] if having else []
    parts += [f"is not listed for {' and '.join(lacking)}"] if lacking else []
    text = f"{label}. {effect.capitalize()} {'; it '.join(parts)}."
    evidence: list[Evidence] = []
    for drug in having:
        evidence += _pair_evidence(catalogue, (drug, effect))
    return Result(text, tuple(evidence), tuple(having), label=not lacking)


def _name_evidence(
    catalogue: Catalogue, form: AskForm, parameters: Mapping[str, Any], name: str
) -> Evidence:
    """Return the listings behind one name of an answer."""
    pairs = _pairs_of_name(catalogue, form, parameters, name)
    texts = []
    sources: dict[str, None] = {}
    for drug, effect in pairs:
        texts.append(f"{drug}: {_with_frequency(catalogue, drug, effect)}")
        sources[catalogue.source(drug, effect)] = None
    named = list(sources)
    if len(named) > MAX_SOURCES:
        named[MAX_SOURCES:] = [f"and {len(named) - MAX_SOURCES} more"]
    return Evidence("; ".join(texts), "; ".join(named), {"name": name, "listings": pairs})


def _with_frequency(catalogue: Catalogue, drug: str, effect: str) -> str:
    frequency = catalogue.frequency_in_words(drug, effect)
    return f"{effect} ({frequency})" if frequency else effect


def _pairs_of_name(
    catalogue: Catalogue, form: AskForm, parameters: Mapping[str, Any], name: str
) -> list[Pair]:
    """Return the pairs of a drug and an effect that put a name into the answer."""
    if form.name in ("reverse", "class_drugs", "why_classmates"):
        effect = parameters.get("effect") or parameters["side_effect"]
        return [(name, effect)]
    if form.name == "organ_class":
        effects = sorted(catalogue.facts.of_organ(name, parameters["organ"]))
        return [(name, effect) for effect in effects]
    if form.name in ("class_all", "class_most"):
        return _pairs_in_class(catalogue.facts, parameters["cls"], name)
    drugs = [parameters.get("drug") or parameters["a"]]
    if form.name in ("compare_shared", "why_effects"):
        drugs.append(parameters["b"])
    return [(drug, name) for drug in drugs]


def _pairs_in_class(facts: Facts, class_name: str, effect: str) -> list[Pair]:
    members = sorted(facts.members[class_name])
    return [(drug, effect) for drug in members if effect in facts.effect_set[drug]]


def _coverage_notes(
    catalogue: Catalogue, form: AskForm, parameters: Mapping[str, Any], names: Sequence[str]
) -> list[str]:
    """Say how much of the catalogue the question can reach."""
    notes = []
    facts = catalogue.facts
    if form.name.startswith("frequency"):
        drug = parameters["drug"]
        ranked = facts.ranked[drug]
        n_listed = counted(len(facts.effects[drug]), "listed effect")
        have = "has" if len(ranked) == 1 else "have"
        notes.append(f"Of {n_listed} of {drug}, {len(ranked):,} {have} a stated frequency.")
        notes.append(RANKED)
    if form.name == "frequency_top":
        notes += _tie_notes(facts.ranked[parameters["drug"]], names)
    if "organ" in parameters:
        all_effects = set(chain.from_iterable(facts.effects.values()))
        n_effects = counted(len(all_effects), "side effect")
        have = "has" if len(facts.organs) == 1 else "have"
        notes.append(
            f"Of {n_effects}, {len(facts.organs):,} {have} an organ class; answers about organ "
            "classes leave out the others."
        )
    return notes


def _tie_notes(ranked: Sequence[tuple[float, str]], names: Sequence[str]) -> list[str]:
    """Name the effects that are as frequent as the last one of a ranking."""
    shares = {effect: share for share, effect in ranked}
    if not names:
        return []
    last = min(shares[name] for name in names)
    as_frequent = [effect for share, effect in ranked if share == last]
    ties = [effect for effect in as_frequent if effect not in names]
    if not ties:
        return []
    these = "This effect is" if len(ties) == 1 else "These effects are"
    return [f"{these} as frequent as the last one: {_list_in_words(ties)}."]
