"""Says beforehand what the first question to the embedded model costs."""

import sys

from resources import datasets, engine_install, registry, services
from resources.engine_install import EMBEDDED_MODELS
from resources.llm_servers import llm_servers
from resources.settings import PublicError, profile_model, settings

KEEP = "`medrerun servers start llm` keeps it running between questions."


def say_model_cost() -> None:
    """Write on stderr what has to be fetched and started before a new question is answered."""
    text = describe_model_cost()
    if text:
        sys.stderr.write(f"{text}\n")


def describe_model_cost() -> str:
    """What a new question to the embedded model has to wait for; empty if it runs already.

    It is empty too where a server is named, and where no model may be asked.
    """
    model = profile_model(settings().profile)
    may_ask = settings().answers not in ("stored-only", "collect", "plan")
    if not may_ask or llm_servers() or model not in EMBEDDED_MODELS:
        return ""
    try:
        is_running = bool(services.llm_endpoint(model, start=False).base_url)
    except PublicError:  # the question itself says what is wrong
        return ""
    if is_running:
        return ""
    missing = _missing_parts(model)
    fetched = f" It has to fetch {' and '.join(missing)} first, once." if missing else ""
    return f"A new question starts the model {model} for this command.{fetched} {KEEP}"


def _missing_parts(model: str) -> list[str]:
    """What is not on this machine yet: the engine, and the weights with their size."""
    parts = []
    engine, _ = engine_install.choose_engine(model)
    if not engine_install.installed(engine):
        parts.append(f"the engine {engine}")
    entry = registry.registry()[EMBEDDED_MODELS[model].source]
    if not (datasets.RAW / entry.name).exists():
        parts.append(f"its weights ({entry.bytes / 1e9:.2f} GB)")
    return parts
