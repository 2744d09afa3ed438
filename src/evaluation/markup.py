"""Escapes text of any origin as HTML that only displays it."""

from __future__ import annotations

import re
from typing import Final

import markupsafe

from resources.settings import hide_secrets

UNSEEN: Final = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"
    "\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_LINE_END: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
_TOGETHER: Final = re.compile(r"(?<=\b[np]) (?=[=<] \d)|(?<=\b[np] [=<]) (?=\d)|(?<=\d) (?=%)")
"""Spaces at which no line may end."""


class Markup(markupsafe.Markup):
    """HTML of a page. What `format`, `+` or `join` puts into it goes through `escape`."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: object, /) -> Markup:
        """The text as HTML; HTML is returned unchanged."""
        if hasattr(s, "__html__"):
            return cls(s.__html__())
        text = readable(str(s))
        html = str(markupsafe.escape(text))
        # Line ends are written as numbers: an empty line would end a block of HTML within Markdown.
        return cls(html.replace("\n", "&#10;"))


escape = Markup.escape
"""Every text that enters a page passes through here, and is only displayed."""


def readable(text: str) -> str:
    r"""The text without secrets, its lines ended by `\n`.

    What steers a page and shows nothing becomes U+FFFD.
    """
    lines = _LINE_END.sub("\n", hide_secrets(text))
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", lines)


def fine_print(text: str) -> Markup:
    """Small print. No line ends between a number and its letter or its per cent."""
    joined = type(text)(_TOGETHER.sub("\N{NO-BREAK SPACE}", text))
    return Markup('<span class="rag-why">{}</span>').format(joined) if text else Markup()


def sortable(value: float, text: str) -> Markup:
    """A number as displayed, with the value that it is sorted by."""
    return Markup('<data class="rag-number" value="{!r}">{}</data>').format(float(value), text)
