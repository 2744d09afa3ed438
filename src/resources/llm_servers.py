"""The LLM servers that the settings name: `LLM_BASE_URL`, and those of the file `LLM_SERVERS`.

The file is a YAML list. Each server has a `url`, the name of the variable that holds its `key` (in
the environment or in `.env`) if it asks for one, and `models` if not all that it lists are to be
asked there:

    - {url: http://gpu1:8000/v1, key: GPU1_API_KEY}
    - {url: https://api.openai.com/v1, key: OPENAI_API_KEY, models: [gpt-4.1-mini]}
"""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator

from resources.env_file import read_env_file
from resources.settings import ENV_FILE, SECRET_NAME, SettingsError, hide_secrets, settings

NO_KEY = "none"
"""Sent to a server that asks for no key."""


@dataclass(frozen=True)
class LlmServer:
    """A server of the OpenAI API.

    Attributes:
        url: Its address, up to ``/v1``.
        api_key: Its key.
        source: The setting that names it.
        models: The models that are asked there; empty if all that it lists are.
    """

    url: str
    api_key: str
    source: str = "LLM_BASE_URL"
    models: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the key."""
        return f"LlmServer({hide_secrets(self.url)}, source={self.source})"

    def takes(self, model: str) -> bool:
        """Whether a model may be asked there."""
        return not self.models or model in self.models


class _Entry(BaseModel):
    """A server in the file."""

    model_config = ConfigDict(extra="forbid")

    url: str
    key: str = ""
    models: tuple[str, ...] = ()

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must have http:// or https:// and a host, like http://gpu1:8000/v1")
        return value.rstrip("/")

    @field_validator("key")
    @classmethod
    def _variable(cls, value: str) -> str:
        if value and not SECRET_NAME.search(value):
            raise ValueError("names the variable that holds the key, such as GPU1_API_KEY")
        return value


def llm_servers() -> list[LlmServer]:
    """Return the servers in the order in which a model is looked for: `LLM_BASE_URL` first.

    Raises:
        SettingsError: The file cannot be read, or the variable of a key is not set.
    """
    servers = []
    user_settings = settings()
    if user_settings.llm_base_url:
        secret = user_settings.llm_api_key
        key = secret.get_secret_value() if secret else NO_KEY
        servers.append(LlmServer(user_settings.llm_base_url, key))
    if user_settings.llm_servers:
        servers += _read_file(Path(user_settings.llm_servers))
    return servers


def _read_file(path: Path) -> list[LlmServer]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = TypeAdapter(list[_Entry]).validate_python(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else "no YAML"
        raise SettingsError(f"LLM_SERVERS={path} cannot be read ({why}). Correct it.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = " ".join(str(part) for part in first["loc"])
        raise SettingsError(f"LLM_SERVERS={path}: {place}: {first['msg']}. Correct it.") from None
    return [LlmServer(e.url, _key(e.key, path), f"{path.name}", e.models) for e in entries]


def _key(variable: str, path: Path) -> str:
    """The value of the variable that holds a key."""
    if not variable:
        return NO_KEY
    value = os.environ.get(variable) or read_env_file(ENV_FILE).get(variable)
    if not value:
        raise SettingsError(
            f"LLM_SERVERS={path} names the key {variable}, which is not set. Set it in the "
            f"environment or in {ENV_FILE}."
        )
    return value
