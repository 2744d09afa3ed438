"""What the user may set, from the environment or `.env`, and where things lie."""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

Profile = Literal["smoke", "laptop", "paper"]

ROOT = Path(os.environ.get("MEDRAG_ROOT", Path(__file__).resolve().parents[2]))
"""The project's folder. `MEDRAG_ROOT` moves it, so that a test can work in a folder of its own."""
BUILD = ROOT / "_build"
DATA = ROOT / "data"
RAW = DATA / "raw"
DERIVED = DATA / "derived"
SAMPLE = DATA / "sample"
PUBLISHED = DATA / "published"
RESULTS = DATA / "results"
LOGS = BUILD / "logs"
NOTEBOOKS = ROOT / "notebooks"
PROFILES = NOTEBOOKS / "profiles"


class SettingsError(ValueError):
    """A setting that cannot be used; the message says which, what was found and what to do."""


class Settings(BaseSettings):
    """Every setting, with its default. An empty variable counts as unset."""

    model_config = SettingsConfigDict(env_file=ROOT / ".env", extra="ignore", env_ignore_empty=True)

    neo4j_uri: str | None = Field(None, description="a Neo4j 5 server, for example bolt://localhost:7687")
    neo4j_user: str = Field("neo4j", description="who loads the graphs there")
    neo4j_password: SecretStr | None = Field(None, description="that user's password; needed with NEO4J_URI")
    neo4j_database: str = Field("neo4j", description="the database that the graphs are loaded into")
    neo4j_reader_user: str | None = Field(None, description="a user without write rights, for generated Cypher")
    neo4j_reader_password: SecretStr | None = Field(None, description="that user's password")

    llm_base_url: str | None = Field(None, description="an OpenAI-compatible server, for example http://gpu:8000/v1")
    llm_model: str | None = Field(None, description="the model to ask for; unset: the profile's")
    llm_api_key: SecretStr | None = Field(None, description="the server's key, if it asks for one")
    llm_engine: Literal["auto", "vllm", "llamacpp"] = Field("auto", description="the embedded engine")

    answers: Literal["stored", "stored-only"] = Field(
        "stored", description="stored: ask a model what is not stored; stored-only: such a request is an error"
    )
    data_mirror: str | None = Field(None, description="a folder or URL that is asked for data before its source")
    profile: Profile = Field("laptop", description="sizes and models: smoke, laptop or paper")

    @field_validator("neo4j_uri")
    @classmethod
    def _bolt(cls, value: str | None) -> str | None:
        schemes = ("bolt://", "bolt+s://", "bolt+ssc://", "neo4j://", "neo4j+s://", "neo4j+ssc://")
        if value is not None and not value.startswith(schemes):
            raise ValueError(f"must start with one of {', '.join(schemes)}")
        return value

    @field_validator("llm_base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https:// (and end with /v1 for most servers)")
        if value is None:
            return value
        import httpx  # noqa: PLC0415  # slow to import, and needed only where a server is named

        try:
            host = httpx.URL(value).host
            urlsplit(value).port  # noqa: B018  # an error if there can be no such port
        except (httpx.InvalidURL, ValueError) as error:
            raise ValueError(f"is no URL ({error}); write it like http://gpu:8000/v1") from None
        if not host:
            raise ValueError("names no host; write it like http://gpu:8000/v1")
        return value.rstrip("/")


@lru_cache
def settings() -> Settings:
    """The settings of this process.

    Raises:
        SettingsError: a variable holds a value that is not understood.
    """
    try:
        return Settings()  # type: ignore[call-arg]  # every field is filled from the environment
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc'])).upper()}={e.get('input')!r}: {e['msg']}. Correct it in the environment or "
            f"in {ROOT / '.env'}, or unset it to use the default."
            for e in error.errors(include_url=False)
            # a password that does not validate must not be printed
            if "password" not in str(e["loc"]) and "key" not in str(e["loc"])
        ]
        raise SettingsError("\n".join(lines) or "A password or key is not text.") from None


def read_profile(profile: str) -> dict[str, Any]:
    """A profile as it is written: `defaults`, and a section for each notebook that takes more.

    Raises:
        SettingsError: there is no such profile, or it is not YAML.
    """
    path = PROFILES / f"{profile}.yml"
    if not path.exists():
        have = ", ".join(sorted(p.stem for p in PROFILES.glob("*.yml")))
        raise SettingsError(f"There is no profile {profile!r}. Set PROFILE to one of: {have}.")
    try:
        return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except yaml.YAMLError as error:
        raise SettingsError(f"{path.relative_to(ROOT)} is not valid YAML: {error}") from None


def profile_model(profile: str) -> str:
    """The model that a profile asks for, unless `LLM_MODEL` names another."""
    return settings().llm_model or str((read_profile(profile).get("defaults") or {}).get("llm_model", ""))


def refused(error: OSError) -> str:
    """What the system refused, and what to do, in one line."""
    where = error.filename or ROOT
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {where} is full. Free some space and run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{where} may not be written ({error.strerror}). Make it writable for you, or work in a copy of the "
            "project elsewhere, and run the same command again."
        )
    return str(error)
