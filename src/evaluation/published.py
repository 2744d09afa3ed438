"""What the papers print: every number and every claim, stated once in `data/published/<paper>.yml`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from evaluation.measures import measure_label, unit
from resources.settings import PUBLISHED, PublicError

Unit = Literal["fraction", "percentage_points", "seconds", "per_second", "count"]
Kind = Literal["rescored", "rerun"]
Basis = Literal["printed", "rescored", "rerun"]
"""What tests a claim: arithmetic on the printed numbers, the authors' released answers, or answers of this run."""
BASIS_LABELS: Final[dict[Basis, str]] = {
    "printed": "printed numbers",
    "rescored": "released files",
    "rerun": "rerun",
}
RERUN_TOLERANCE: dict[Unit, float] = {"fraction": 0.02, "percentage_points": 2.0, "count": 0.5}
"""How far a rerun may lie from the printed number. Speed, a property of the machine, is not compared."""
_NUMERAL = re.compile(r"\d[\d,]*(?:\.(\d+))?")
EntryT = TypeVar("EntryT", bound="Entry")
WORTHWHILE: Final = 0.02  # the smallest gain that counts, of measures within 0 and 1: the tolerance of a rerun number
ON_PAR: Final = 0.05  # how much worse something may be that is on par, of measures within 0 and 1


class RecordError(PublicError, ValueError):
    """Something about a published number or a record is wrong; the message says what, and what to do."""


class UnknownId(RecordError):
    """An id that the paper's file in `data/published` does not have; the message names the nearest ones."""


class Strict(BaseModel):
    """A model that knows its fields, and no other."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Entry(Strict):
    """What has an id: `paper.place.row.column`."""

    id: str = Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")


class Tolerance(Strict):
    """How far a value may lie from the printed one, in the number's unit; what is left out takes the default."""

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
    """One printed number and its place in the paper; a fraction within 0 and 1, however it is printed."""

    table: str
    row: str
    column: str
    value: float
    printed: str = Field(description="as it stands in the paper, with its digits and its unit")
    unit: Unit
    n: int | None = Field(default=None, ge=1, description="what the paper says it was measured on")
    model: str | None = Field(
        default=None, description="the language model that made it, if any; `A or B` if unsaid"
    )
    tolerance: Tolerance = Tolerance()
    rescore_from: tuple[str, ...] = Field(default=(), description="names in data/registry.yml")
    why_not: str | None = Field(
        default=None, description="why it cannot be rescored, or was not in the reference run"
    )
    why_no_rerun: str | None = Field(default=None, description="why it cannot be rerun by anyone")
    also: tuple[str, ...] = Field(default=(), description="other places where the paper prints it")
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Number:
        if not (self.rescore_from or self.why_not):
            raise ValueError(f"{self.id}: needs rescore_from or why_not")
        numeral = _NUMERAL.search(self.printed)
        if numeral is None:
            raise ValueError(f"{self.id}: printed {self.printed!r} holds no number")
        stated = float(numeral[0].replace(",", "")) * self._scale
        value = abs(self.value) if self.unit == "percentage_points" else self.value
        if not math.isclose(stated, value, rel_tol=1e-12, abs_tol=1e-12):
            raise ValueError(f"{self.id}: printed {self.printed!r} is {stated}, not {self.value}")
        return self

    @property
    def _scale(self) -> float:
        return 0.01 if self.unit == "fraction" and "%" in self.printed else 1.0

    @property
    def _decimals(self) -> int:
        numeral = _NUMERAL.search(self.printed)
        return len(numeral[1] or "") if numeral else 0

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
        if self.unit == "percentage_points":
            return f"{value:+.{places}f} points"
        suffix = {"seconds": " s", "per_second": " per second"}.get(
            self.unit, "%" if self._scale != 1 else ""
        )
        grouped = "" if re.search(r"\d{4}", self.printed) else ","
        return f"{value / self._scale:{grouped}.{places}f}{suffix}"


Arms = Annotated[
    tuple[str, ...], BeforeValidator(lambda arms: (arms,) if isinstance(arms, str) else arms)
]


class Rule(Strict):
    """What must hold for a claim, on the rows of the table of answers. One verb, and what it needs.

    `better` and `on_par` compare each of their arms with each of `than` by paired tests, p adjusted by Holm over the
    rule's own comparisons; `above`, `below` and `exactly` hold one arm against `bound`.
    """

    better: Arms = ()
    on_par: Arms = ()
    above: str = ""
    below: str = ""
    exactly: str = ""
    function: str = Field(
        default="", description="in the paper's module `rules`; takes the rows, gives a Decision"
    )
    all_of: tuple[Rule, ...] = ()
    than: Arms = ()
    measure: str = "accuracy"
    bound: float | None = None
    where: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="columns or strata, and their values"
    )
    each: str = Field(default="", description="a column, within each of whose values it must hold")
    scope: Arms = Field(
        default=(), description="words of the names of the models that the claim is about"
    )
    tie: str = Field(
        default="", description="a measure; arms that are handed the same cannot but tie"
    )
    of: tuple[Basis, ...] = Field(default=("rerun",), min_length=1)
    words_: str = Field(default="", alias="words", description="in place of words made of the rule")

    @model_validator(mode="after")
    def _one_verb(self) -> Rule:
        verbs = (
            self.better,
            self.on_par,
            self.above,
            self.below,
            self.exactly,
            self.function,
            self.all_of,
        )
        if sum(map(bool, verbs)) != 1:
            raise ValueError(
                "a rule has one of better, on_par, above, below, exactly, function, all_of"
            )
        if bool(self.first) != bool(self.than):
            raise ValueError("`than` goes with better and on_par")
        if bool(self.arm) != (self.bound is not None):
            raise ValueError("`bound` goes with above, below and exactly")
        if self.function and not self.words_:
            raise ValueError("a rule by a function says in `words` what the function asks")
        return self

    @property
    def arm(self) -> str:
        """The arm that `above`, `below` or `exactly` is about."""
        return self.above or self.below or self.exactly

    @property
    def first(self) -> tuple[str, ...]:
        """The arms that are compared with those of `than`."""
        return self.better or self.on_par

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it or one of its parts names."""
        of_parts = (arm for part in self.all_of for arm in part.arms)
        return (*filter(None, (self.arm,)), *self.first, *self.than, *of_parts)

    def words(self, label: Callable[[str], str] = str) -> str:
        """The rule as a sentence; `label` gives an arm's name for a reader."""
        if self.words_ or self.all_of:
            return " ".join(self.words_.split()) or " ".join(
                part.words(label) for part in self.all_of
            )
        where = "; ".join(f"{name}: {' or '.join(values)}" for name, values in self.where.items())
        what = f"{measure_label(self.measure)}{f' ({where})' if where else ''}{f', each {self.each}' * bool(self.each)}"
        if not self.than:
            value = self.bound or 0.0
            bound = f"{100 * value:g} %" if unit(self.measure) == "fraction" else f"{value:g}"
            if self.exactly:
                return f"{label(self.arm)}, {what}: exactly {bound}."
            return f"{label(self.arm)}, {what}: the 95 % interval lies {'above' if self.above else 'below'} {bound}."
        family = " adjusted by Holm" if len(self.first) * len(self.than) > 1 or self.each else ""
        held = f"the 95 % interval of the difference lies above {-100 * ON_PAR:g} points"
        held = "every difference is positive and significant" if self.better else held
        first, others = (" and ".join(map(label, arms)) for arms in (self.first, self.than))
        return f"{first} against {others}, {what}: paired randomisation test by cluster{family}; {held}."


class Claim(Entry):
    """A finding in words, and the test that decides it: a rule, or else words for one that a notebook carries out."""

    text: str
    where: str
    test: str = ""
    rule: Rule | None = None
    note: str = ""
    why_not: str = Field(default="", description="why no notebook decides it")
    unasked: str = Field(
        default="", description="why the notebook that would decide it has no answers"
    )

    @model_validator(mode="after")
    def _tested(self) -> Claim:
        if (self.test and self.rule) or not (self.test or self.rule or self.why_not):
            raise ValueError(
                f"{self.id}: needs either a rule or a test in words, or says in why_not that it has none"
            )
        return self

    @property
    def decided_by(self) -> str:
        """The test in words."""
        words = self.rule.words(lambda arm: arm.replace("_", " ")) if self.rule else self.test
        return words or "none: the paper defines no measure"


class Statement(Strict):
    """What the paper says in one place."""

    where: str
    what: str


class Contradiction(Entry):
    """Places where the paper does not agree with itself, and the ids of the printed numbers that are at odds."""

    about: str
    says: tuple[Statement, ...] = Field(min_length=2)
    numbers: tuple[str, ...] = ()


class Published(Strict):
    """All that one paper prints."""

    paper: str
    title: str
    numbers: tuple[Number, ...]
    claims: tuple[Claim, ...]
    contradictions: tuple[Contradiction, ...] = ()

    @model_validator(mode="after")
    def _ids(self) -> Published:
        ids = [entry.id for entry in (*self.numbers, *self.claims, *self.contradictions)]
        for id in ids:
            if ids.count(id) > 1:
                raise ValueError(f"{id}: the id is used twice")
            if not id.startswith(f"{self.paper}."):
                raise ValueError(f"{id}: an id starts with {self.paper}.")
        for id in (id for contradiction in self.contradictions for id in contradiction.numbers):
            self.number(id)
        return self

    def number(self, id: str) -> Number:
        """The number of that id, or UnknownId."""
        return _find(id, self.numbers, f"printed number of {self.paper}")

    def claim(self, id: str) -> Claim:
        """The claim of that id, or UnknownId."""
        return _find(id, self.claims, f"claim of {self.paper}")


def _find(id: str, entries: Sequence[EntryT], what: str) -> EntryT:
    ids = [entry.id for entry in entries]
    if id in ids:
        return entries[ids.index(id)]
    near = difflib.get_close_matches(id, ids, n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(near)}." if near else "None is like it."
    raise UnknownId(f"{id!r} is not the id of a {what}. {hint} The ids stand in data/published.")


def papers() -> list[str]:
    """The papers that have a file in `data/published`."""
    return sorted(path.stem for path in PUBLISHED.glob("*.yml"))


def paper_of(notebook: Path) -> str | None:
    """The paper that a notebook reports on, as it says to `record.start`; None if it does not say."""
    named = re.search(r'\bpaper=\\?"(\w+)', notebook.read_text("utf-8"))
    return named[1] if named else None


@lru_cache
def published(paper: str) -> Published:
    """What a paper prints, from its file; a RecordError if there is none, or an entry of it is wrong."""
    path = PUBLISHED / f"{paper}.yml"
    if not path.is_file():
        raise RecordError(
            f"No published numbers for {paper!r}: {path} is missing. There are: {', '.join(papers())}."
        )
    try:
        return Published.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be used. Correct this and try again:\n{error}") from error
