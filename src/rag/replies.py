"""Read the answer in a model's reply, however it is wrapped.

Models put an answer into bold type, a fence, JSON, a LaTeX box, a tag, or behind "The answer is".
No function here reads inside a thought.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from helpers.thoughts import without_thought

QUOTES = "\"'`*_„“”‚‘’«»‹›「」『』"  # noqa: RUF001  # quotation marks of many languages
"""What stands around a name and is no part of it."""
MAX_JSON_STARTS = 50
"""Brackets from which JSON is tried to be read."""
MAX_CITED_RANGE = 10
"""Passages that a range such as [2-4] may name."""

WIDE: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width forms of the letters, digits and marks of ASCII."""
WIDE |= {ord("　"): " ", ord("、"): ",", ord("。"): ".", ord("【"): "[", ord("】"): "]"}
_BOX = re.compile(r"\\(?:boxed|fbox|text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_MATH_MARKS = re.compile(r"\\[()\[\]]|\$(?=[^$\n]*\$)|(?<=\w)\$|\$(?=\s*$)")
_ANSWER_TAG = re.compile(r"<(answer|final|response)>(.*?)(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```(?:\w+)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_EMPHASIS = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=[\w.!?])[*_](?!\w)")
_HEADING = re.compile(r"^\s*#{1,6}\s+", re.MULTILINE)
_LEAD = re.compile(
    r"\W*(?:(?:okay|ok|sure|certainly|so)\W+)?"
    r"(?:(?:(?:the|my)\s+)?(?:(?:final|correct|right|short)\s+)?"
    r"(?:answer|response|label|class|category|spelling|name|drug|relation|result|output)"
    r"(?:\s+to\s+(?:the|this|your)\s+question)?"
    r"(?:\s+is\b\s*:?|\s*:|\s*\n)|a\s*:)\s*",
    re.IGNORECASE,
)
"""Words before an answer, such as "The final answer is:"."""
_NUMBERED = re.compile(r"\s*(?:\d{1,2}[.)]|[-•])\s+(?=\S)")
CITATION = re.compile(
    r"\s*[\[\uFF3B\u3010]\s*(?:\^|passages?|excerpts?|sources?)?\s*"
    r"(\d+(?:[\u2013-]\d+)?(?:\s*[,;]\s*\d+(?:[\u2013-]\d+)?)*)\s*[\]\uFF3D\u3011]",
    re.IGNORECASE,
)
"""Numbers of passages in brackets, with the space before them."""


def plain_text(reply: str) -> str:
    """The answer in a reply without a thought, marks of layout and full-width letters."""
    text = without_thought(reply).translate(WIDE)
    if tag := _ANSWER_TAG.search(text):
        text = tag[2]
    if "```" in text:
        text = _FENCE.sub(r"\1", text)
    while "\\" in text and _BOX.search(text):
        text = _BOX.sub(r"\1", text)
    if "\\" in text or "$" in text:
        text = _MATH_MARKS.sub("", text)
    return _HEADING.sub("", _EMPHASIS.sub("", text)).strip()


def answer_text(reply: str) -> str:
    """The answer in a reply, also without words such as "The answer is" and without JSON."""
    text = plain_text(reply)
    content = read_json(text) if text.startswith("{") else None
    if isinstance(content, dict) and len(content) == 1:
        (value,) = content.values()
        if isinstance(value, str | int | float):
            return str(value)
    text = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    return _NUMBERED.sub("", text, count=1) if _NUMBERED.match(text) else text


def bare_name(text: str) -> str:
    """A name without quotation marks, emphasis and a final full stop."""
    stripped = text.strip().strip(QUOTES).strip()
    return stripped.removesuffix(".").strip().strip(QUOTES).strip()


def read_json(reply: str, kind: type = object) -> Any:  # noqa: ANN401  # whatever JSON holds
    """Read the first object or list in a reply: alone, in a fence, or among prose.

    Args:
        reply: What the model said, with its thought.
        kind: `dict` or `list`, where nothing else will do; one object may also stand in a list.

    Returns:
        The content; None if there is none.
    """
    for content in _json_values(without_thought(reply)):
        if isinstance(content, kind):
            return content
        if isinstance(content, list) and len(content) == 1 and isinstance(content[0], kind):
            return content[0]
    return None


def _json_values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    end, n_tried = 0, 0
    for bracket in re.finditer(r"[\[{]", text):
        if bracket.start() < end:
            continue
        n_tried += 1
        if n_tried > MAX_JSON_STARTS:
            return
        try:
            content, end = decoder.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            continue
        yield content


def listed_texts(reply: str) -> list[str] | None:
    """Read the texts of a JSON list, which may be the only value of an object.

    Its items are texts, or objects whose first value is one; objects may also stand in lines.

    Returns:
        The texts; None if the reply has no such list.
    """
    text = without_thought(reply)
    values = list(_json_values(text))
    content = values[0] if len(values) == 1 else values
    if isinstance(content, dict) and len(content) == 1:
        (content,) = content.values()
    if not isinstance(content, list) or not content:
        return None
    texts = [_first_value(item) for item in content]
    has_other_values = any(not isinstance(text, str) for text in texts)
    return None if has_other_values else texts


def _first_value(item: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    if not isinstance(item, dict):
        return item
    return next(iter(item.values()), None)


def cited_numbers(text: str) -> list[int]:
    """The numbers of passages that an answer cites in brackets, each once."""
    numbers: list[int] = []
    for group in CITATION.findall(without_thought(text)):
        for part in re.split("[,;]", group):
            numbers += _numbers_of(part)
    return list(dict.fromkeys(numbers))


def _numbers_of(part: str) -> list[int]:
    """A number, or those of a range."""
    ends = [int(number) for number in re.findall(r"\d+", part)]
    first, last = ends[0], ends[-1]
    if first <= last < first + MAX_CITED_RANGE:
        return list(range(first, last + 1))
    return ends
