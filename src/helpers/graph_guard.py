"""Cypher that a model or a user wrote: what its text may hold.

The checks of the text and of the plan (`graph_plan`) do not rely on each other: either alone
refuses what does more than read.
"""

import re
from dataclasses import dataclass
from typing import Literal

from helpers.graph_driver import Row, shorten
from resources.settings import PublicError

MAX_STATEMENT_BYTES = 10_000
MAX_HOPS = 10
"""Longest path that a statement may search for, in relationships."""
MAX_RANGE = 10_000
"""Largest list that range() may make."""
MAX_JOINS = 12
"""How often + and || may occur: each can double a list or a text."""

Refusal = Literal["Not allowed", "Refused", "Stopped"]
"""Who rejected a statement: the guard, the server, or a limit while it ran."""


class CypherRejected(PublicError, ValueError):
    """Raised when untrusted Cypher is not allowed, is refused by the server, or is stopped."""

    def __init__(self, message: str, kind: Refusal = "Not allowed") -> None:
        """Keep the beginning and the end of a message that is too long."""
        self.kind = kind
        super().__init__(shorten(message))


@dataclass(frozen=True)
class Untrusted:
    """The result of untrusted Cypher.

    Attributes:
        rows: Rows of plain JSON values.
        truncated: Whether there were more rows than `max_rows`. The other rows were not fetched.
        seconds: Time from sending the statement, after the check of its plan, to the last row.
    """

    rows: list[Row]
    truncated: bool
    seconds: float


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)
"""As Neo4j reads it: a backslash escapes what follows, so the second of two escapes nothing."""
_QUOTED_OR_COMMENT = re.compile(
    r"""'(?:\\.|[^'\\])*+' | "(?:\\.|[^"\\])*+" | `(?:``|[^`])*+` | //[^\n\r]* | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_READING = re.compile(r"(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|RETURN|CALL)\b", re.IGNORECASE)
_WRITING = re.compile(
    r"(?<![.:|$\w])(CREATE|MERGE|INSERT|SET|DELETE|DETACH|REMOVE|FOREACH|DROP|USE|"
    r"IN\s+(?:(?:\S+\s+)?CONCURRENT\s+)?TRANSACTIONS|LOAD\s+CSV)\b(?!\s*:)",
    re.IGNORECASE,
)
"""A word of its own, not a property, label, type, parameter or map key of that name."""
_PROCEDURE = re.compile(r"(?<![.:|$\w])CALL\b(?!\s*[({])(?:\s*([\w.]+))?", re.IGNORECASE)
_FUNCTION = re.compile(r"(?<![.\w])(\w+)(?:\s*\.\s*\w+)+\s*\(")
_OWN_FUNCTIONS = {
    "date",
    "datetime",
    "time",
    "localtime",
    "localdatetime",
    "duration",
    "point",
    "vector",
}
_REDUCE = re.compile(r"(?<![.:|$\w])reduce\s*\(", re.IGNORECASE)
_RANGE = re.compile(r"(?<![.:|$\w])range\s*\(", re.IGNORECASE)
_LITERAL_RANGE = re.compile(r"\s*(-?\d{1,18})\s*,\s*(-?\d{1,18})\s*[,)]")
_JOIN = re.compile(r"\+|\|\|")
_LOOP_OR_BRACKET = re.compile(
    r"(?P<loop>(?:\b(?:any|all|none|single)\s*\(|\[)\s*\w+\s+IN\b)|(?P<open>[(\[{])|[)\]}]",
    re.IGNORECASE,
)
_VARIABLE_LENGTH = re.compile(
    r"-\s*\[(?:(?!WHERE\b)[^\[\]{*])*\*\s*(?P<first>\d*)\s*(?P<dots>\.\.)?\s*(?P<last>\d*)",
    re.IGNORECASE,
)


def check_statement(cypher: str) -> str:
    """Check that a text looks like one reading statement of bounded cost.

    Returns:
        The statement without its final semicolon.

    Raises:
        CypherRejected: It does not; the message says why.
    """
    _check_size(cypher)
    statement = cypher.strip().rstrip("; \t\r\n")
    # Neo4j reads \u0041 as A before anything else, the embedded server only inside quotes.
    for reading in {statement, _ESCAPE.sub(_unescape, statement)}:
        bare = bare_text(reading).strip()
        _check_reading(bare)
        check_functions(bare)
        check_cost(bare)
        _check_literal_cost(bare)
    return statement


def _check_size(cypher: str) -> None:
    try:
        size = len(cypher.encode())
    except UnicodeEncodeError:
        raise CypherRejected("It is not valid Unicode text.") from None
    if size > MAX_STATEMENT_BYTES:
        raise CypherRejected(f"It is {size:,} bytes long; at most {MAX_STATEMENT_BYTES:,} are run.")


def _unescape(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    return chr(int(escape[1], 16))


def bare_text(text: str) -> str:
    """A statement without its comments, and without what is between quotes."""
    return _QUOTED_OR_COMMENT.sub(_placeholder, text)


def _placeholder(piece: re.Match[str]) -> str:
    placeholders = {"`": " quoted ", "'": " 0 ", '"': " 0 "}
    return placeholders.get(piece[0][0], " ")


def _check_reading(bare: str) -> None:
    if not bare:
        raise CypherRejected("It is empty.")
    if writing := _WRITING.search(bare):
        raise CypherRejected(f"{writing[1].upper()} is not allowed: only reading is.")
    if procedure := _PROCEDURE.search(bare):
        raise CypherRejected(f"Procedures are not allowed (CALL {procedure[1] or '...'}).")
    if ";" in bare:
        raise CypherRejected("It holds several statements; give one.")
    if not _READING.match(bare):
        first_word = bare.split(maxsplit=1)[0][:30]
        raise CypherRejected(
            f"It begins with {first_word!r}; a reading statement begins with MATCH, OPTIONAL "
            "MATCH, WITH, UNWIND, RETURN or the CALL of a subquery."
        )


def check_functions(bare: str) -> None:
    """Check that a bare text calls no functions of extensions.

    Raises:
        CypherRejected: It calls one.
    """
    for function in _FUNCTION.finditer(bare):
        if function[1].lower() not in _OWN_FUNCTIONS:
            raise CypherRejected(f"Functions of extensions are not allowed ({function[0]}...)).")


def check_cost(bare: str) -> None:
    """Check that a bare text holds no expression that a server cannot stop.

    A server looks at its time limit between rows. Within one expression, a regular expression or
    a reduce() can run for hours.

    Raises:
        CypherRejected: It holds one.
    """
    if "=~" in bare:
        raise CypherRejected(
            "Regular expressions (=~) are not allowed. Use CONTAINS, STARTS WITH or ENDS WITH, "
            "with toLower() for any case."
        )
    if _REDUCE.search(bare):
        raise CypherRejected(
            "reduce() is not allowed. Use UNWIND with sum(), count() or collect()."
        )


def _check_literal_cost(bare: str) -> None:
    joins = len(_JOIN.findall(bare))
    if joins > MAX_JOINS:
        raise CypherRejected(
            f"It joins values {joins} times (+ or ||); at most {MAX_JOINS} may be."
        )
    for call in _RANGE.finditer(bare):
        _check_range(bare, call.end())
    _check_nesting(bare)
    for path in _VARIABLE_LENGTH.finditer(bare):
        check_hops(upper_bound(path))


def _check_range(bare: str, start: int) -> None:
    bounds = _LITERAL_RANGE.match(bare, start)
    if bounds is None or abs(int(bounds[2]) - int(bounds[1])) >= MAX_RANGE:
        raise CypherRejected(
            f"range() takes two whole numbers at most {MAX_RANGE:,} apart, such as range(1, 10)."
        )


def _check_nesting(bare: str) -> None:
    open_loops: list[bool] = []
    for bracket in _LOOP_OR_BRACKET.finditer(bare):
        is_loop = bracket["loop"] is not None
        if is_loop and any(open_loops):
            raise CypherRejected(
                "any(), all(), none(), single() and [x IN ...] cannot be within one another. "
                "Use UNWIND or MATCH."
            )
        if is_loop or bracket["open"]:
            open_loops.append(is_loop)
        elif open_loops:
            open_loops.pop()


def upper_bound(path: re.Match[str]) -> int | None:
    """The largest number of relationships of a path such as `*1..3`; None if it has no bound."""
    bound = path["last"] if path["dots"] else path["first"]
    return int(bound) if bound else None


def check_hops(bound: int | None) -> None:
    """Check the upper bound of a path search.

    Raises:
        CypherRejected: There is none, or a path may have more than `MAX_HOPS` relationships.
    """
    if bound is None or bound > MAX_HOPS:
        raise CypherRejected(
            f"A path may have at most {MAX_HOPS} relationships. Give an upper bound, "
            "such as [*..3]."
        )
