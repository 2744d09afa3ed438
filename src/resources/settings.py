"""What the user may set, from the environment or `.env`, and where things lie."""

import errno
import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

Profile = Literal["smoke", "laptop", "paper"]
T = TypeVar("T")

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

HIDDEN = "(hidden)"
SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|(?-i:pwd)|secret|token|api[_-]?key|\bkey|credential|sig(?:nature)?|auth)$",
    re.I,
)
"""How the name of a variable, of a field of a query or of an entry ends if its value is a secret; `PWD` is a folder."""
LONG = 8  # characters from which a secret is hidden wherever it is found, also within a longer word

# All that an address may have before its host: `user:password@`, or a password with characters that end a host.
_LOGIN = re.compile(r"(?<=://)(?:[^\s/?#\"'<>\\]*@|[^\s/?#\"'<>\\:]*:(?!\d+[/?#])[^\s\"'<>\\]*@)")
_FIELD = re.compile(r"(?<=[?&;])([\w.-]+)=[^\s&;#\"'<>\\)]+")
_AUTHORIZATION = re.compile(
    r"(authorization['\"]?\s*[:=]\s*b?['\"]?(?:bearer|basic)\s+)[^\s'\"]+", re.I
)


def hide_secrets(value: T, keep: frozenset[str] = frozenset()) -> T:
    """The same value without passwords, keys and tokens: what a message, a log, a record or a page shows goes through.

    Hidden are the login of an address, what a query or a dictionary names like a secret (except the entries `keep`),
    and all secrets of the settings and the environment. Lists and dictionaries are gone through.
    """
    known = _known()

    def hide(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
        if isinstance(value, list):
            return [hide(item) for item in value]
        if isinstance(value, dict):
            return {
                key: item if key in keep else HIDDEN if SECRET_NAME.search(str(key)) else hide(item)
                for key, item in value.items()
            }
        if not isinstance(value, str):
            return value
        text = _LOGIN.sub("", value) if "://" in value else value
        text = _FIELD.sub(lambda m: f"{m[1]}={HIDDEN}" if SECRET_NAME.search(m[1]) else m[0], text)
        text = _AUTHORIZATION.sub(rf"\g<1>{HIDDEN}", text)
        return known.sub(HIDDEN, text) if known else text

    return cast(T, hide(value))


def _known() -> re.Pattern[str] | None:
    try:
        own = vars(settings())
    except SettingsError:  # about to be reported; its only secrets are in the environment
        own = {}
    secrets = {value.get_secret_value() for value in own.values() if isinstance(value, SecretStr)}
    secrets |= {
        value
        for name, value in os.environ.items()
        if SECRET_NAME.search(name) and len(value) >= LONG
    }
    for url in (*own.values(), *os.environ.values()):
        if isinstance(url, str) and "://" in url:
            with suppress(ValueError):  # no address
                parts = urlsplit(url)
                login = parts.password or (
                    user if len(user := parts.username or "") >= LONG else ""
                )
                fields = parse_qsl(parts.query)
                secrets |= {
                    login,
                    *(
                        value
                        for name, value in fields
                        if len(value) >= LONG or SECRET_NAME.search(name)
                    ),
                }
    spelled = {
        way
        for secret in secrets
        if secret
        for way in (secret, quote(secret, safe=""), unquote(secret))
    }
    return _finding(frozenset(spelled))


@lru_cache(maxsize=4)
def _finding(secrets: frozenset[str]) -> re.Pattern[str] | None:
    # the longest first, for one may be the beginning of another
    found = sorted(map(re.escape, secrets), key=len, reverse=True)
    return (
        re.compile("|".join(s if len(s) >= LONG else rf"(?<!\w){s}(?!\w)" for s in found))
        if found
        else None
    )


class PublicError(Exception):
    """An error that shows no secret, whatever it quotes of another library's."""

    def __str__(self) -> str:
        """The message."""
        return hide_secrets(super().__str__())

    def __repr__(self) -> str:
        """The message, with the error's name."""
        return hide_secrets(super().__repr__())

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: IPython asks for this. How the code came there helps no reader."""
        return [f"{type(self).__name__}: {self}"]


class _PublicRecord(logging.LogRecord):
    """A line of any log, without secrets."""

    def getMessage(self) -> str:  # noqa: N802  # logging's own name
        return hide_secrets(super().getMessage())


logging.setLogRecordFactory(_PublicRecord)


class SettingsError(PublicError, ValueError):
    """A setting that cannot be used; the message says which, what was found and what to do."""


class Settings(BaseSettings):
    """Every setting, with its default. An empty variable counts as unset."""

    model_config = SettingsConfigDict(env_file=ROOT / ".env", extra="ignore", env_ignore_empty=True)

    neo4j_uri: str | None = Field(
        None, description="a Neo4j 5 server, for example bolt://localhost:7687"
    )
    neo4j_user: str = Field("neo4j", description="who loads the graphs there")
    neo4j_password: SecretStr | None = Field(
        None, description="that user's password; needed with NEO4J_URI"
    )
    neo4j_database: str = Field("neo4j", description="the database that the graphs are loaded into")
    neo4j_reader_user: str | None = Field(
        None, description="a user without write rights, for generated Cypher"
    )
    neo4j_reader_password: SecretStr | None = Field(None, description="that user's password")

    llm_base_url: str | None = Field(
        None, description="an OpenAI-compatible server, for example http://gpu:8000/v1"
    )
    llm_model: str | None = Field(None, description="the model to ask for; unset: the profile's")
    llm_api_key: SecretStr | None = Field(None, description="the server's key, if it asks for one")
    llm_engine: Literal["auto", "vllm", "llamacpp"] = Field(
        "auto", description="the embedded engine"
    )
    llm_concurrency: int | None = Field(
        None, ge=1, description="concurrent requests; unset: what the server takes"
    )
    llm_context: int | None = Field(
        None,
        ge=256,
        description="tokens of prompt and answer that the embedded engine takes; unset: the model's own number on a "
        "GPU, at most 4,096 on a CPU",
    )
    answers: Literal["check", "stored", "fresh", "stored-only", "collect"] = Field(
        "check",
        description="stored: ask only what is not stored; check: also ask a sample of the stored requests again and "
        "count equal replies; fresh: ask everything; stored-only: a request that is not stored is an error; "
        "collect: it is noted for a batch",
    )
    check_seconds: float = Field(
        180.0,
        ge=0,
        description="with ANSWERS=check: the seconds of a whole run that asking and searching again may take, "
        "spread over the chapters",
    )
    check_seed: int | None = Field(
        None, description="draws the sample of ANSWERS=check; unset: another one each day"
    )
    data_mirror: str | None = Field(
        None, description="a folder or URL that is asked for data before its source"
    )
    profile: Profile = Field("laptop", description="sizes and models: smoke, laptop or paper")

    @field_validator("neo4j_uri")
    @classmethod
    def _bolt(cls, value: str | None) -> str | None:
        if value and not re.match(r"(bolt|neo4j)(\+s|\+ssc)?://", value):
            raise ValueError(
                "must start with bolt:// or neo4j://, and may have +s or +ssc before the colon"
            )
        return value

    @field_validator("llm_base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        with suppress(
            ValueError
        ):  # such as a port that cannot be; its message may quote a piece of a password
            parts = urlsplit(value)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return value.rstrip("/")
        raise ValueError(
            "must have http:// or https://, a host, and any port up to 65535, like http://gpu:8000/v1"
        )


@lru_cache
def settings() -> Settings:
    """The settings of this process; a SettingsError where a variable holds a value that is not understood."""
    try:
        return Settings()  # type: ignore[call-arg]  # every field is filled from the environment
    except ValidationError as error:
        lines = []
        for found in error.errors(include_url=False):
            name, value = ".".join(map(str, found["loc"])), found.get("input")
            if (
                "password" in name or "key" in name
            ):  # one that does not validate must not be printed
                continue
            # without the user and password of an address that lacks its scheme
            shown = value if "://" in str(value) else re.sub(r".*@", "", str(value))
            mend = f"Correct it in the environment or in {ROOT / '.env'}, or unset it to use the default."
            lines.append(f"{name.upper()}={shown!r}: {found['msg']}. {mend}")
        raise SettingsError("\n".join(lines) or "A password or key is not text.") from None


def threads() -> int:
    """Threads to compute with: `OMP_NUM_THREADS`, else the processors that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_profile(profile: str) -> dict[str, Any]:
    """A profile as written: `defaults`, and a section for each notebook that takes more; or a SettingsError."""
    path = PROFILES / f"{profile}.yml"
    if not path.exists():
        have = ", ".join(sorted(p.stem for p in PROFILES.glob("*.yml")))
        raise SettingsError(f"There is no profile {profile!r}. Set PROFILE to one of: {have}.")
    try:
        whole = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.relative_to(ROOT)} is not valid YAML: {error}") from None
    if not isinstance(whole, dict) or not all(
        isinstance(section, dict | NoneType) for section in whole.values()
    ):
        raise SettingsError(
            f"{path.relative_to(ROOT)} must have `defaults` and notebooks, each with parameters."
        )
    return whole


def profile_model(profile: str) -> str:
    """The model that a profile asks for, unless `LLM_MODEL` names another."""
    return settings().llm_model or _own_model(profile)


def _own_model(profile: str) -> str:
    return str((read_profile(profile).get("defaults") or {}).get("llm_model", ""))


def run_command_line(command: Callable[[], int]) -> int:
    """The exit status of a command line. Errors meant for the user are printed without a traceback."""
    try:
        return command()
    except PublicError as error:
        why = str(error)
    except OSError as error:
        why = explain_os_error(error)
    except KeyboardInterrupt:
        return 130
    sys.stderr.write(f"{why}\n")
    return 1


def run_name(profile: str) -> str:
    """The folder of a profile's runs under `_build`; another one where `LLM_MODEL` is not the profile's own model."""
    model = settings().llm_model
    return model_run_name(profile, model) if model and model != _own_model(profile) else profile


def model_run_name(profile: str, model: str) -> str:
    """The folder of a profile's runs with a model that is not its own; the Makefile names it alike."""
    return f"{profile}@{re.sub(r'[^A-Za-z0-9.-]+', '_', model)}"


def explain_os_error(error: OSError) -> str:
    """What the system refused, and what to do, in one line."""
    where = error.filename or ROOT
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {where} is full. Free some space and run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{where} may not be written ({error.strerror}). Make it writable for you, or work in a copy of the "
            "project elsewhere, and run the same command again."
        )
    if error.errno == errno.EFBIG:
        return f"{where} grew beyond the limit on files (ulimit -f). Raise it and run the same command again."
    return str(error)
