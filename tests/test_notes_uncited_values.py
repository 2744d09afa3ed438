"""Doses, dates and frequencies of an answer about own notes that no cited passage has."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from papers.clinical_notes import uncited_values
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import NO_DATE
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.uncited_values import find_uncited

QUESTION = "What does the patient take?"
OLD = "Will start levetiracetam at 250 mgs b.i.d."
NEW = "Levetiracetam 750 mg tablets, oral, twice a day."


def passages(*texts: str, day: date = NO_DATE) -> list[Chunk]:
    return [Chunk(f"n:{n}", "n", "p", day, 0, len(text), text) for n, text in enumerate(texts)]


def warnings(answer: str, *texts: str, cited: tuple[int, ...] = (1,)) -> tuple[str, ...]:
    return find_uncited(QUESTION, answer, passages(*texts), cited)


def test_a_dose_that_another_passage_has_is_said_with_its_place() -> None:
    answer = "Levetiracetam 750 mg tablets oral bid. [1]"
    assert warnings(answer, OLD, "Well.", NEW, NEW, NEW) == (
        "The cited passage [1] does not contain 750 mg. The value is in [3], [4] and [5].",
    )
    assert warnings(answer, OLD, "Well.") == (
        "The cited passage [1] does not contain 750 mg. No other passage that the model read "
        "contains it.",
    )
    assert warnings(answer, OLD) == ("The cited passage [1] does not contain 750 mg.",)
    assert warnings(answer, OLD, "Well.", NEW, cited=(1, 2)) == (
        "None of the cited passages [1] and [2] contains 750 mg. The value is in [3].",
    )


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("750 mg", "Keppra 750mg BID"),
        ("750mg", "Keppra 750 mgs BID"),
        ("**750 mg**", "Keppra 750\nmg BID"),
        ("750 mg", "Keppra | 750 | mg | BID"),
        ("750 mg", "Keppra 750 BID"),
        ("750 milligrams", "a 750-mg tablet"),
        ("1,000 mg", "1000 mg at night"),
        ("1000 mg", "1,000mg at night"),
        ("500 mg", "500-750 mg"),
        ("250 to 500 mg", "250/500 mg"),
        ("50 \N{MICRO SIGN}g", "50 mcg"),
        ("0.5 mg", "clonazepam .5 mg"),
        ("100 mg/day", "topiramate 100 mg per day"),
        ("two tablets", "2 tabs"),
        ("2 tablets", "two 500 mg tablets"),
        ("two 5 mg tablets", "2 x 5 mg tabs"),
        ("half a tablet", "1/2 tablet"),
        ("one tablet", "1 po"),
        ("6 mg", "six mg"),
        ("750 mg", "750\n          mg"),
        ("sodium of 131 mmol/L", "sodium 131"),
        ("500 mg QAM and 750 mg QPM", "500mg in the AM, 750mg in the PM"),
        ("twice a day", "b.i.d."),
        ("twice daily", "BID."),
        ("two times per day", "q12h"),
        ("bid", "every 12 hours"),
        ("2x/day", "one in the morning and two at night"),
        ("twice daily", "1-0-1"),
        ("three times a day", "TID"),
        ("daily", "at bedtime"),
        ("once daily", "q.d."),
        ("every day", "qhs"),
        ("3 seizures per month", "three focal seizures a month"),
        ("weekly", "once a week"),
        ("2021-03-02", "Seen 03/02/2021."),
        ("March 2, 2021", "Seen 3/2/21."),
        ("2 March 2021", "Seen 2.3.2021."),
        ("March 2nd, 2021", "Since Mar 2 she is well."),
        ("March 2, 2021", "Since 3/2 she is well."),
        ("March 2021", "2021-03-02"),
        ("on March 2", "02-Mar-2021"),
        ("no dose, date or frequency, 40-year-old, 3 weeks", "Well."),
    ],
)
def test_another_spelling_is_the_same_value(answer: str, passage: str) -> None:
    assert warnings(f"It is {answer}. [1]", passage) == ()


@pytest.mark.parametrize(
    ("answer", "passage", "written"),
    [
        ("750 mg", "Keppra 1750 mg", "750 mg"),
        ("750 mg", "Keppra 750 mcg", "750 mg"),
        ("2 mg", "for 2 weeks", "2 mg"),
        ("1,500 mg", "1.5 mg, then 500 mg", "1,500 mg"),
        ("250 to 500 mg", "250 mg", "500 mg"),
        ("two tablets", "one tablet", "two tablets"),
        ("twice a day", "t.i.d.", "twice a day"),
        ("b.i.d.", "once daily", "b.i.d."),
        ("every 8 hours", "q12h", "every 8 hours"),
        ("3 seizures per month", "3 seizures per week", "3 seizures per month"),
        ("March 2, 2021", "March 2, 2022", "March 2, 2021"),
        ("March 3, 2021", "in March 2021", "March 3, 2021"),
        ("2021-03-13", "03/14/2021", "2021-03-13"),
    ],
)
def test_another_value_is_another(answer: str, passage: str, written: str) -> None:
    assert warnings(f"It is {answer} [1]", passage) == (
        f"The cited passage [1] does not contain {written}.",
    )


def test_the_date_of_a_note_is_part_of_its_passage_and_dates_of_the_question_are_not_sought() -> (
    None
):
    day = date(2021, 3, 2)
    assert find_uncited(QUESTION, "On 2 March 2021. [1]", passages("Well.", day=day), [1]) == ()
    assert find_uncited(QUESTION, "On 3 March 2021. [1]", passages("Well.", day=day), [1])
    question = "Which drugs were taken from 2021-01-05 on?"
    assert find_uncited(question, "Keppra from 5 January 2021 on. [1]", passages(OLD), [1]) == ()
    question = "Which drugs were taken in March 2021?"
    assert find_uncited(question, "Keppra from 5 March 2021 on. [1]", passages(OLD), [1])


def test_an_answer_that_cites_nothing_gets_no_warning_of_this_kind() -> None:
    assert warnings("750 mg", OLD, cited=()) == ()


NUMBERS = st.integers(1, 2999)
STYLES = st.sampled_from(["{} mg", "{}mg", "{}-mg", "{} mgs", "{} MG", "{}\nmg", "{} milligrams"])
SEPARATORS = st.sampled_from(["d", ",d"])


@given(NUMBERS, NUMBERS, STYLES, STYLES, SEPARATORS, SEPARATORS)
def test_two_doses_are_equal_if_their_numbers_are_however_they_are_written(
    first: int, second: int, style: str, other_style: str, separator: str, other_separator: str
) -> None:
    answer = style.format(format(first, separator))
    passage = other_style.format(format(second, other_separator))
    is_warned = bool(warnings(f"She takes {answer}. [1]", f"Takes {passage} now."))
    assert is_warned == (first != second)


DAYS = st.dates(date(1990, 1, 1), date(2029, 12, 31))
DAY_STYLES = st.sampled_from(
    ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%Y", "%m/%d/%y"]
)


@given(DAYS, DAY_STYLES, DAY_STYLES)
def test_a_day_is_the_same_in_any_style(day: date, style: str, other_style: str) -> None:
    answer = f"On {day.strftime(style)} she was well. [1]"
    assert warnings(answer, f"Seen on {day.strftime(other_style)}, well.") == ()
    assert warnings(answer, f"Seen on {day.replace(year=2035).strftime(other_style)}, well.")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_read(answer: str, passage: str) -> None:
    warnings(f"{answer} [1]", passage)


def test_an_answer_in_the_words_of_the_cited_note_gets_no_warning() -> None:
    n_values = 0
    for note in generate(3, 4, untidy=0.5).notes():
        n_values += len(uncited_values.values_in(note.text))
        for paragraph in note.text.split("\n\n"):
            assert warnings(f"{paragraph} [1]", note.text) == ()
    assert n_values > 50
