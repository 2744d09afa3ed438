"""The names that a graph has: found in a text word for word, or meant by one that is misspelt."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from rapidfuzz import process
from rapidfuzz.distance import OSA

from helpers.graph import Graph, GraphError

MAX_EDITS = 3
LETTERS_PER_EDIT = 5
"""A name may differ from the graph's by one edit for each five letters."""
LETTERS_PER_DOUBT = 3
"""A name that differs by more than one edit for each three letters is no misspelling."""
MIN_LETTERS = 4
"""Letters of a word that may be another name of a drug; shorter ones are words of the language."""
MAX_SUGGESTIONS = 3
MAX_WORDS = 3
"""Words of another name of a drug, such as a brand."""

OPPOSITES = (
    ("hypo", "hyper"),
    ("brady", "tachy"),
    ("kalaemia", "calcaemia"),
    ("kalemia", "calcemia"),
    ("kalaemia", "natraemia"),
    ("kalemia", "natremia"),
    ("calcaemia", "natraemia"),
    ("calcemia", "natremia"),
    ("increase", "decrease"),
    ("penia", "philia"),
    ("upper", "lower"),
)
"""Parts of medical words that exclude each other; few edits lie between some of them."""
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4`", "'"))
_MARKS_AROUND = '."\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}'
"""Dots and quotation marks around a name, which are no part of it."""
_WORD = re.compile(r"[\w(][\w'().,/+-]*")


@dataclass(frozen=True)
class Normalised:
    """A name as the graph has it.

    Attributes:
        role: What it names, such as drug or effect.
        written: The name as it was written.
        name: The graph's name; None if none is near enough, or if another may be meant.
        distance: Edits between the two (optimal string alignment).
        nearest: Other names that are near.
        is_other_name: Whether it was written as another name of the same drug, such as a brand.
    """

    role: str
    written: str
    name: str | None
    distance: int
    nearest: tuple[str, ...] = ()
    is_other_name: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the graph's name is not the one that was written."""
        return bool(self.name) and (self.is_other_name or self.distance > 0)

    @property
    def correction(self) -> str:
        """What a reader must know of the name that is used; empty if it was written so."""
        if not self.is_changed:
            return ""
        reason = "another name of the same drug" if self.is_other_name else "spelling"
        return f"{self.written!r} was read as {self.name!r} ({reason})."

    @property
    def query_back(self) -> str:
        """What to ask who wrote a name that the graph lacks; empty if no other name is near."""
        if self.name:
            return ""
        near = [name for name in self.nearest if self._may_mean(name)]
        if not near:
            return ""
        return f"The graph has no {self.written!r}. Is it {' or '.join(map(repr, near))}?"

    def _may_mean(self, name: str) -> bool:
        """Whether a name is near enough to be meant, and not the opposite."""
        if self.is_other_name:
            return True
        text = canonical(self.written)
        max_edits = min(MAX_EDITS, len(text) // LETTERS_PER_DOUBT)
        is_near = OSA.distance(text, canonical(name)) <= max_edits
        return is_near and not _is_nearer_to_opposite(text, canonical(name))


@dataclass(frozen=True)
class Vocabulary:
    """The names that the graph has.

    Attributes:
        names: Names by role: drug, effect, and others if there are any.
    """

    names: Mapping[str, tuple[str, ...]]

    @staticmethod
    def by_role(**names: Iterable[str]) -> "Vocabulary":
        """Make a vocabulary of names by role."""
        by_role = {}
        for role, of_role in names.items():
            by_role[role] = tuple(sorted(set(of_role)))
        return Vocabulary(by_role)

    @staticmethod
    def read(graph: Graph) -> "Vocabulary":
        """Read the names of a graph with the labels `Drug` and `SideEffect`.

        Raises:
            GraphError: It holds no drugs.
        """
        names = {}
        for role, label in (("drug", "Drug"), ("effect", "SideEffect")):
            rows = graph.read(f"MATCH (n:{label}) RETURN n.name AS name")
            names[role] = [row["name"] for row in rows]
        if not names["drug"]:
            raise GraphError(
                "The graph holds no drugs. Load them, for example by running this notebook from "
                "its top."
            )
        return Vocabulary.by_role(**names)

    def normalise(self, written: str, role: str) -> Normalised:
        """Find the graph's name of a role for a name as written.

        Case and typographic apostrophes make no difference, nor do dots and quotation marks around
        it. Otherwise the nearest name
        is meant, if it is one edit away for each five letters, three at most, if no other is as
        near, and if the name as written is neither its opposite nor another drug.

        Args:
            written: The name as a question or a statement has it.
            role: A key of `names`.
        """
        text = canonical(written)
        names = self._canonical_names[role]
        same = _same_name(text, names)
        if same is not None:
            return Normalised(role, written, same, 0)
        near = _nearest(text, names)
        suggestions = tuple(names[name] for name, _ in near[:MAX_SUGGESTIONS])
        distance = near[0][1] if near else len(text)
        if not _is_clear(text, near) or _means_another(text, near[0][0], role):
            return Normalised(role, written, None, distance, suggestions)
        return Normalised(role, written, suggestions[0], distance, suggestions[1:])

    def resolve(self, written: str, role: str) -> Normalised:
        """Find the graph's name as `normalise` does, or by another name of the same drug.

        A brand or synonym, such as Coumadin for warfarin, counts if it means one drug that the
        graph has. If it means several, none is chosen; they are the nearest.
        """
        match = self.normalise(written, role)
        is_same = bool(match.name) and match.distance == 0
        if is_same or role != "drug":
            return match
        return self._by_other_name(written) or match

    def meant_names(self, text: str) -> list[Normalised]:
        """Find what a text names that the graph does not have as written.

        These are brands and synonyms of the graph's drugs, misspelt names of drugs, and drugs that
        the graph lacks.

        Returns:
            The names: those of several words first, then in the order of the text.
        """
        linked = self.link(text)
        linked_words = " ".join(name for names in linked.values() for name in names).lower().split()
        words = [match.span() for match in _WORD.finditer(text)]
        matches: list[Normalised] = []
        used: set[int] = set()
        for first, end in _spans(len(words), MAX_WORDS):
            piece = text[words[first][0] : words[end - 1][1]].rstrip(".,:;?!").lower()
            is_used = not used.isdisjoint(range(first, end))
            if is_used or len(piece) < MIN_LETTERS or piece in linked_words:
                continue
            match = self._meant(piece)
            if match:
                matches.append(match)
                used.update(range(first, end))
        return matches

    def _meant(self, written: str) -> Normalised | None:
        """What a piece of a text means, if it is a drug or near to a name; else None."""
        by_other_name = self._by_other_name(written)
        if by_other_name:
            return by_other_name
        if written in _real_drugs():
            return Normalised("drug", written, None, len(written))
        if " " in written:
            return None
        # Of effects a plain word may be near to a name, as "interactions" to "interaction".
        match = self.normalise(written, "drug")
        return match if match.distance <= len(written) // LETTERS_PER_EDIT else None

    def _by_other_name(self, written: str) -> Normalised | None:
        """The drug of another name; None if the graph has none of its drugs."""
        drugs = _real_drugs()
        meant = set(drugs.get(canonical(written), ()))
        names = []
        for key, name in self._canonical_names["drug"].items() if meant else ():
            if key in meant or not meant.isdisjoint(drugs.get(key, ())):
                names.append(name)
        if not names:
            return None
        is_clear = len(meant) == 1
        first = names[0] if is_clear else None
        others = names[1:] if is_clear else names
        return Normalised("drug", written, first, 0, tuple(others), is_other_name=True)

    def link(self, text: str) -> dict[str, list[str]]:
        """Find the names that are in a text word for word.

        Returns:
            The names by role, in the order of the text; of names that overlap the longest.
        """
        linked: dict[str, list[str]] = {role: [] for role in self.names}
        for _, role, name in sorted(self._matches(text.translate(_APOSTROPHES))):
            if name not in linked[role]:
                linked[role].append(name)
        return linked

    @cached_property
    def _canonical_names(self) -> dict[str, dict[str, str]]:
        """The graph's names by what they are compared by, of each role."""
        by_role = {}
        for role, names in self.names.items():
            by_role[role] = {canonical(name): name for name in names}
        return by_role

    def _matches(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield number of the first word, role and name of each name in a text."""
        lookup = self._roles_by_name
        words = [match.span() for match in _WORD.finditer(text)]
        used: set[int] = set()
        for first, end in _spans(len(words), self._longest_name):
            if not used.isdisjoint(range(first, end)):
                continue
            piece = text[words[first][0] : words[end - 1][1]].lower()
            match = lookup.get(piece) or lookup.get(piece.rstrip(".,:;?!"))
            if match:
                yield (first, *match)
                used.update(range(first, end))

    @cached_property
    def _longest_name(self) -> int:
        """Words of the longest name."""
        return max((name.count(" ") + 1 for name in self._roles_by_name), default=0)

    @cached_property
    def _roles_by_name(self) -> dict[str, tuple[str, str]]:
        """Role and name by the name in lower case; of those that are the same then, the first."""
        lookup: dict[str, tuple[str, str]] = {}
        for role, names in self.names.items():
            for name in names:
                lookup.setdefault(name.translate(_APOSTROPHES).lower(), (role, name))
        return lookup


def canonical(name: str) -> str:
    """A name in lower case, with single spaces and plain apostrophes."""
    return " ".join(name.translate(_APOSTROPHES).lower().split())


def _same_name(text: str, names: Mapping[str, str]) -> str | None:
    if text in names:
        return names[text]
    bare = text.strip(_MARKS_AROUND)
    same = [name for key, name in names.items() if key.strip(_MARKS_AROUND) == bare]
    return same[0] if len(same) == 1 and bare else None


def _nearest(text: str, names: Iterable[str]) -> list[tuple[str, int]]:
    """The nearest names with their distances, one more than are suggested."""
    near = process.extract(text, list(names), scorer=OSA.distance, limit=MAX_SUGGESTIONS + 1)
    return [(name, int(distance)) for name, distance, _ in near]


def _is_clear(text: str, near: list[tuple[str, int]]) -> bool:
    """Whether the first name is near enough, and the second is not as near."""
    distances = [distance for _, distance in near]
    if not distances or distances[0] > min(MAX_EDITS, len(text) // LETTERS_PER_EDIT):
        return False
    return distances[0] not in distances[1:]


def _means_another(text: str, name: str, role: str) -> bool:
    return _is_nearer_to_opposite(text, name) or (role == "drug" and is_other_drug(text, name))


def _is_nearer_to_opposite(text: str, name: str) -> bool:
    distance = OSA.distance(text, name)
    return any(OSA.distance(text, opposite) <= distance for opposite in opposites(name))


def opposites(name: str) -> Iterator[str]:
    """Yield the opposites of a medical term, such as hypotension for hypertension."""
    for pair in OPPOSITES:
        for part, other in (pair, pair[::-1]):
            if part in name:
                yield name.replace(part, other)


def is_other_drug(text: str, name: str) -> bool:
    """Whether a name in lower case is that of another drug, as prednisone is of prednisolone."""
    drugs = _real_drugs()
    meant = set(drugs.get(text, ()))
    return bool(meant) and meant.isdisjoint(drugs.get(name, (name,)))


@cache
def _real_drugs() -> Mapping[str, Iterable[str]]:
    # Seconds to load, so only where a name would be corrected.
    from drug_named_entity_recognition import drugs_finder  # noqa: PLC0415

    return drugs_finder.drug_variant_to_canonical


def _spans(n_words: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield first word and end of each span of words, the longest first."""
    for size in range(min(longest, n_words), 0, -1):
        for first in range(n_words - size + 1):
            yield first, first + size


def split_names(text: str, with_comma: Iterable[str] = ()) -> list[str]:
    """Split a comma-separated list of names.

    Args:
        text: The list, with or without a final dot.
        with_comma: Names that hold commas, such as "hallucination, visual"; they stay together.
    """
    pieces = [piece.strip() for piece in text.strip().rstrip(".").split(", ")]
    known = set(with_comma)
    longest = max((term.count(", ") + 1 for term in known), default=1)
    terms: list[str] = []
    start = 0
    while start < len(pieces):
        size = _size_of_known(pieces[start : start + longest], known)
        terms.append(", ".join(pieces[start : start + size]))
        start += size
    return [term for term in terms if term]


def _size_of_known(pieces: list[str], known: set[str]) -> int:
    """The number of pieces that make the longest known name at their beginning; 1 if none does."""
    for size in range(len(pieces), 1, -1):
        if ", ".join(pieces[:size]) in known:
            return size
    return 1
