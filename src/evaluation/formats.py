"""Write numbers, scores and tests as tables and sentences show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import markupsafe
import pandas as pd

if TYPE_CHECKING:
    from evaluation.metrics import Score
    from evaluation.paired import Paired

NO_VALUE: Final = "\N{EN DASH}"
MINUS: Final = "\N{MINUS SIGN}"
NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"
_WRITTEN: Final = re.compile(
    rf"{NO_VALUE}|[<~+{MINUS}-]? ?\d[\d,.]*( ?%| s| pp| /s)?( \[[^]]*\])?(, [\d,]+ unparsed)?"
)
_NUMBER_WORDS: Final = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
)
SHORT_SECONDS: Final = 0.05
"""Seconds below this have four digits."""
ALMOST_ALL: Final = 0.9995
"""From this on a share would round to 100.0 %."""
SMALLEST_P: Final = 0.001


@dataclass(frozen=True)
class _UnitFormat:
    """How a number of a unit is written: format, suffix, and what it is multiplied by."""

    spec: str
    suffix: str
    factor: int = 1


# z: what is rounded to nothing has no minus sign
_UNIT_FORMATS: Final = {
    "fraction": _UnitFormat("z.1f", " %", 100),
    "seconds": _UnitFormat("z,.2f", " s"),
    "per_second": _UnitFormat("z,.3g", " /s"),
    "count": _UnitFormat("z,.0f", ""),
    "ratio": _UnitFormat("z.2f", ""),
    "percentage_points": _UnitFormat("+z.2f", " pp"),
}


def number(value: float | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """Write one number with its unit: `96.5 %`, `0.09 s`, `11 /s`, `19,520`, `+0.31 pp`.

    Args:
        value: The number. If it is None or NaN, a dash is written.
        unit: One of the units that `measures.unit` and `published.Unit` name.
        digits: Digits after the decimal point, in place of those of the unit.

    Raises:
        ValueError: If the unit is unknown.
    """
    if value is None or pd.isna(value):
        return NO_VALUE
    if unit not in _UNIT_FORMATS:
        raise ValueError(f"There is no unit {unit!r}. The units are {', '.join(_UNIT_FORMATS)}.")
    unit_format = _UNIT_FORMATS[unit]
    spec = unit_format.spec
    if digits is not None:
        spec = re.sub(r"\d[fg]", f"{digits}f", spec)
    scaled = unit_format.factor * float(value)
    return f"{scaled:{spec}}{unit_format.suffix}".replace("-", MINUS)


def in_words(n: int) -> str:
    """A count as a sentence writes it: zero to nine in words."""
    return _NUMBER_WORDS[n] if n < len(_NUMBER_WORDS) else number(n, "count")


def quoted(text: str) -> str:
    """A text in quotation marks."""
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}"


def quoted_names(names: Sequence[str]) -> list[str]:
    """Quote all names if one holds an "and", which a sentence would read as its own."""
    needs_quotes = any(" and " in name for name in names)
    return [quoted(name) if needs_quotes else name for name in names]


def listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def score_text(score: Score | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """Write a score with its 95 % interval and its unparsed answers: `96.5 % [95.9, 97.0]`.

    Args:
        score: The score; a dash is written if there is none.
        unit: As in `number`.
        digits: As in `number`. By default seconds below 0.05 have four digits, and a share that
            would round to 100.0 % has two.
    """
    if score is None or pd.isna(score.value):
        return NO_VALUE
    if digits is None:
        digits = _digits_of_extremes(score.value, unit)
    value = number(score.value, unit, digits=digits)
    text = value + interval(score.low, score.high, unit, digits=digits)
    return f"{text}, {score.unparsed:,} unparsed" if score.unparsed else text


def _digits_of_extremes(value: float, unit: str) -> int | None:
    if unit == "seconds" and 0 < value < SHORT_SECONDS:
        return 4
    if unit == "fraction" and ALMOST_ALL <= value < 1:
        return 2
    return None


def interval(
    low: float | None, high: float | None, unit: str = "fraction", *, digits: int | None = None
) -> str:
    """Write the bounds alone, without their unit: ` [95.9, 97.0]`.

    Args:
        low: Lower bound. If a bound is missing, the text is empty.
        high: Upper bound.
        unit: As in `number`.
        digits: As in `number`.
    """
    if pd.isna(low) or pd.isna(high):
        return ""
    lower = number(low, unit, digits=digits).split(" ")[0]
    upper = number(high, unit, digits=digits).split(" ")[0]
    return f" [{lower}, {upper}]"


def signed(value: float, digits: int) -> str:
    """A difference: `+0.010`."""
    return f"{value:+z.{digits}f}".replace("-", MINUS)


def points(test: Paired | pd.Series) -> str:
    """A difference of shares in hundredths, with its 95 % interval: `+15.0 [+2.8, +26.2]`."""
    return points_text(test.difference, test.low, test.high)


def points_text(value: float, low: float, high: float) -> str:
    """A difference of shares, as `points` writes it, by three numbers."""
    texts = [signed(100 * share, 1) for share in (value, low, high)]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def p_text(p: float) -> str:
    """A p-value in a table: `0.042`, `< 0.001`."""
    return f"< {SMALLEST_P}" if p < SMALLEST_P else f"{p:.3f}"


def p_words(p: float) -> str:
    """A p-value in a sentence, on one line: `p = 0.042`, `p < 0.001`."""
    sign = "" if p < SMALLEST_P else "= "
    return f"p {sign}{p_text(p)}".replace(" ", NO_BREAK_SPACE)


def is_written(value: object) -> bool:
    """Whether a text, or what a link shows, is a number or a score, as here or in a paper."""
    text = value.striptags() if isinstance(value, markupsafe.Markup) else value
    return isinstance(text, str) and bool(_WRITTEN.fullmatch(text))


def unbroken(text: str) -> str:
    """A number or score that breaks only before its interval and its unparsed answers.

    HTML stays as it is.
    """
    if isinstance(text, markupsafe.Markup):
        return text
    return re.sub(r"(?<!\],) (?!\[)", NO_BREAK_SPACE, text)
