"""A printed number is read as the paper means it, and stated a second time only where it must be."""

import pytest
import yaml
from hypothesis import given, strategies as st

from evaluation import printed_numbers
from resources.settings import PUBLISHED


@pytest.mark.parametrize(
    ("printed", "unit", "value"),
    [
        ("25.59%", "fraction", 0.2559),
        ("81.80 %", "fraction", 0.818),
        ("~30%", "fraction", 0.3),
        ("0.494", "fraction", 0.494),
        ("< 0.01", "fraction", 0.01),
        ("5,990", "count", 5990),
        ("12 GB", "count", 12),
        ("8B", "count", 8),
        ("16-bit", "count", 16),
        ("0.012 q/s", "per_second", 0.012),
        ("2 seconds", "seconds", 2),
        ("Qwen +2.13%", "percentage_points", 2.13),
        ("\N{MINUS SIGN}1.5", "percentage_points", -1.5),
        ("-3", "percentage_points", -3),
    ],
)
def test_a_printed_number_is_read_to_its_last_digit(printed: str, unit: str, value: float) -> None:
    assert printed_numbers.parse(printed, unit) == value


@pytest.mark.parametrize("printed", ["1-5", "10 to 20 %", "3 \N{EN DASH} 4", "0.5 or 0.6", "none"])
def test_what_could_be_two_numbers_is_not_guessed(printed: str) -> None:
    with pytest.raises(ValueError, match="number"):
        printed_numbers.parse(printed, "count")


@given(st.integers(0, 10**7), st.integers(0, 4))
def test_what_is_written_with_thousands_is_read_back(digits: int, places: int) -> None:
    value = digits / 10**places
    printed = f"{value:,.{places}f}"
    assert printed_numbers.parse(printed, "count") == float(f"{value:.{places}f}")
    assert printed_numbers.decimals(printed) == places


def test_no_value_is_stated_that_the_printed_number_says() -> None:
    redundant = []
    for path in sorted(PUBLISHED.glob("*.yml")):
        numbers = yaml.safe_load(path.read_text(encoding="utf-8"))["numbers"] or []
        for number in numbers:
            if "value" in number and _is_said(number):
                redundant.append(number["id"])
    assert not redundant, "leave `value` out of these"


def _is_said(number: dict[str, str]) -> bool:
    """Whether the printed number alone gives the value."""
    try:
        value = printed_numbers.parse(number["printed"], number["unit"])
    except ValueError:
        return False
    return value == float(number["value"])
