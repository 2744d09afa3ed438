"""Requests as batch files: what is not stored leaves in OpenAI's batch format and comes back as stored replies.

With `ANSWERS=collect` a notebook asks no model. At the first step that needs one, it notes its requests here and ends.
After a batch has answered them, the same run gets past that step; so it goes on until nothing is pending.

python -m helpers.batch export              write the pending requests to _build/batch, a file for each model
python -m helpers.batch import FILE ...     store the replies of a batch
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from helpers.completions import Reply, is_overflow, read_completion, request_body, row_of
from helpers.results.requests import Kind, StoreError, store
from helpers.settings import BUILD, ROOT, PublicError, told

PENDING = BUILD / "batch" / "pending.jsonl"


class PendingError(PublicError, RuntimeError):
    """Requests wait for a batch; the message says how many, and what to do."""


def pend(kind: Kind, weights: str, model: str, parameters: Mapping[str, Any], prompts: Mapping[str, Any]) -> None:
    """Note requests that are to be answered by a batch.

    Args:
        kind: of all of them.
        weights: of the model, as in their keys.
        model: the name that the batch asks for.
        parameters: of all of them.
        prompts: by the key of the request.

    Raises:
        PendingError: always, because the caller cannot go on without the replies.
    """
    PENDING.parent.mkdir(parents=True, exist_ok=True)
    common = {"kind": kind, "weights": weights, "model": model, "parameters": dict(parameters)}
    with FileLock(PENDING.with_suffix(".lock")), PENDING.open("a", encoding="utf-8") as file:
        for key, prompt in prompts.items():
            file.write(json.dumps({"key": key, **common, "prompt": prompt}) + "\n")
    raise PendingError(f"{len(prompts):,} requests wait for a batch.")


def pending() -> dict[str, dict[str, Any]]:
    """The requests that wait, by key; those answered meanwhile are left out."""
    lines = PENDING.read_text("utf-8").splitlines() if PENDING.is_file() else []
    noted = {request["key"]: request for request in map(json.loads, lines)}
    return {key: request for key, request in noted.items() if key not in store().get(noted)}


def export(folder: Path = PENDING.parent) -> dict[Path, int]:
    """Write the pending requests, a file for each model, and log-likelihoods apart; how many each file has.

    vLLM's batches answer no text completions, so a server answers those: `LLM_BASE_URL=... make notebook NB=...`.
    """
    files: dict[Path, list[str]] = {}
    for key, request in pending().items():
        path, body = request_body(
            request["kind"], request["parameters"], request["prompt"], request["model"], engine="vllm"
        )
        scored = ".loglikelihood" if request["kind"] == "loglikelihood" else ""
        file = folder / f"{Path(request['model']).name}{scored}.jsonl"
        line = {"custom_id": key, "method": "POST", "url": f"/v1{path}", "body": body}
        files.setdefault(file, []).append(json.dumps(line))
    for file, lines in files.items():
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {file: len(lines) for file, lines in files.items()}


def take_in(path: Path) -> Counter[str]:
    """Store the replies of a batch; counts of `stored`, `unknown` (asked by no run here), and of each error.

    Raises:
        StoreError: the file cannot be read as the output of a batch.
    """
    waiting, counts = pending(), Counter[str]()
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        replies = [(line["custom_id"], line.get("response") or {}, line.get("error")) for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is no output of a batch ({type(error).__name__}: {error}).") from None
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
            # a batch does not tell how long a request took
            reply = read_completion(kind, parameters, prompt, body, seconds=0.0, engine=str(path))
        asked = datetime.fromtimestamp(body.get("created") or path.stat().st_mtime, UTC)
        rows.append(row_of(reply, kind, request["weights"], parameters, prompt, engine="batch", asked=asked))
    store().put(rows)
    counts["stored"] = len(rows)
    return counts


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.batch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export")
    commands.add_parser("import").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.command == "export":
        for file, count in export().items():
            sys.stdout.write(f"{count:,} requests wait in {file.relative_to(ROOT)}\n")
    else:
        for path in options.files:
            counts = take_in(path)
            sys.stdout.write(f"{path}: {', '.join(f'{n:,} {what}' for what, n in counts.items())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
