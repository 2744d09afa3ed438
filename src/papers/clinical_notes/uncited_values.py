"""Finds doses, dates and frequencies of an answer that no passage has which the answer cites.

What is compared is the value, not its spelling: 750mg is 750 mgs, 1,000 is 1000, b.i.d. is twice a
day and 03/02/2021 may be 2 March 2021. Units are not converted: 0.75 g is not 750 mg. Where a
passage may mean the same, such as a dose without a unit, no warning is given.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation import figures
from papers.clinical_notes.cleaning import milligrams
from papers.clinical_notes.gold import NO_DATE
from papers.clinical_notes.passages import Chunk
from rag.replies import CITATION, plain_text

Key = tuple[str, str]
"""What is stated and its value, such as ("mg", "750"), ("times a day", "2")."""


@dataclass(frozen=True)
class Value:
    """A dose, date or frequency in a text.

    Attributes:
        written: How the text writes it.
        meanings: What it may mean; a date in numbers may be two days.
        implied: What it states too: a day states its month.
    """

    written: str
    meanings: frozenset[Key]
    implied: frozenset[Key] = frozenset()


# ----------------------------------------------------------------------------------------- numbers

_GAP: Final = r"\s?"
"""Blanks; texts are read with one blank for each run of them."""
_DASH: Final = "[-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}\N{EM DASH}]"
_DIGITS: Final = r"(?<!\d)(?<!\d[.,])(?:\d+(?:[.,]\d+)*|(?<!\w)\.\d+)"
_WORDS: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_ADVERBS: Final = {"once": "1", "twice": "2", "thrice": "3", "half a": "0.5", "half": "0.5"}
_NUMBERS: Final = _ADVERBS | {word: str(number) for number, word in enumerate(_WORDS, start=1)}
_WORD: Final = rf"\b(?:{'|'.join(_NUMBERS)})\b"
_NUMERAL: Final = rf"(?:{_WORD}|{_DIGITS})"
_HALF: Final = "(?<![\\d/])1/2|\N{VULGAR FRACTION ONE HALF}"


def _number(text: str) -> str:
    """Write a number in one spelling, whether in words, with a comma for thousands or without."""
    words = " ".join(text.lower().split())
    if words in _NUMBERS:
        return _NUMBERS[words]
    if re.fullmatch(_HALF, words):
        return _NUMBERS["half"]
    number = milligrams(f"{words} mg")  # its rules for numbers, whatever the unit
    return words if number is None else f"{number:.12g}"


# ----------------------------------------------------------------------------------------- amounts

_UNITS: Final = {
    "mg": "mgs?|milligram(?:me)?s?",
    "mcg": "mcgs?|[u\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]gs?|microgram(?:me)?s?",
    "kg": "kgs?|kilogram(?:me)?s?|kilos?",
    "g": "g|gms?|gram(?:me)?s?",
    "ml": "mls?|cc|millilit(?:er|re)s?",
    "mEq": "meqs?",
    "mmol": "mmols?|millimoles?",
    "units": "iu|(?:international )?units?",
    "%": "%|percent|per cent",
}
"""Unit -> how it is written."""
_PIECES: Final = "tab(?:let)?s?|cap(?:sule)?s?|pills?"
_UNIT: Final = "|".join(_UNITS.values())
_AMOUNT: Final = re.compile(
    rf"(?P<numbers>{_NUMERAL}(?:{_GAP}(?:{_DASH}|to|and|or|/){_GAP}{_NUMERAL}){{0,4}})"
    rf"(?:\s?\|)?{_GAP}{_DASH}?{_GAP}(?P<unit>{_UNIT})(?![^\W\d_])",
    re.IGNORECASE,
)
"""750 mg, 750mgs, 750-mg and 250 to 500 mg; in a table a bar may stand before the unit."""
_COUNT: Final = re.compile(
    rf"(?P<number>{_HALF}|{_NUMERAL})\s{{1,3}}(?:x\s)?(?:{_DIGITS}\s?(?:{_UNIT})\s{{1,3}})?"
    rf"(?:{_PIECES})\b",
    re.IGNORECASE,
)
"""Two tablets, 2 tabs, two 500 mg tablets and 2 x 500 mg tablets."""
_TAKEN: Final = re.compile(
    rf"\btak(?:e|es|ing)\s(?P<number>{_HALF}|{_NUMERAL})|(?P<other>{_NUMERAL})\s(?:po|by mouth)\b",
    re.IGNORECASE,
)
"""Take 2, and 1 po: perhaps tablets."""
_BARE: Final = re.compile(
    rf"{_DIGITS}(?!{_GAP}{_DASH}?{_GAP}(?:y(?:ea)?rs?|months?|weeks?|days?|h(?:ou)?rs?|times)\b)",
    re.IGNORECASE,
)
"""A number that is no time: a dose whose unit the note leaves out."""
NO_UNIT: Final = "no unit"
PIECES: Final = "tablets or capsules"


def _amounts(text: str) -> Iterator[tuple[re.Match[str], Value]]:
    for match in _AMOUNT.finditer(text):
        unit = next(name for name, form in _UNITS.items() if _matches(form, match["unit"]))
        numbers = re.findall(_NUMERAL, match["numbers"], re.IGNORECASE)
        for number in numbers:
            written = match[0] if len(numbers) == 1 else f"{number} {match['unit']}"
            yield match, Value(written, frozenset([(unit, _number(number))]))
    for match in _COUNT.finditer(text):
        yield match, Value(match[0], frozenset([(PIECES, _number(match["number"]))]))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


# ------------------------------------------------------------------------------------- frequencies

_LATIN: Final = {
    "2": r"bid\b|b\.\s?i\.\s?d\b\.?",
    "3": r"tid\b|t\.\s?i\.\s?d\b\.?",
    "4": r"qid\b|q\.\s?i\.\s?d\b\.?",
    "0.5": r"qod\b|q\.\s?o\.\s?d\b\.?|every other day|alternate days|every (?:second|2nd) day",
    "1": r"q(?:d|am|pm|hs)\b|q\.\s?(?:d|a\.?m|p\.?m|h\.?s)\b\.?|nightly"
    r"|(?:every|each) (?:day|morning|evening|night)\b"
    r"|daily(?! (?:living|life|activit|routine|log|diary))",
}
"""Times a day -> abbreviations and words without a number."""
_EVENTS: Final = (
    r"times?|x|\N{MULTIPLICATION SIGN}|doses?"
    r"|(?:[a-z-]+ )?(?:seizures?|episodes?|events?|spells?|auras?|attacks?|convulsions?)"
)
_PERIOD: Final = "day|d|week|wk|month|mo|year|yr"
_SMALL: Final = r"(?<![\d.,/])(?:1[0-2]|[1-9])(?![\d.,]\d)"
_TIMES: Final = re.compile(
    rf"(?P<first>{_WORD}|{_SMALL})(?:{_GAP}(?:{_DASH}|to|or){_GAP}(?P<second>{_WORD}|{_SMALL}))?"
    rf"(?:[\s-]?(?:{_EVENTS})(?![a-z]))?"
    rf"(?:{_GAP}(?:/|\b(?:an?|per|each|every|in an?)\s){_GAP}(?P<period>{_PERIOD})\b"
    r"|[\s-]?(?P<adverb>daily|nightly|weekly|monthly|yearly)\b)",
    re.IGNORECASE,
)
"""Twice a day, 2x/day, two to three times daily and 3 seizures per month."""
_HOURS: Final = re.compile(
    rf"\b(?:every|q\.?){_GAP}(?P<hours>24|12|8|6|4|{_WORD}){_GAP}{_DASH}?{_GAP}h(?:(?:ou)?rs?)?\b",
    re.IGNORECASE,
)
"""Every 12 hours and q12h."""
_PERIODS: Final = {
    "d": "times a day",
    "n": "times a day",
    "w": "times a week",
    "m": "times a month",
    "y": "times a year",
}
"""First letter -> what is counted."""
_WEEKLY: Final = re.compile(r"\b(?:weekly|monthly|yearly)\b", re.IGNORECASE)
_MORNING: Final = r"(?:\bqam|\ba\.m|\d\s?am|\bmorning|\bbreakfast)\b"
_NOON: Final = r"\b(?:noon|midday|lunch|afternoon)\b"
_EVENING: Final = r"\b(?:q?pm|p\.m|evening|night|bedtime|dinner|supper|q?h\.?s)\b"
_NEAR: Final = r"[\s\S]{0,60}"
_IN_PASSAGES: Final = (
    (r"(?:\ba|per|each) day\b|/d(?:ay)?\b", "1"),
    (rf"{_MORNING}|{_EVENING}", "1"),
    (rf"{_MORNING}{_NEAR}{_EVENING}|{_EVENING}{_NEAR}{_MORNING}", "2"),
    (rf"{_MORNING}{_NEAR}{_NOON}{_NEAR}{_EVENING}", "3"),
)
"""What may mean that many times a day in a passage, but is too vague to be sought in one."""
_SCHEME: Final = re.compile(r"(?<![\d.-])\d{1,4}(?:-\d{1,4}){2,3}(?![\d-])")
"""Doses of morning, noon and evening, such as 1-0-1."""


def _counted_frequencies(text: str) -> Iterator[tuple[re.Match[str], Value]]:
    for match in _TIMES.finditer(text):
        period = _PERIODS[(match["period"] or match["adverb"])[0].lower()]
        for number in filter(None, (match["first"], match["second"])):
            yield match, Value(match[0], frozenset([(period, _number(number))]))
    for match in _HOURS.finditer(text):
        times = f"{24 / float(_number(match['hours'])):.12g}"
        yield match, Value(match[0], frozenset([("times a day", times)]))


def _other_frequencies(text: str) -> Iterator[tuple[re.Match[str], Value]]:
    for match in _WEEKLY.finditer(text):
        period = _PERIODS[match[0][0].lower()]
        yield match, Value(match[0], frozenset([(period, "1")]))
    for times, pattern in _LATIN.items():
        for match in re.finditer(rf"(?<![\w/.])(?:{pattern})", text, re.IGNORECASE):
            yield match, Value(match[0], frozenset([("times a day", times)]))


def _vague_frequencies(text: str) -> Iterator[Key]:
    for pattern, times in _IN_PASSAGES:
        if re.search(pattern, text, re.IGNORECASE):
            yield "times a day", times
    for match in _SCHEME.finditer(text):
        doses = [int(dose) for dose in match[0].split("-")]
        n_doses = len(doses) - doses.count(0)
        yield "times a day", str(n_doses)


# ------------------------------------------------------------------------------------------- dates

_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY: Final = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_DATE_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b{_YEAR}[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)(?!\d)",
        r"(?<![\d/.-])(?P<first>\d\d?)(?P<mark>[-/.])(?P<second>\d\d?)(?P=mark)"
        r"(?P<year>(?:19|20)?\d\d)(?![\d/-])",
        rf"\b{_MONTH}{_GAP}{_DAY},?{_GAP}{_YEAR}",
        rf"\b{_DAY}{_GAP}(?:of\s)?{_DASH}?{_GAP}{_MONTH},?{_GAP}{_DASH}?{_GAP}{_YEAR}",
        rf"\b{_MONTH},?{_GAP}(?:of\s)?{_YEAR}",
        rf"\b{_YEAR}-(?P<month>0[1-9]|1[0-2])(?![\d-])",
        rf"(?<![\d/.-])(?P<month>0?[1-9]|1[0-2])/{_YEAR}",
        rf"\b(?!may\b){_MONTH}{_GAP}{_DAY}(?!{_GAP}(?:mg|tab|times))",
        rf"\b{_DAY}\s(?:of\s)?(?!may\b){_MONTH}",
    )
)
_SHORT_DATE: Final = re.compile(r"(?<![\d/.-])(\d\d?)/(\d\d?)(?![\d/%]|\s?mg)")
"""3/2 in a passage, which may be a day."""
_CENTURY: Final = 50
"""A year in two digits up to this one is of the 21st century."""


def _dates(text: str) -> Iterator[tuple[re.Match[str], Value]]:
    rest = text
    for form in _DATE_FORMS:
        for match in form.finditer(rest):
            rest = _without(rest, match)
            yield match, _date(match)


def _without(text: str, match: re.Match[str]) -> str:
    """The text with a mark in place of each character of a match."""
    return f"{text[: match.start()]}{'#' * len(match[0])}{text[match.end() :]}"


def _date(match: re.Match[str]) -> Value:
    year = _year(match["year"]) if "year" in match.re.groupindex else ""
    meanings: set[Key] = set()
    implied: set[Key] = set()
    for month, day in _days(match):
        meanings |= _meanings(year, month, day)
        implied |= _implied(year, month, day)
    return Value(match[0], frozenset(meanings), frozenset(implied))


def _days(match: re.Match[str]) -> list[tuple[int, int]]:
    """The months and days that a date may mean; a date without a day has day 0."""
    parts = match.groupdict()
    if parts.get("first"):
        return _both_ways(int(parts["first"]), int(parts["second"]))
    month = _month(parts["month"])
    return [(month, int(parts.get("day") or 0))] if 1 <= month <= 12 else []


def _both_ways(first: int, second: int) -> list[tuple[int, int]]:
    """Two numbers as month and day, and as day and month, where they can be that."""
    days = []
    for month, day in ((first, second), (second, first)):
        if 1 <= month <= 12 and 1 <= day <= 31:
            days.append((month, day))
    return days


def _year(text: str) -> str:
    if len(text) != 2:
        return text
    return f"20{text}" if int(text) <= _CENTURY else f"19{text}"


def _month(text: str) -> int:
    return int(text) if text.isdecimal() else _MONTHS.index(text[:3].lower()) + 1


def _meanings(year: str, month: int, day: int) -> set[Key]:
    """What a passage must state: the day, perhaps without its year; or the month alone."""
    if not day:
        return {("month", f"{year}-{month}")}
    if not year:
        return {("day of a year", f"{month}-{day}")}
    return {("day", f"{year}-{month}-{day}"), ("day of no year", f"{month}-{day}")}


def _implied(year: str, month: int, day: int) -> set[Key]:
    """What a passage with this date states."""
    if not day:
        return {("month", f"{year}-{month}")}
    if not year:
        return {("day of no year", f"{month}-{day}"), ("day of a year", f"{month}-{day}")}
    full = ("day", f"{year}-{month}-{day}")
    return {full, ("month", f"{year}-{month}"), ("day of a year", f"{month}-{day}")}


# ----------------------------------------------------------------------------------- what is found

_Finder = Callable[[str], Iterator[tuple[re.Match[str], Value]]]
_FINDERS: Final[tuple[_Finder, ...]] = (
    *(_dates, _counted_frequencies),
    *(_other_frequencies, _amounts),
)
"""In this order: a date or a frequency that was read is no amount."""


def values_in(text: str) -> list[Value]:
    """Return the doses, dates and frequencies of a text, each once, in order of place."""
    places, _ = _read(text)
    values: dict[frozenset[Key], Value] = {}
    for _, value in sorted(places, key=lambda place: place[0]):
        values.setdefault(value.meanings, value)
    return list(values.values())


def _read(text: str) -> tuple[list[tuple[int, Value]], str]:
    """Return the values with their places, and the text without them, on one line."""
    places = []
    rest = " ".join(text.split())
    for find in _FINDERS:
        matches = []
        for match, value in find(rest):
            if value.meanings:
                places.append((match.start(), value))
                matches.append(match)
        for match in matches:
            rest = _without(rest, match)
    return places, rest


def _stated(text: str) -> set[Key]:
    """Return what a passage states."""
    places, _ = _read(text)
    stated: set[Key] = set()
    for _, value in places:
        stated |= value.implied or value.meanings
    return stated


def _perhaps_stated(text: str) -> set[Key]:
    """Return what a passage may mean: numbers without a unit, a day such as 3/2, times of a day."""
    _, rest = _read(text)
    line = " ".join(text.split())
    stated = set(_vague_frequencies(line))
    for match in _SHORT_DATE.finditer(line):
        for month, day in _both_ways(int(match[1]), int(match[2])):
            stated |= _implied("", month, day)
    for match in _BARE.finditer(rest):
        stated.add((NO_UNIT, _number(match[0])))
    for match in _TAKEN.finditer(line):
        stated.add((PIECES, _number(match["number"] or match["other"])))
    return stated


def find_uncited(
    question: str, reply: str, passages: Sequence[Chunk], cited: Sequence[int]
) -> tuple[str, ...]:
    """Say which doses, dates and frequencies of an answer no cited passage has, and where they are.

    Args:
        question: The question; its dates say what is asked, and are not sought.
        reply: What the model answered.
        passages: The passages that the model read, in their order.
        cited: The numbers of those that the answer cites, from 1.

    Returns:
        A warning for each value; none if the answer cites nothing, which has a warning of its own.
    """
    if not cited:
        return ()
    texts = [_text_as_read(passage) for passage in passages]
    stated = [_stated(text) for text in texts]
    supported = _stated_days(question)
    for number in cited:
        supported |= stated[number - 1] | _perhaps_stated(texts[number - 1])
    warnings = []
    for value in values_in(plain_text(CITATION.sub(" ", reply))):
        if supported.isdisjoint(value.meanings | _without_unit(value)):
            holders = [n for n, keys in enumerate(stated, start=1) if value.meanings & keys]
            warnings.append(_warning(value.written, sorted(cited), holders, len(passages)))
    return tuple(dict.fromkeys(warnings))


def _stated_days(text: str) -> set[Key]:
    days: set[Key] = set()
    for _, value in _dates(text):
        days |= value.implied
    return days


def _text_as_read(passage: Chunk) -> str:
    """The passage with its date, as the prompt has it."""
    if passage.date == NO_DATE:
        return passage.text
    return f"({passage.date.isoformat()})\n{passage.text}"


def _without_unit(value: Value) -> set[Key]:
    return {(NO_UNIT, number) for unit, number in value.meanings if unit in _UNITS}


def _warning(written: str, cited: Sequence[int], holders: Sequence[int], n_passages: int) -> str:
    """Say that no cited passage has a value, and which others have it."""
    if len(cited) == 1:
        text = f"The cited passage {_numbers(cited)} does not contain {written}."
    else:
        text = f"None of the cited passages {_numbers(cited)} contains {written}."
    if holders:
        return f"{text} The value is in {_numbers(holders)}."
    if len(cited) < n_passages:
        return f"{text} No other passage that the model read contains it."
    return text


def _numbers(passages: Sequence[int]) -> str:
    return figures.listed([f"[{number}]" for number in passages])
