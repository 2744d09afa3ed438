"""Finds the servers that the settings name, or starts the embedded ones.

Clients see an endpoint and never ask where it comes from. An embedded server is started on first need, shared by all
notebooks of the machine, and stopped when nobody holds it any more (see `supervisor`).

    python -m helpers.services start|stop|status [graph|llm]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import ipaddress
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from helpers import engine_install, engines, graph_engine, supervisor
from helpers.engine_install import EngineError
from helpers.engines import Adapter, Launch
from helpers.settings import BUILD, SettingsError, profile_model, public, refused, settings, told
from helpers.supervisor import ServiceError, ensure, living_leases

SERVICES = BUILD / "services"
CONTEXT = 4096
"""Tokens of prompt and answer that an embedded LLM server accepts."""
CONNECT = 4.0
"""Seconds in which a server that the settings name is reached; else it is away, or the network."""
ANSWER = 10.0
"""Seconds in which it answers once it is reached."""
DECLARED = "declared:"
"""Begins the weights of a model of unknown digest. Its name alone tells it apart, so its replies are not shared."""


@dataclass(frozen=True)
class GraphEndpoint:
    """Where the graph answers Bolt, and who may do what there."""

    uri: str
    user: str
    password: str
    database: str
    reader_user: str
    reader_password: str
    engine: str
    version: str
    embedded: bool

    def __repr__(self) -> str:
        """Without the passwords."""
        return f"GraphEndpoint({public(self.uri)}, database={self.database}, engine={self.engine})"


@dataclass(frozen=True)
class LlmEndpoint:
    """Where the LLM answers the OpenAI API, and what is known about it.

    Attributes:
        engine: vllm, llamacpp, or openai for a server of unknown make.
        version: the engine's version as it gives it.
        model_sha256: digest of the weights' file, for a folder or a hub's model of what `engines.weights_folder` looks
            at; empty where a server does not tell.
        context: tokens of prompt and answer together; 0 where a server does not tell.
        concurrency: requests that are worth having under way at once.
        precision: that the weights are served in: int8, bf16, or gguf for the file's own.
        adapter: digest of the adapter that `model` names; empty for the model itself.
    """

    base_url: str
    model: str
    api_key: str
    engine: str
    version: str
    model_sha256: str
    context: int
    concurrency: int
    precision: str = ""
    adapter: str = ""

    @property
    def weights(self) -> str:
        """What decides a reply besides the request: digest, precision and adapter, or else the declared name."""
        named = f"{self.model_sha256}:{self.precision}" if self.model_sha256 else f"{DECLARED}{self.model}"
        return f"{named}+{self.adapter}" if self.adapter else named

    def adapted(self, adapter: Adapter) -> LlmEndpoint:
        """The same server's model with one of its adapters."""
        base = "" if self.model_sha256 else f"{self.model} "
        return replace(self, model=adapter.name, adapter=f"{base}{adapter.sha256}")

    def __repr__(self) -> str:
        """Without the key."""
        return f"LlmEndpoint({public(self.base_url)}, model={self.model}, engine={self.engine})"


# ------------------------------------------------------------------------------------------------------- endpoints


def graph_endpoint() -> GraphEndpoint:
    """The graph server of `NEO4J_URI`, else the embedded one, started if need be.

    Raises:
        SettingsError: `NEO4J_URI` without `NEO4J_PASSWORD`.
        ServiceError: the embedded server did not start.
    """
    s = settings()
    if s.neo4j_uri:
        if s.neo4j_password is None:
            raise SettingsError(
                f"NEO4J_URI={s.neo4j_uri} is set but NEO4J_PASSWORD is not. Set it, or unset NEO4J_URI."
            )
        reader = s.neo4j_reader_password or s.neo4j_password
        return GraphEndpoint(
            uri=s.neo4j_uri,
            user=s.neo4j_user,
            password=s.neo4j_password.get_secret_value(),
            database=s.neo4j_database,
            reader_user=s.neo4j_reader_user or s.neo4j_user,
            reader_password=reader.get_secret_value(),
            engine="neo4j",
            version="",
            embedded=False,
        )

    def launch(say: Callable[[str], None]) -> Launch:
        passwords = graph_engine.graph_passwords(graph_engine.GRAPH_FOLDER)
        say("Starting the embedded graph server ...")
        return graph_engine.graph_launch(
            graph_engine.GRAPH_FOLDER, _free_port(), _free_port(), passwords, s.neo4j_database
        )

    return _as(GraphEndpoint, ensure(SERVICES / "graph", launch))


def llm_endpoint(
    model: str, context: int = CONTEXT, *, exact: bool = False, adapters: Sequence[Adapter] = (), start: bool = True
) -> LlmEndpoint:
    """The LLM server of `LLM_BASE_URL`, else an embedded one that serves `model`, started if need be.

    Args:
        model: the profile's model; `LLM_MODEL` takes its place.
        context: tokens of prompt and answer that an embedded server should accept.
        exact: ask for `model` whatever `LLM_MODEL` says, for a second model beside the first.
        adapters: LoRA adapters of the model; `LlmEndpoint.adapted` gives the endpoint of one.
        start: False describes an embedded server that does not run yet, with an empty `base_url`.

    Raises:
        ServiceError: the server does not answer, or does not have the model or an adapter.
        EngineError: the embedded engine cannot serve the model or an adapter.
    """
    s = settings()
    model = model if exact else s.llm_model or model
    if s.llm_base_url:
        key = s.llm_api_key.get_secret_value() if s.llm_api_key else "none"
        return _external_llm(s.llm_base_url, model, key, adapters, exact=exact)
    if s.answers == "collect":  # a batch will answer, by a model that is known by its name alone
        return LlmEndpoint("", model, "", "vllm", "", "", 0, 64)
    config = {
        "model": model,
        "context": context,
        "engine": s.llm_engine,
        "adapters": [f"{adapter.name} {adapter.sha256}" for adapter in adapters],
    }
    folder = _llm_folder(config)
    if not start and not supervisor.running(folder) and (card := engines.llm_card(model, context, adapters)):
        return _as(LlmEndpoint, card)

    def launch(say: Callable[[str], None]) -> Launch:
        return engines.llm_launch(model, _free_port(), secrets.token_urlsafe(24), context, say, adapters)

    return _as(LlmEndpoint, ensure(folder, launch))


def served(base_url: str, api_key: str) -> list[dict[str, Any]]:
    """The models that an OpenAI-compatible server lists, as it describes them.

    Raises:
        ServiceError: it does not answer, refuses the key, or gives no such list.
    """
    mend = "Start it or correct LLM_BASE_URL, or unset LLM_BASE_URL to use the embedded engine."
    try:
        answer = _get(f"{base_url}/models", api_key)
    except httpx.ReadTimeout:
        raise ServiceError(f"LLM_BASE_URL={base_url} did not answer within {ANSWER:.0f} s. {mend}") from None
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ServiceError(f"LLM_BASE_URL={base_url} cannot be reached ({why}). {mend}") from None
    if answer.status_code in (401, 403):
        raise ServiceError(f"LLM_BASE_URL={base_url} refused the key (HTTP {answer.status_code}). Set LLM_API_KEY.")
    try:
        listed: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
        raise ServiceError(
            f"LLM_BASE_URL={base_url} answered /models with HTTP {answer.status_code} and no list of models. It should "
            "be the root of an OpenAI-compatible API and usually ends with /v1."
        ) from None
    return listed


def _get(url: str, api_key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"}
    return httpx.get(
        url, headers=headers, timeout=httpx.Timeout(ANSWER, connect=CONNECT), trust_env=not is_loopback(url)
    )


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine alone, where no proxy leads."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _external_llm(
    base_url: str, model: str, api_key: str, adapters: Sequence[Adapter], *, exact: bool = False
) -> LlmEndpoint:
    listed = served(base_url, api_key)
    card = next((m for m in listed if m["id"] == model), None)
    if card is None:
        have = ", ".join(m["id"] for m in listed) or "none"
        mend = (
            "This step needs that very model, whatever LLM_MODEL says: serve it there too"
            if exact
            else "Set LLM_MODEL to one of them"
        )
        raise ServiceError(f"{base_url} does not serve {model!r}. It has: {have}. {mend}.")
    if missing := [adapter for adapter in adapters if adapter.name not in {m["id"] for m in listed}]:
        modules = " ".join(f"{adapter.name}={adapter.folder}" for adapter in missing)
        raise ServiceError(
            f"{base_url} does not serve the LoRA adapters {', '.join(a.name for a in missing)}. Start vLLM there with "
            f"--enable-lora --lora-modules {modules}, or unset LLM_BASE_URL to use the embedded engine."
        )
    engine = {"vllm": "vllm", "llamacpp": "llamacpp"}.get(card.get("owned_by", ""), "openai")
    version = ""
    if engine == "vllm":
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            root = base_url.removesuffix("/v1")
            version = f"vllm {_get(f'{root}/version', api_key).json()['version']}"
    context = int(card.get("max_model_len") or (card.get("meta") or {}).get("n_ctx") or 0)
    return LlmEndpoint(base_url, model, api_key, engine, version, "", context, concurrency=64)


def _as(kind: type, endpoint: dict[str, Any]) -> Any:  # noqa: ANN401  # one of the two dataclasses above
    return kind(**{f.name: endpoint[f.name] for f in fields(kind) if f.name in endpoint})


def _llm_folder(config: dict[str, Any]) -> Path:
    """One folder a configuration, so that two models can be served side by side."""
    folder = f"llm-{config['model'].replace('/', '--')}-{config['context']}-{config['engine']}"
    if config["adapters"]:
        folder += f"-{hashlib.sha256(' '.join(config['adapters']).encode()).hexdigest()[:8]}"
    return SERVICES / folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ------------------------------------------------------------------------------------------------------ by hand


def stop(name: str = "", *, only_idle: bool = False, wait: float = 30.0, since: float = 0.0) -> list[str]:
    """Stop embedded servers.

    Args:
        name: graph or llm; empty for all.
        only_idle: leave alone what a living process still holds after `wait` seconds.
        wait: seconds to wait, in all, for their holders to end.
        since: not for holders that were there before (seconds since 1970): they hold on.

    Returns:
        Names of the folders whose servers were stopped.
    """
    stopped = []
    deadline = time.monotonic() + wait
    for folder in _folders(name):
        # an old holder will not let go, so that there is nothing to wait for
        while only_idle and min(living_leases(folder).values(), default=0) > since and time.monotonic() < deadline:
            time.sleep(0.2)
        if only_idle and living_leases(folder):
            continue
        (folder / "leases" / "pinned").unlink(missing_ok=True)
        if (folder / "pids.json").exists():
            stopped.append(folder.name)
        supervisor.end(folder)
    return stopped


def _folders(name: str = "") -> list[Path]:
    return sorted(path for path in SERVICES.glob(f"{name}*") if path.is_dir())


def status() -> list[dict[str, str]]:
    """One row for each embedded server that runs: name, address, engine, memory, holders.

    One that starts or restarts has no address; one without a supervisor says so in place of its holders.
    """
    rows = []
    for folder in _folders():
        family = supervisor.family(folder)
        supervised = supervisor.supervised(folder)
        if not (family or supervised):
            continue
        memory = 0
        for process in family:
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss
        endpoint = supervisor.endpoint(folder)
        holders = ", ".join(living_leases(folder)) or "nobody"
        rows.append(
            {
                "service": folder.name,
                "address": endpoint.get("uri") or endpoint.get("base_url") or "none yet",
                "engine": endpoint.get("version", "starting"),
                "memory": f"{memory / engine_install.GIB:.1f} GiB",
                "held by": holders if supervised else "nobody: its supervisor has ended; `make stop` ends it",
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """The command line: start, stop, status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.services", description="Start and stop embedded servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("start", "stop"):
        sub = commands.add_parser(command)
        sub.add_argument("service", nargs="?", choices=["graph", "llm", "all"], default="all")
        if command == "stop":
            sub.add_argument("--only-idle", action="store_true", help="leave alone what a living process holds")
            sub.add_argument("--since", type=Path, help="wait for no process that is older than this file")
        else:
            sub.add_argument("--model", help="the model to serve; default: the profile's")
    commands.add_parser("status")
    options = parser.parse_args(arguments)
    try:
        if options.command == "start":
            _start_by_hand(options.service, options.model)
        elif options.command == "stop":
            since = options.since.stat().st_mtime if options.since else 0.0
            for stopped in stop(options.service.replace("all", ""), only_idle=options.only_idle, since=since):
                supervisor.say(f"stopped {stopped}")
    except (ServiceError, EngineError, SettingsError) as error:
        supervisor.say(str(error))
        return 1
    except OSError as error:
        supervisor.say(refused(error))
        return 1
    if options.command in ("start", "status"):
        rows = status()
        for row in rows:
            sys.stdout.write("  ".join(f"{key}: {value}" for key, value in row.items()) + "\n")
        if not rows:
            sys.stdout.write("no embedded server is running\n")
    return 0


def _start_by_hand(service: str, model: str | None) -> None:
    if service in ("all", "graph"):
        graph_endpoint()
    if service in ("all", "llm"):
        llm_endpoint(model or profile_model(settings().profile))
    for folder in _folders():
        if supervisor.running(folder):
            (folder / "leases" / "pinned").touch()


if __name__ == "__main__":
    sys.exit(told(main))
