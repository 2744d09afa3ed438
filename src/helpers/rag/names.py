"""The names that a graph has: found in a text word for word, or taken for a name that is written a little wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import OSA

from helpers.graph import Graph, GraphError


@dataclass(frozen=True)
class Normalised:
    """A name as asked, and as the graph has it.

    Attributes:
        role: drug or effect.
        asked: as the question has it.
        name: as the graph has it; None if none is near enough.
        distance: edits between the two (optimal string alignment).
        nearest: what else it might be, the nearest first.
    """

    role: str
    asked: str
    name: str | None
    distance: int
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vocabulary:
    """The names that the graph has, by role: drug, effect, and others if there are any."""

    names: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(**names: Iterable[str]) -> Vocabulary:
        """The vocabulary of these names by role."""
        return Vocabulary({role: tuple(sorted(set(of_role))) for role, of_role in names.items()})

    @classmethod
    def read(cls, graph: Graph) -> Vocabulary:
        """The drugs and effects of a graph with the labels `Drug` and `SideEffect`.

        Raises:
            helpers.graph.GraphError: the graph holds none.
        """
        queries = {
            "drug": "MATCH (n:Drug) RETURN n.name AS name",
            "effect": "MATCH (n:SideEffect) RETURN n.name AS name",
        }
        names = {role: [row["name"] for row in graph.read(query)] for role, query in queries.items()}
        if not names["drug"]:
            raise GraphError(
                "The graph holds no drugs. Load them first, for example by running this notebook from its top."
            )
        return cls.of(**names)

    def normalise(self, asked: str, role: str) -> Normalised:
        """The graph's name for a name as written.

        The same letters, whatever their case, are the same name. Otherwise the nearest name counts if it is at most
        one edit away for each five letters, three at most, and no other name is as near.

        Args:
            asked: the name as written.
            role: which names to look among.
        """
        text = " ".join(asked.lower().split())
        names = {name.lower(): name for name in self.names[role]}
        if text in names:
            return Normalised(role, asked, names[text], 0)
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
        lookup: dict[str, tuple[str, str]] = {}
        for role, names in self.names.items():
            for name in names:
                lookup.setdefault(name.lower(), (role, name))
        longest = max((name.count(" ") + 1 for name in lookup), default=0)
        for size in range(min(longest, len(words)), 0, -1):
            for first in range(len(words) - size + 1):
                span = range(first, first + size)
                if used.isdisjoint(span):
                    piece = text[words[first][0] : words[first + size - 1][1]].lower()
                    match = lookup.get(piece) or lookup.get(piece.rstrip(".,:;?!"))
                    if match:
                        found.append((first, *match))
                        used |= set(span)
        linked: dict[str, list[str]] = {role: [] for role in self.names}
        for _, role, name in sorted(found):
            if name not in linked[role]:
                linked[role].append(name)
        return linked
