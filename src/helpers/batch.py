"""Requests as batch files: what is not stored leaves in OpenAI's batch format and comes back as stored replies.

With `ANSWERS=collect` a notebook notes the requests of the first step that needs a model, and ends. `python -m
helpers.batch export` writes what waits to _build/batch; `python -m helpers.batch import FILE ...` stores the replies.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from helpers.completions import (
    CapabilityError,
    Reply,
    is_overflow,
    read_completion,
    request_body,
    row_of,
)
from helpers.requests import Kind, StoreError, request_key, store
from resources.settings import BUILD, ROOT, PublicError, run_command_line

PENDING = BUILD / "batch" / "pending.jsonl"
_DECIDES = ("kind", "weights", "parameters", "prompt")  # what a request's key is made of


class PendingError(PublicError, RuntimeError):
    """Requests wait for a batch; the message says how many, and what to do."""


def pend(
    kind: Kind, weights: str, model: str, parameters: Mapping[str, Any], prompts: Mapping[str, Any]
) -> None:
    """Note requests for a batch, `prompts` by key, and raise PendingError: the caller cannot go on without replies."""
    PENDING.parent.mkdir(parents=True, exist_ok=True)
    common = {"kind": kind, "weights": weights, "model": model, "parameters": dict(parameters)}
    with FileLock(PENDING.with_suffix(".lock")), PENDING.open("a", encoding="utf-8") as file:
        for key, prompt in prompts.items():
            file.write(json.dumps({"key": key, **common, "prompt": prompt}) + "\n")
    raise PendingError(f"{len(prompts):,} requests wait for a batch.")


def pending() -> dict[str, dict[str, Any]]:
    """The requests that wait, by key; those answered meanwhile are left out."""
    try:
        lines = PENDING.read_text("utf-8").splitlines() if PENDING.is_file() else []
        noted = {request["key"]: request for request in map(json.loads, lines)}
        if any(key != request_key(*(of[part] for part in _DECIDES)) for key, of in noted.items()):
            raise ValueError("another prompt than that of its key")
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{PENDING} is damaged, as by a run that was killed. Run `make requests` again."
        ) from None
    answered = store().get(noted)
    return {key: request for key, request in noted.items() if key not in answered}


def export() -> dict[Path, int]:
    """Write the pending requests, a file for each model, text completions apart (vLLM has no batches of them)."""
    files: dict[Path, list[str]] = {}
    for key, request in pending().items():
        kind, model = request["kind"], request["model"]
        path, body = request_body(
            kind, request["parameters"], request["prompt"], model, engine="vllm"
        )
        apart = (
            "" if path == "/chat/completions" else ".text" if kind == "chat" else ".loglikelihood"
        )
        file = PENDING.with_name(f"{Path(model).name}{apart}.jsonl")
        line = {"custom_id": key, "method": "POST", "url": f"/v1{path}", "body": body}
        files.setdefault(file, []).append(json.dumps(line))
    for file, lines in files.items():
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {file: len(lines) for file, lines in files.items()}


def take_in(path: Path) -> Counter[str]:
    """Store the replies of a batch; counts of `stored`, `unknown` (asked by no run here), and of each error."""
    waiting, counts = pending(), Counter[str]()
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        replies = [
            (line["custom_id"], line.get("response") or {}, line.get("error")) for line in lines
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path} is no output of a batch ({type(error).__name__}: {error})."
        ) from None
    rows = []
    for key, response, failure in replies:
        if (request := waiting.get(key)) is None:
            counts["unknown"] += 1
            continue
        kind, parameters, prompt = request["kind"], request["parameters"], request["prompt"]
        body = response.get("body") or {}
        if failure or response.get("status_code", 200) != 200:  # HTTP's OK
            if kind != "chat" or not is_overflow(f"{failure} {body}"):
                counts[f"failed: {str(failure or body)[:120]}"] += 1
                continue
            reply: Any = Reply("", "overflow", 0, 0, 0.0)
        else:
            try:  # a batch does not tell how long a request took
                reply = read_completion(
                    kind, parameters, prompt, body, seconds=0.0, engine=str(path)
                )
            except (ValueError, KeyError, IndexError, TypeError, CapabilityError) as error:
                counts[f"failed: {type(error).__name__}: {str(error)[:100]}"] += 1
                continue
        asked = datetime.fromtimestamp(body.get("created") or path.stat().st_mtime, UTC)
        rows.append(
            row_of(reply, kind, request["weights"], parameters, prompt, engine="batch", asked=asked)
        )
    store().put(rows)
    counts["stored"] = len(rows)
    return counts


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser("python -m helpers.batch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export")
    commands.add_parser("import").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.command == "export":
        for file, count in export().items():
            sys.stdout.write(f"{count:,} requests wait in {file.relative_to(ROOT)}\n")
    for path in getattr(options, "files", ()):
        sys.stdout.write(
            f"{path}: {', '.join(f'{n:,} {what}' for what, n in take_in(path).items())}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
