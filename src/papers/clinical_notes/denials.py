"""Leaves out what an answer denies: "deja vu, no incontinence" states deja vu alone.

ConText reads notes (`extraction`); a reply is one short sentence, for which these few words do.
"""

import re

_SENTENCE_END = re.compile(r"[.;\n]+")
_PART_END = re.compile(
    r",|(?=\b(?:but|however|though|and\s+(?:has|had|then|also))\b)", re.IGNORECASE
)
"""Where a part of a sentence ends, and with it most denials."""
_DENIES_A_LIST = re.compile(r"\b(?:deny|denies|denied|denying)\s", re.IGNORECASE)
"""What denies all that follows: "denies nausea, staring"."""
_DENIES_A_PART = re.compile(
    r"\b(?:no|without|neither|never|negative for|absence of)\s|^\s*(?:but\s+|and\s+)?not\s"
    r"|\b(?:do|does|did)\s+not\s+(?:have|report|show|experience|describe)\s",
    re.IGNORECASE,
)
"""What denies the rest of its part: "no nausea, staring"."""
_DENIED_AHEAD = re.compile(
    r"\b(?:is|are|was|were)\s+(?:not|never|denied|absent)\b|\b(?:absent|denied)\s*$"
    r"|(?::|\s[-\u2013])\s*(?:no|none)\s*$",
    re.IGNORECASE,
)
"""What denies the words before it: "lip smacking is not part of the events"."""
_GOES_ON = re.compile(r"\s*n?or\s", re.IGNORECASE)
"""The last part of a list that is denied as a whole: "no nausea, staring, or rash"."""
_CONTRASTS = re.compile(r"\s*(?:but|however|though|and\s+(?:has|had|then|also))\b", re.IGNORECASE)
"""A part that ends a denied list."""


def without_denied(text: str) -> str:
    """Return a text without the words that it denies."""
    stated = []
    for sentence in _SENTENCE_END.split(text):
        parts = _PART_END.split(sentence)
        stated.append(_stated(parts))
    return ". ".join(stated)


def _stated(parts: list[str]) -> str:
    """The parts of a sentence without those that it denies."""
    stated = []
    is_denied_list = False
    for position, part in enumerate(parts):
        if _CONTRASTS.match(part):
            is_denied_list = False
        if is_denied_list or _DENIED_AHEAD.search(part):
            is_denied_list = is_denied_list and not _GOES_ON.match(part)
            continue
        denial = _DENIES_A_LIST.search(part)
        if denial is None:
            denial = _DENIES_A_PART.search(part)
            is_denied_list = denial is not None and _ends_with_or(parts[position + 1 :])
        else:
            is_denied_list = True
        stated.append(part[: denial.start()] if denial else part)
    return ", ".join(stated)


def _ends_with_or(parts: list[str]) -> bool:
    """Whether the parts after a denial are the rest of its list."""
    for part in parts:
        if _GOES_ON.match(part):
            return True
        if _CONTRASTS.match(part) or _DENIES_A_PART.search(part):
            return False
    return False
