"""Read a number as a paper prints it: percent signs, thousands, signs, units, ranges."""

import re
from decimal import Decimal
from typing import Final

_NUMERAL: Final = re.compile(r"(?<![\w.])([+\-\N{MINUS SIGN}]?)(\d[\d,]*(?:\.\d+)?)(\s*%)?")
_RANGE: Final = re.compile(
    r"\d\s*%?\s*(?:-|\N{EN DASH}|\N{EM DASH}|\bto\b|\N{PLUS-MINUS SIGN})\s*\d"
)
_MINUS: Final = ("-", "\N{MINUS SIGN}")


def has_percent_sign(printed: str) -> bool:
    """Whether a printed number is a share of 100."""
    return "%" in printed


def decimals(printed: str) -> int:
    """The number of digits behind the point of the first numeral; 0 if there is none."""
    numeral = _NUMERAL.search(printed)
    _, _, digits = numeral[2].partition(".") if numeral else ("", "", "")
    return len(digits)


def parse(printed: str, unit: str) -> float:
    """Read the value of a printed number in its unit.

    Args:
        printed: As it stands in the paper, for example ``25.59%``, ``5,990`` or ``Qwen +2.13%``.
        unit: Of ``published.Unit``. A percentage of the unit ``fraction`` is divided by 100.

    Returns:
        The value, exactly as the digits say it: ``25.59%`` is the float 0.2559.

    Raises:
        ValueError: If there is no numeral, or more than one that could be meant.
    """
    numerals = list(_NUMERAL.finditer(printed))
    if not numerals:
        raise ValueError(f"printed {printed!r} holds no number")
    if len(numerals) > 1 or _RANGE.search(printed):
        raise ValueError(f"printed {printed!r} holds more than one number; state `value` beside it")
    sign, digits, _ = numerals[0].groups()
    value = Decimal(digits.replace(",", ""))
    if sign in _MINUS:
        value = -value
    if unit == "fraction" and has_percent_sign(printed):
        value /= 100
    return float(value)
