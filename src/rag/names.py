"""The names that a graph has: found in a text word for word, or taken for a name that is written a little wrong."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import OSA

from helpers.graph import Graph, GraphError


@dataclass(frozen=True)
class Normalised:
    """A name of a role as asked, and as the graph has it (None if none is near enough); `nearest` are others."""

    role: str
    asked: str
    name: str | None
    distance: int  # edits between the two (optimal string alignment)
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vocabulary:
    """The names that the graph has, by role: drug, effect, and others if there are any."""

    names: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(**names: Iterable[str]) -> "Vocabulary":
        """The vocabulary of these names by role."""
        return Vocabulary({role: tuple(sorted(set(of_role))) for role, of_role in names.items()})

    @staticmethod
    def read(graph: Graph) -> "Vocabulary":
        """The names of a graph with the labels `Drug` and `SideEffect`; a GraphError if it holds no drugs."""
        query, labels = (
            "MATCH (n:{}) RETURN n.name AS name",
            {"drug": "Drug", "effect": "SideEffect"},
        )
        names = {
            role: [row["name"] for row in graph.read(query.format(of))]
            for role, of in labels.items()
        }
        if not names["drug"]:
            raise GraphError(
                "The graph holds no drugs. Load them, for example by running this notebook from its top."
            )
        return Vocabulary.of(**names)

    def normalise(self, asked: str, role: str) -> Normalised:
        """The graph's name of a role for a name as written, whatever its case.

        Else the nearest name, if it is one edit away for each five letters, three at most, and no other is as near.
        """
        text = " ".join(asked.lower().split())
        names = {name.lower(): name for name in self.names[role]}
        near = process.extract(text, list(names), scorer=OSA.distance, limit=4)
        suggestions = tuple(names[name] for name, _, _ in near[:3])
        best = int(near[0][1]) if near else len(text)
        tied = len(near) > 1 and near[1][1] == best
        if not near or tied or best > min(3, len(text) // 5):
            return Normalised(role, asked, None, best, suggestions)
        return Normalised(role, asked, names[near[0][0]], best, suggestions[1:])

    def link(self, text: str) -> dict[str, list[str]]:
        """The names that stand in a text word for word, by role, in their order; of names that overlap the longest."""
        words = [(match.start(), match.end()) for match in re.finditer(r"[\w(][\w'().,/+-]*", text)]
        found: list[tuple[int, str, str]] = []
        used: set[int] = set()
        # the first of names that are the same in lower case
        named = [(role, name) for role, names in self.names.items() for name in names]
        lookup = {name.lower(): (role, name) for role, name in reversed(named)}
        longest = max((name.count(" ") + 1 for name in lookup), default=0)
        for size in range(min(longest, len(words)), 0, -1):
            for first in range(len(words) - size + 1):
                span = range(first, first + size)
                if used.isdisjoint(span):
                    piece = text[words[first][0] : words[first + size - 1][1]].lower()
                    if match := lookup.get(piece) or lookup.get(piece.rstrip(".,:;?!")):
                        found.append((first, *match))
                        used |= set(span)
        linked: dict[str, list[str]] = {role: [] for role in self.names}
        for _, role, name in sorted(found):
            if name not in linked[role]:
                linked[role].append(name)
        return linked


def split_names(text: str, with_comma: Iterable[str] = ()) -> list[str]:
    """The names in a comma-separated list, keeping together those of `with_comma`, such as "hallucination, visual"."""
    pieces = [piece.strip() for piece in text.strip().rstrip(".").split(", ")]
    known = set(with_comma)
    longest = max((term.count(", ") + 1 for term in known), default=1)
    terms: list[str] = []
    i = 0
    while i < len(pieces):
        size = next((n for n in range(longest, 1, -1) if ", ".join(pieces[i : i + n]) in known), 1)
        terms.append(", ".join(pieces[i : i + size]))
        i += size
    return [term for term in terms if term]
