"""What the user may set, from the environment or `.env`, and where things lie."""

import errno
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.sources import EnvSettingsSource

from resources import env_file
from resources.env_file import EnvFileError, read_env_file

Profile = Literal["smoke", "laptop", "paper"]
T = TypeVar("T")

_FORMAT_WARNING = warnings.formatwarning

ROOT = env_file.ROOT
"""The project's folder."""
ENV_FILE = ROOT / ".env"
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
"""How the name of a variable, or of a field of a query or an entry, ends if its value is a secret.

`PWD` is a folder.
"""
LONG = 8
"""Characters from which a secret is hidden wherever it is found, also within a longer word."""

# All that an address may have before its host: `user:password@`, or a password with characters that
# end a host.
_LOGIN = re.compile(r"(?<=://)(?:[^\s/?#\"'<>\\]*@|[^\s/?#\"'<>\\:]*:(?!\d+[/?#])[^\s\"'<>\\]*@)")
_FIELD = re.compile(r"(?<=[?&;])([\w.-]+)=[^\s&;#\"'<>\\)]+")
_AUTHORIZATION = re.compile(
    r"(authorization['\"]?\s*[:=]\s*b?['\"]?(?:bearer|basic)\s+)[^\s'\"]+", re.I
)


def hide_secrets(value: T, keep: frozenset[str] = frozenset()) -> T:
    """Return a value without its passwords, keys and tokens.

    What a message, a log, a record or a page shows goes through here. Hidden are the login of an
    address, what a query or a dictionary names like a secret, and all secrets of the settings and
    of the environment.

    Args:
        value: Text, or lists and dictionaries of it.
        keep: Entries of dictionaries that are no secrets, whatever their names.
    """
    return cast(T, _hide_in(value, keep, _known_secrets()))


def _hide_in(value: Any, keep: frozenset[str], known: re.Pattern[str] | None) -> Any:  # noqa: ANN401  # whatever JSON holds
    if isinstance(value, str):
        return _hide_in_text(value, known)
    if isinstance(value, list):
        return [_hide_in(item, keep, known) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {}
    for key, item in value.items():
        if key in keep:
            shown[key] = item
        elif SECRET_NAME.search(str(key)):
            shown[key] = HIDDEN
        else:
            shown[key] = _hide_in(item, keep, known)
    return shown


def _hide_in_text(text: str, known: re.Pattern[str] | None) -> str:
    if "://" in text:
        text = _LOGIN.sub("", text)
    if "=" in text:
        text = _FIELD.sub(_hide_field, text)
    if "author" in text.lower():
        text = _AUTHORIZATION.sub(rf"\g<1>{HIDDEN}", text)
    return known.sub(HIDDEN, text) if known else text


def _hide_field(field: re.Match[str]) -> str:
    return f"{field[1]}={HIDDEN}" if SECRET_NAME.search(field[1]) else field[0]


def _known_secrets() -> re.Pattern[str] | None:
    """Return a pattern that finds the secrets of the settings and of the environment."""
    try:
        own_values = list(vars(settings()).values())
    except SettingsError:  # about to be reported; its only secrets are in the environment
        own_values = []
    secrets = {value.get_secret_value() for value in own_values if isinstance(value, SecretStr)}
    for value in own_values:
        if isinstance(value, str) and "://" in value:
            secrets |= _secrets_of_address(value)
    # A page asks for these thousands of times, so they are searched once for each environment.
    secrets |= _secrets_of_surroundings(frozenset(os.environ.items()), _version_of(ENV_FILE))
    return _secrets_pattern(frozenset(secrets))


def _version_of(path: Path) -> tuple[Path, int, int]:
    """What changes when a file does: its path, time and size."""
    try:
        status = path.stat()
    except OSError:
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _secrets_of_surroundings(
    environment: frozenset[tuple[str, str]], version: tuple[Path, int, int]
) -> frozenset[str]:
    """Return the secrets of the environment and of a version of the file `.env`."""
    secrets = _named_secrets(environment)
    with suppress(EnvFileError):  # about to be reported
        secrets |= _named_secrets(read_env_file(version[0]).items())
    for _, value in environment:
        if "://" in value:
            secrets |= _secrets_of_address(value)
    return frozenset(secrets)


def _named_secrets(variables: Iterable[tuple[str, str]]) -> set[str]:
    """Return the values of variables that are named like a secret."""
    secrets = set[str]()
    for name, value in variables:
        if SECRET_NAME.search(name) and len(value) >= LONG:
            secrets.add(value)
    return secrets


def _secrets_of_address(address: str) -> set[str]:
    """Return the password of an address, or a long user name, and the secrets of its query."""
    try:
        parts = urlsplit(address)
    except ValueError:  # no address
        return set()
    secrets = set[str]()
    user = parts.username or ""
    if parts.password:
        secrets.add(parts.password)
    elif len(user) >= LONG:
        secrets.add(user)
    for name, value in parse_qsl(parts.query):
        if len(value) >= LONG or SECRET_NAME.search(name):
            secrets.add(value)
    return secrets


@lru_cache(maxsize=4)
def _secrets_pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds the secrets as they are and as an address spells them."""
    spelled = set[str]()
    for secret in secrets:
        spelled |= {secret, quote(secret, safe=""), unquote(secret)}
    alternatives = []
    # the longest first, for one may be the beginning of another
    for secret in sorted(map(re.escape, spelled - {""}), key=len, reverse=True):
        is_long = len(secret) >= LONG
        alternatives.append(secret if is_long else rf"(?<!\w){secret}(?!\w)")
    return re.compile("|".join(alternatives)) if alternatives else None


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys, but for tabs and ends of lines."""


class PublicError(Exception):
    """An error that shows no secret and no code for the terminal, whatever it quotes."""

    def __str__(self) -> str:
        """The message."""
        message = hide_secrets(super().__str__())
        return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", message)

    def __repr__(self) -> str:
        """The message, with the error's name."""
        return hide_secrets(super().__repr__())

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of it, for IPython: how the code came there helps nobody."""
        return [f"{type(self).__name__}: {self}"]


class _PublicRecord(logging.LogRecord):
    """A line of any log, without secrets."""

    def getMessage(self) -> str:  # noqa: N802  # logging's own name
        return hide_secrets(super().getMessage())


logging.setLogRecordFactory(_PublicRecord)


class SettingsError(PublicError, ValueError):
    """A setting that cannot be used; the message says which, what was found and what to do."""


class _EnvFileSource(EnvSettingsSource):
    """The lines of `.env`."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        values = read_env_file(ENV_FILE)
        return {name.lower(): value for name, value in values.items() if value}


class Settings(BaseSettings):
    """Every setting, with its default. An empty variable counts as unset."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True)

    @classmethod
    def settings_customise_sources(  # type: ignore[override]  # the other sources are not used
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        **_: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read `.env` as make does."""
        return init_settings, env_settings, _EnvFileSource(settings_cls)

    neo4j_uri: str | None = Field(
        None, description="a Neo4j 5 server, for example bolt://localhost:7687"
    )
    neo4j_user: str = Field("neo4j", description="the user who loads the graphs")
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
    llm_servers: str | None = Field(
        None,
        description="a YAML file of further servers, for models that LLM_BASE_URL does not serve",
    )
    llm_engine: Literal["auto", "vllm", "llamacpp"] = Field(
        "auto", description="the embedded engine"
    )
    llm_concurrency: int | None = Field(
        None,
        ge=1,
        description="number of concurrent requests; unset: the server's limit, or 64 if it states "
        "none",
    )
    llm_context: int | None = Field(
        None,
        ge=256,
        description="largest number of tokens of prompt and answer together in the embedded "
        "engine; unset: the model's own limit on a GPU, at most 4,096 on a CPU",
    )
    llm_gpu_memory: float = Field(
        0.45,
        gt=0,
        le=1,
        description="share of a GPU's memory for each embedded server; the default leaves room "
        "for two, such as an answering model and one with adapters",
    )
    llm_thinking: Literal["off", "on"] | None = Field(
        None,
        description="whether models that can think before they answer do so, if their chat "
        "template has a switch; unset: the template's default",
    )
    llm_thinking_tokens: int = Field(
        0, ge=0, description="number of tokens for a thought, in addition to each step's own limit"
    )
    answers: Literal["check", "stored", "fresh", "stored-only", "collect", "plan"] = Field(
        "check",
        description="stored: send only requests that are not stored; check: also repeat a sample "
        "of the stored requests and count the equal replies; fresh: send every request; "
        "stored-only: fail if a request is not stored; collect: note the requests that are not "
        "stored, for a batch; plan: count the requests and send none",
    )
    check_seconds: float = Field(
        180.0,
        ge=0,
        description="with ANSWERS=check: the seconds that repeated requests and searches may take "
        "in a whole run, spread over the chapters",
    )
    check_seed: int | None = Field(
        None, description="seed of the sample of ANSWERS=check; unset: a new seed each day"
    )
    data_mirror: str | None = Field(
        None, description="a folder or URL from which data are fetched before their source is tried"
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
        # of a port that cannot be; its message may quote a piece of a password
        with suppress(ValueError):
            parts = urlsplit(value)
            is_http = parts.scheme in ("http", "https")
            if is_http and parts.hostname and parts.port != 0:
                return value.rstrip("/")
        raise ValueError(
            "must have http:// or https://, a host, and any port up to 65535, like "
            "http://gpu:8000/v1"
        )


@lru_cache
def settings() -> Settings:
    """Return the settings of this process.

    Raises:
        SettingsError: A variable holds a value that is not understood, or `.env` cannot be read.
    """
    try:
        return Settings()  # type: ignore[call-arg]  # every field is filled from the environment
    except EnvFileError as error:
        raise SettingsError(str(error)) from None
    except ValidationError as error:
        lines = [_explain_setting(found) for found in error.errors(include_url=False)]
        shown = "\n".join(line for line in lines if line)
        raise SettingsError(shown or "A password or key is not text.") from None


def _explain_setting(found: ErrorDetails) -> str:
    """Say what is wrong with a setting; nothing where its value must not be printed."""
    name = ".".join(map(str, found["loc"]))
    if "password" in name or "key" in name:
        return ""
    value = found.get("input")
    if "://" not in str(value):
        # without the user and password of an address that lacks its scheme
        value = re.sub(r".*@", "", str(value))
    return (
        f"{name.upper()}={value!r}: {found['msg']}. Correct it in the environment or in "
        f"{ENV_FILE}, or unset it to use the default."
    )


def threads() -> int:
    """Return the threads to compute with: `OMP_NUM_THREADS`, else the processors allowed."""
    from_environment = os.environ.get("OMP_NUM_THREADS", "")
    if from_environment.isdecimal() and int(from_environment) > 0:
        return int(from_environment)
    return available_cores()


def available_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_profile(profile: str) -> dict[str, Any]:
    """Return a profile as written: `defaults`, and a section for each notebook that takes more.

    Raises:
        SettingsError: There is no such profile, or it has another form.
    """
    path = PROFILES / f"{profile}.yml"
    if not path.exists():
        names = sorted(path.stem for path in PROFILES.glob("*.yml"))
        raise SettingsError(
            f"There is no profile {profile!r}. Set PROFILE to one of: {', '.join(names)}."
        )
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.relative_to(ROOT)} is not valid YAML: {error}") from None
    sections = content.values() if isinstance(content, dict) else [content]
    if not all(isinstance(section, dict | NoneType) for section in sections):
        raise SettingsError(
            f"{path.relative_to(ROOT)} must have `defaults` and notebooks, each with parameters."
        )
    return dict(content)


def profile_model(profile: str) -> str:
    """Return the model that a profile asks for, unless `LLM_MODEL` names another."""
    return settings().llm_model or _own_model(profile)


def _own_model(profile: str) -> str:
    defaults = read_profile(profile).get("defaults") or {}
    return str(defaults.get("llm_model", ""))


def run_name(profile: str) -> str:
    """Return the folder of a profile's runs under `_build`, with the model of the settings."""
    model = settings().llm_model
    # only another model needs the profile
    return env_file.run_name(profile, model, _own_model(profile)) if model else profile


def run_command_line(command: Callable[[], int]) -> int:
    """Run a command line and return its exit status; a user's error is printed in one line."""
    _open_standard_streams()
    warnings.formatwarning = _format_warning
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


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Write a warning to the user as its sentences alone; others with their place in the code."""
    if category is UserWarning:
        return f"{message}\n"
    return _FORMAT_WARNING(message, category, filename, lineno, line)


def _open_standard_streams() -> None:
    """Lead standard streams that are closed to nowhere, so that no child takes a file for one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # a new descriptor has the lowest free number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


_OS_ERRORS = {
    errno.ENOSPC: (
        "The disk of {where} is full. Free some space and run the same command again. If the "
        "command names a folder on another disk, that disk may be the full one."
    ),
    errno.EACCES: (
        "{where} may not be written ({what}). Make it writable for you, or work in a copy of the "
        "project elsewhere, and run the same command again."
    ),
    errno.EFBIG: (
        "{where} grew beyond the limit on files (ulimit -f). Raise it and run the same command "
        "again."
    ),
    errno.EMFILE: (
        "Too many files are open at once. Raise the limit (ulimit -n 1024) and run the same "
        "command again."
    ),
    errno.ENOTDIR: (
        "{where}: a part of this path is a file, where a folder is needed. Move or delete that "
        "file, and run the same command again."
    ),
}
"""What to do where the system refuses."""
_ALIKE = {
    errno.EDQUOT: errno.ENOSPC,
    errno.EPERM: errno.EACCES,
    errno.EROFS: errno.EACCES,
    errno.ENFILE: errno.EMFILE,
    errno.EEXIST: errno.ENOTDIR,
}


def explain_os_error(error: OSError) -> str:
    """Say what the system refused, and what to do, in one line."""
    number = error.errno or 0
    advice = _OS_ERRORS.get(_ALIKE.get(number, number))
    if advice:
        return advice.format(where=error.filename or ROOT, what=error.strerror)
    what = str(error)
    if isinstance(error, FileNotFoundError):
        what = f"{what.rstrip('.')}. If it was removed meanwhile, run the same command again."
    return what
