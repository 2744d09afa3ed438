"""What the papers print: numbers and claims, each stated once in `data/published/<paper>.yml`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from evaluation import printed_numbers
from evaluation.formats import MINUS, listed, quoted
from evaluation.measures import measure_of, unit, with_article
from evaluation.vocabulary import Reason
from resources.settings import PUBLISHED, PublicError

Unit = Literal["fraction", "percentage_points", "seconds", "per_second", "count"]
Kind = Literal["rescored", "rerun"]
Basis = Literal["printed", "rescored", "rerun"]
"""What tests a claim: printed numbers, the authors' released answers, or answers of this run."""
BASIS_LABELS: Final[dict[Basis, str]] = {
    "printed": "printed numbers",
    "rescored": "released files",
    "rerun": "rerun",
}
RERUN_TOLERANCE: dict[Unit, float] = {"fraction": 0.02, "percentage_points": 2.0, "count": 0.5}
"""How far a rerun may lie from the printed number; speed is not compared."""
EntryT = TypeVar("EntryT", bound="Entry")
ON_PAR: Final = 0.05
"""How much worse something may be that is on par, of measures within 0 and 1."""


class RecordError(PublicError, ValueError):
    """Something about a published number or a record is wrong."""


class UnknownId(RecordError):
    """An id that the paper's file in `data/published` does not have."""


class Strict(BaseModel):
    """A model that knows its fields, and no other."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Entry(Strict):
    """What has an id: `paper.place.row.column`."""

    id: str = Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")


class Tolerance(Strict):
    """How far a value may lie from the printed one, in the unit of the number."""

    rescored: float | None = Field(
        default=None, ge=0, description="default: half of the last printed digit"
    )
    rerun: float | None = Field(
        default=None, ge=0, description="default: RERUN_TOLERANCE of the unit"
    )
    drift: float | None = Field(
        default=None, ge=0, description="from the kept reference; default: see `compare`"
    )


class Number(Entry):
    """One printed number and its place in the paper; a fraction lies within 0 and 1."""

    table: str
    row: str
    column: str
    printed: str = Field(description="as it stands in the paper, with its digits and its unit")
    value: float = Field(
        description="read from `printed`; stated where that leaves its sign or choice open"
    )
    unit: Unit
    n: int | None = Field(default=None, ge=1, description="what the paper says it was measured on")
    model: str | None = Field(
        default=None, description="the language model that made it, if any; `A or B` if unsaid"
    )
    tolerance: Tolerance = Tolerance()
    rescore_from: tuple[str, ...] = Field(default=(), description="names in data/registry.yml")
    why_not: str | None = Field(default=None, description="why it cannot be rescored by anyone")
    not_read: str | None = Field(
        default=None, description="why nothing rescores it, though what that needs is published"
    )
    why_no_rerun: str | None = Field(default=None, description="why it cannot be rerun by anyone")
    by_construction: bool = Field(
        default=False, description="whether a rerun can only match it, as the note says"
    )
    also: tuple[str, ...] = Field(default=(), description="other places where the paper prints it")
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _read_value(cls, fields: Any) -> Any:  # noqa: ANN401
        """Read the value from what is printed; one that is stated may only add what that lacks."""
        if not isinstance(fields, dict) or "printed" not in fields:
            return fields
        if fields.get("unit") not in get_args(Unit):  # which the field's own check names
            return fields
        printed, stated = str(fields["printed"]), fields.get("value")
        try:
            value = printed_numbers.parse(printed, fields["unit"])
        except ValueError:
            if stated is None:
                raise
            return fields
        if stated is not None and abs(float(stated)) != abs(value):
            raise ValueError(f"printed {printed!r} is {value}, not {stated}")
        return {"value": value, **fields}

    @model_validator(mode="after")
    def _consistent(self) -> Number:
        if not (self.rescore_from or self.why_not or self.not_read):
            raise ValueError(f"{self.id}: needs rescore_from, why_not or not_read")
        return self

    @property
    def _scale(self) -> float:
        is_percentage = printed_numbers.has_percent_sign(self.printed)
        return 0.01 if self.unit == "fraction" and is_percentage else 1.0

    @property
    def _decimals(self) -> int:
        return printed_numbers.decimals(self.printed)

    @property
    def digits(self) -> int | None:
        """Digits of a share that is printed as 0.494, not as 49.4 %; None for other numbers."""
        return self._decimals if self.unit == "fraction" and self._scale == 1 else None

    def within(self, kind: Kind) -> float | None:
        """The tolerance that holds for a value of this kind; None if it is not compared."""
        stated: float | None = getattr(self.tolerance, kind)
        if stated is not None:
            return stated
        return (
            RERUN_TOLERANCE.get(self.unit)
            if kind == "rerun"
            else 0.5 * 10**-self._decimals * self._scale
        )

    def show(self, value: float, digits: int = 0) -> str:
        """A value written as the paper writes this number, with so many digits more."""
        places = self._decimals + digits
        if self.unit == "seconds" and 0 < abs(value) < 10**-places:
            places = 1 - math.floor(math.log10(abs(value)))  # two digits of what would print as 0
        if self.unit == "percentage_points":
            return f"{value:+.{places}f} points"
        suffix = {"seconds": " s", "per_second": " per second"}.get(
            self.unit, "%" if self._scale != 1 else ""
        )
        grouped = "" if re.search(r"\d{4}", self.printed) else ","
        return f"{value / self._scale:{grouped}.{places}f}{suffix}"


def _as_tuple(arms: object) -> object:
    """Take one name for a tuple of one."""
    return (arms,) if isinstance(arms, str) else arms


Arms = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]


class Rule(Strict):
    """What must hold for a claim, on the rows of the table of answers. One verb, and what it needs.

    `better`, `on_par` and `equivalent` compare each of their arms with each of `than` by paired
    tests, p adjusted by Holm over the rule's own comparisons; `above`, `below` and `exactly` hold
    one arm against `bound`. `all_of` joins rules that must all hold; the first of `first_of` that
    has answers decides.

    The same rule answers both questions about a claim. For the paper's system it sees the rows of
    models within `scope`, judged by `judges`; here it sees the rows of whatever models ran. A rule
    and a function of `papers/<paper>/rules.py` therefore never look at a model's name.

    Modifiers:
        margin: of `better`, the gain that the claim's own words ask for ("far", "much", "clearly"),
            fixed from the text before results are seen; of `on_par` and `equivalent`, how much
            worse or different an arm may be (default `ON_PAR`). In the unit of the measure.
        interaction: a column or stratum and two of its values: the gain of `better` over `than` is
            larger within the first value than within the second. For claims that an effect is
            there under one condition and not under another; two p-values cannot show that.
        where, each: the rows, and a column within each of whose values the rule must hold.
        family: further arms that `better` compares only to adjust p, so that the comparisons of one
            table of the paper have the same p under each claim. They decide nothing, and those
            without answers are left out.
        scope, judges: names of the models, and of the judges, that the claim is about.
        by_construction: sources by whose rows the claim could only hold; it is not asked of them.
    """

    better: Arms = ()
    on_par: Arms = ()
    equivalent: Arms = ()
    above: str = ""
    below: str = ""
    exactly: str = ""
    function: str = Field(
        default="", description="in the paper's module `rules`; takes the rows, gives a Decision"
    )
    all_of: tuple[Rule, ...] = ()
    first_of: tuple[Rule, ...] = Field(
        default=(), description="the first of them that has answers decides"
    )
    than: Arms = ()
    family: Arms = Field(default=(), description="see above")
    measure: str = "accuracy"
    bound: float | None = None
    margin: float | None = Field(default=None, ge=0, description="see above")
    interaction: dict[str, tuple[str, str]] = Field(
        default_factory=dict, max_length=1, description="see above"
    )
    where: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="columns or strata, and their values"
    )
    each: str = Field(default="", description="a column, within each of whose values it must hold")
    scope: Arms = Field(
        default=(), description="words of the names of the models that the claim is about"
    )
    judges: Arms = Field(
        default=(), description="words of the names of the judges that the claim is about"
    )
    here_only: bool = Field(
        default=False,
        description="what it compares is not the paper's system: it answers the second question",
    )
    replaces: str = Field(
        default="", description="with here_only: what ran in the place of which part, in words"
    )
    also_needs: str = Field(
        default="",
        description="what a test needs besides the models of `scope`, in a sentence; a run by "
        "other models, and the paper's page, say it",
    )
    published: str = Field(
        default="",
        description="what would test the claim and is published, in words that begin a sentence; "
        "a run that did not fetch it gives this as the reason",
    )
    partial: bool = Field(
        default=False,
        description="it makes some of the comparisons of a claim whose others were not fetched: it "
        "may refute the claim or leave it open, not support it",
    )
    distinct: bool = Field(
        default=False,
        description="it is about two different models; one that served as both tests nothing",
    )
    tie: str = Field(
        default="", description="a measure; arms that are handed the same test no retrieval"
    )
    by_construction: dict[Basis, str] = Field(
        default_factory=dict,
        description="sources whose rows cannot contradict it, and what makes it hold there",
    )
    bases: tuple[Basis, ...] = Field(default=("rerun",), min_length=1, alias="of")
    words_: str = Field(default="", alias="words", description="in place of words made of the rule")

    @model_validator(mode="after")
    def _one_verb(self) -> Rule:
        verbs = (
            self.first,
            self.above,
            self.below,
            self.exactly,
            self.function,
            self.all_of,
            self.first_of,
        )
        several = sum(map(bool, (self.better, self.on_par, self.equivalent))) > 1
        if several or sum(map(bool, verbs)) != 1:
            raise ValueError(
                "a rule has one of better, on_par, equivalent, above, below, exactly, function, "
                "all_of, first_of"
            )
        if bool(self.first) != bool(self.than):
            raise ValueError("`than` goes with better, on_par and equivalent")
        if bool(self.arm) != (self.bound is not None):
            raise ValueError("`bound` goes with above, below and exactly")
        self._check_modifiers()
        return self

    def _check_modifiers(self) -> None:
        if self.margin is not None and not self.first:
            raise ValueError("`margin` goes with better, on_par and equivalent")
        for name in ("family", "interaction"):
            if getattr(self, name) and not self.better:
                raise ValueError(f"`{name}` goes with better")
        if self.interaction and self.each:
            raise ValueError("`interaction` and `each` do not go together")
        if self.function and not self.words_:
            raise ValueError("a rule by a function says in `words` what the function asks")

    @property
    def arm(self) -> str:
        """The arm that `above`, `below` or `exactly` is about."""
        return self.above or self.below or self.exactly

    @property
    def first(self) -> tuple[str, ...]:
        """The arms that are compared with those of `than`."""
        return self.better or self.on_par or self.equivalent

    @property
    def boundary(self) -> float:
        """The difference or value at which the claim's truth turns."""
        if self.arm:
            return self.bound or 0.0
        if self.better:
            return self.margin or 0.0
        return -self.tolerated

    @property
    def tolerated(self) -> float:
        """How much worse `on_par`, or how different `equivalent`, may be."""
        return ON_PAR if self.margin is None else self.margin

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The rules that it is made of."""
        return self.all_of or self.first_of

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it or one of its parts names."""
        arms = [self.arm] if self.arm else []
        arms += [*self.first, *self.than]
        for part in self.parts:
            arms += part.arms
        return tuple(arms)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of models that it or one of its parts is about."""
        names = list(self.scope)
        for part in self.parts:
            names += part.scopes
        return tuple(names)

    def words(self, label: Callable[[str], str] = str) -> str:
        """The rule as a sentence; ``label`` gives an arm's name for a reader."""
        if self.words_:
            return " ".join(self.words_.split())
        if self.parts:
            joiner = " Without such answers: " if self.first_of else " "
            return joiner.join(part.words(label) for part in self.parts)
        if self.than:
            return self._comparison_in_words(label)
        return self._bound_in_words(label)

    def _rows_in_words(self) -> str:
        """The rows that the rule is restricted to, as its sentence begins; empty for all rows."""
        words = f"for each {self.each}, " if self.each else ""
        where = rows_in_words(self.where)
        return f"{words}{where}, " if where else words

    def _bound_in_words(self, label: Callable[[str], str]) -> str:
        bound = self._in_unit(self.bound or 0.0)
        if self.exactly:
            subject = measure_of(self.measure, label(self.arm))
            return _sentence(f"{self._rows_in_words()}{subject} must be exactly {bound}.")
        side = "above" if self.above else "below"
        interval = measure_of(self.measure, label(self.arm), "the 95 % interval of")
        return _sentence(f"{self._rows_in_words()}{interval} must lie {side} {bound}.")

    def _in_unit(self, value: float) -> str:
        if unit(self.measure) == "seconds":
            return f"{value:g} s"
        return f"{100 * value:g} %" if unit(self.measure) == "fraction" else f"{value:g}"

    def _comparison_in_words(self, label: Callable[[str], str]) -> str:
        first = _each_of([label(arm) for arm in self.first])
        others = _each_of([label(arm) for arm in self.than])
        difference = f"difference in {with_article(self.measure)}, {first} minus {others},"
        rows = self._rows_in_words()
        if self.interaction:
            ((name, (inside, outside)),) = self.interaction.items()
            larger, smaller = (rows_in_words({name: [value]}) for value in (inside, outside))
            return _sentence(
                f"{rows}the {difference} must be larger {larger} than {smaller}. The 95 % interval "
                f"of this change, over clusters, must lie above {self._in_points(self.boundary)}."
            )
        if self.better:
            higher = f"{with_article(self.measure)} must be significantly higher for {first}"
            criterion = _sentence(f"{rows}{higher} than for {others}.")
            margin = f" {self._margin_in_words()}" if self.margin else ""
            return f"{criterion}{margin} {self._test_in_words(label)}"
        is_one = len(self.first) * len(self.than) == 1 and not self.each
        subject = f"{'the' if is_one else 'every'} {difference}"
        criterion = _sentence(f"{rows}{self._criterion_in_words(subject)}.")
        return criterion

    def _test_in_words(self, label: Callable[[str], str]) -> str:
        is_family = len(self.first) * len(self.than) > 1 or bool(self.each or self.family)
        test = "The test is a paired randomisation test by cluster"
        test += ", with Holm's adjustment" * is_family
        if not self.family:
            return f"{test}."
        in_family = listed([label(arm) for arm in self.family])
        also = f"The adjustment also covers the comparisons with {in_family}"
        return f"{test}. {also}, where these have answers."

    def _margin_in_words(self) -> str:
        is_one = len(self.first) * len(self.than) == 1 and not self.each
        interval = f"The 95 % interval of {'the' if is_one else 'every'} difference"
        return f"{interval} must lie above {self._in_points(self.margin or 0.0)}."

    def _criterion_in_words(self, subject: str) -> str:
        margin = self._in_points(self.tolerated)
        if self.equivalent:
            return f"the 95 % interval of {subject} must lie within ±{margin}"
        return f"the 95 % interval of {subject} must lie above {MINUS}{margin}"

    def _in_points(self, value: float) -> str:
        is_share = unit(self.measure) == "fraction"
        return f"{100 * value:g} points" if is_share else f"{value:g}"


def _sentence(text: str) -> str:
    """Begin a sentence with a capital."""
    return text[:1].upper() + text[1:]


def _each_of(names: Sequence[str]) -> str:
    """One name, or `each of a and b`."""
    return names[0] if len(names) == 1 else f"each of {listed(names)}"


_ROWS_OF_TASKS: Final = {
    "rows": "the pairs split by rows",
    "rerank": "the reranked candidates",
    "follow_up": "follow-up questions",
}
_ROWS_OF_STRATA: Final = {
    "kind": "on questions of the kind {}",
    "names": "on names of the kind {}",
    "drug named by": "on questions that name a drug by {}",
    "status": "on notes whose status is {}",
    "own document": "on questions whose own document is {}",
    "holds": "where the contexts contain {}",
}
"""How a sentence names the rows of a stratum, by their values."""


def rows_in_words(where: Mapping[str, Sequence[str]]) -> str:
    """The rows that meet some conditions: `on questions of the kind “two hops”`.

    Args:
        where: Values of each stratum. The task is named only if it stands alone.

    Returns:
        The words, empty if there is no condition.
    """
    conditions = {name: values for name, values in where.items() if any(values)}
    tasks = conditions.pop("task", ())
    if tasks and not conditions:
        names = [_ROWS_OF_TASKS.get(task, f"the {task.replace('_', ' ')}") for task in tasks]
        return f"on {listed(names)}"
    return ", ".join(_rows_of_stratum(name, values) for name, values in conditions.items())


def _rows_of_stratum(name: str, values: Sequence[str]) -> str:
    template = _ROWS_OF_STRATA.get(name, f"on rows whose {name} is {{}}")
    *others, last = [quoted(value.replace("_", " ")) for value in values]
    words = f"{', '.join(others)} or {last}" if others else last
    if others:
        template = template.replace("of the kind ", "of the kinds ")
    return template.format(words)


def _without_underscores(arm: str) -> str:
    return arm.replace("_", " ")


class Claim(Entry):
    """A finding in words, and the test that decides it.

    The test is a rule, or words for one that a notebook carries out.
    """

    text: str
    where: str
    test: str = ""
    rule: Rule | None = None
    note: str = ""
    why_not: str = Field(default="", description="why no notebook decides it")
    by_construction: str = Field(
        default="",
        description="with why_not: why it could not fail here; why_not is then about the paper's "
        "system alone",
    )
    unasked: str = Field(
        default="", description="why the notebook that would decide it has no answers"
    )
    closed: str = Field(
        default="",
        description="why nobody can test the paper's own system; its rule is asked here alone",
    )

    @model_validator(mode="after")
    def _tested(self) -> Claim:
        has_both = bool(self.test and self.rule)
        has_none = not (self.test or self.rule or self.why_not)
        if has_both or has_none:
            raise ValueError(
                f"{self.id}: needs either a rule or a test in words, or says in why_not that it "
                "has none"
            )
        if self.closed and not self.rule:
            raise ValueError(f"{self.id}: `closed` goes with a rule, which is asked here")
        if self.by_construction and not self.why_not:
            raise ValueError(f"{self.id}: `by_construction` goes with `why_not`")
        return self

    @property
    def why_closed(self) -> Reason:
        """Why nobody can test the paper's system, where `why_not` or `closed` says so."""
        return "not public" if self.test or self.closed else "undefined"

    @property
    def decided_by(self) -> str:
        """The test in words."""
        words = self.rule.words(_without_underscores) if self.rule else self.test
        return words or "none, because the paper defines no measure"


Shown = Literal["rendered", "partly", "impossible", "diagram"]
"""Whether the book shows a table or figure: whole, in part, not at all, or drawn anew."""


class Exhibit(Strict):
    """A table or a figure of the paper, and where the book shows it."""

    name: str = Field(description="as the paper calls it; a number's `table` begins with it")
    what: str
    shown: Shown
    chapters: tuple[str, ...] = Field(default=(), description="the notebooks that show it")
    why: str = Field(default="", description="why it is shown in part only, or cannot be")

    @model_validator(mode="after")
    def _says_where_and_why(self) -> Exhibit:
        has_chapters = self.shown in ("rendered", "partly")
        if has_chapters != bool(self.chapters):
            raise ValueError(f"{self.name}: chapters go with what is rendered, whole or in part")
        if (self.shown in ("partly", "impossible")) != bool(self.why):
            raise ValueError(f"{self.name}: `why` goes with what is shown in part or cannot be")
        return self

    def has(self, number: Number) -> bool:
        """Whether it prints a number; `Figure 2 (a)` is a panel of `Figure 2`."""
        return number.table == self.name or number.table.startswith(f"{self.name} ")


class Statement(Strict):
    """What the paper says in one place."""

    where: str
    what: str


class Contradiction(Entry):
    """Places where a paper contradicts itself, and the ids of the numbers that are at odds."""

    about: str
    says: tuple[Statement, ...] = Field(min_length=2)
    reconciled: str = Field(
        default="", description="how the places may agree; they are then unclear, not contradictory"
    )
    numbers: tuple[str, ...] = ()


class Published(Strict):
    """All that one paper prints."""

    paper: str
    title: str
    numbers: tuple[Number, ...]
    claims: tuple[Claim, ...]
    exhibits: tuple[Exhibit, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @model_validator(mode="after")
    def _ids(self) -> Published:
        ids = [entry.id for entry in (*self.numbers, *self.claims, *self.contradictions)]
        for id_ in ids:
            if ids.count(id_) > 1:
                raise ValueError(f"{id_}: the id is used twice")
            if not id_.startswith(f"{self.paper}."):
                raise ValueError(f"{id_}: an id starts with {self.paper}.")
        for contradiction in self.contradictions:
            for id_ in contradiction.numbers:
                self.number(id_)
        return self

    def number(self, id_: str) -> Number:
        """The number of that id, or UnknownId."""
        return _find(id_, self.numbers, f"printed number of {self.paper}")

    def claim(self, id_: str) -> Claim:
        """The claim of that id, or UnknownId."""
        return _find(id_, self.claims, f"claim of {self.paper}")


def _find(id_: str, entries: Sequence[EntryT], kind: str) -> EntryT:
    by_id = {entry.id: entry for entry in entries}
    if id_ in by_id:
        return by_id[id_]
    near = difflib.get_close_matches(id_, list(by_id), n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(near)}." if near else "None is like it."
    raise UnknownId(f"{id_!r} is not the id of a {kind}. {hint} The ids stand in data/published.")


def papers() -> list[str]:
    """The papers that have a file in `data/published`."""
    return sorted(path.stem for path in PUBLISHED.glob("*.yml"))


def paper_of(notebook: Path) -> str | None:
    """The paper that a notebook names to `record.start`; None if it names none."""
    named = re.search(r'\bpaper=\\?"(\w+)', notebook.read_text("utf-8"))
    return named[1] if named else None


@lru_cache
def published(paper: str) -> Published:
    """What a paper prints, from its file.

    Raises:
        RecordError: If there is no file, or an entry of it is wrong.
    """
    path = PUBLISHED / f"{paper}.yml"
    if not path.is_file():
        raise RecordError(
            f"No published numbers for {paper!r}: {path} is missing. "
            f"There are: {', '.join(papers())}."
        )
    try:
        return Published.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be used. Correct this and try again:\n{error}") from error
