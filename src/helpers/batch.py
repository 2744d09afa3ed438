"""Requests as batch files in OpenAI's format.

With `ANSWERS=collect` a notebook notes the requests of the first step that needs a model,
and ends. `python -m helpers.batch export` writes what waits to _build/batch; `python -m
helpers.batch import FILE ...` stores the replies.
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

from helpers.answer_rows import Served, to_row
from helpers.completions import Answered, LlmError, Reply
from helpers.request_bodies import request_body
from helpers.requests import Kind, Row, StoreError, request_key, store
from helpers.responses import is_overflow, parse_completion, read_completion
from resources.settings import BUILD, ROOT, PublicError, run_command_line

PENDING = BUILD / "batch" / "pending.jsonl"
_DECIDES = ("kind", "weights", "parameters", "prompt")
"""What a request's key is made of."""
_HTTP_OK = 200
Request = dict[str, Any]


class PendingError(PublicError, RuntimeError):
    """Requests wait for a batch; the message says how many, and what to do."""


class _FailedRequest(PublicError):
    """A request that the batch did not answer; the message says why."""


def pend(
    kind: Kind, weights: str, model: str, parameters: Mapping[str, Any], prompts: Mapping[str, Any]
) -> None:
    """Note requests for a batch.

    Args:
        kind: What is asked for.
        weights: The model whose replies hold; see `LlmEndpoint.weights`.
        model: Its name at the server.
        parameters: Those of the requests.
        prompts: By key.

    Raises:
        PendingError: Always, for the caller cannot go on without replies.
    """
    PENDING.parent.mkdir(parents=True, exist_ok=True)
    common = {"kind": kind, "weights": weights, "model": model, "parameters": dict(parameters)}
    with FileLock(PENDING.with_suffix(".lock")), PENDING.open("a", encoding="utf-8") as file:
        for key, prompt in prompts.items():
            file.write(json.dumps({"key": key, **common, "prompt": prompt}) + "\n")
    raise PendingError(f"{len(prompts):,} requests wait for a batch.")


def pending() -> dict[str, Request]:
    """Read the requests that wait, by key, without those answered meanwhile.

    Raises:
        StoreError: If the file of them is damaged.
    """
    try:
        noted = {request["key"]: request for request in _read_lines(PENDING)}
        for key, request in noted.items():
            if key != request_key(*(request[part] for part in _DECIDES)):
                raise ValueError("another prompt than that of its key")
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{PENDING} is damaged, as by a run that was killed. Run `medrerun batch export` again."
        ) from None
    answered = store().get(noted)
    return {key: request for key, request in noted.items() if key not in answered}


def _read_lines(path: Path) -> list[Any]:
    """Read a file of JSON lines.

    A line ends at a line feed alone: a reply may hold other separators of lines, such as
    U+2028 or U+0085. A byte order mark is no part of the first line.
    """
    if not path.is_file():
        return []
    text = path.read_bytes().decode("utf-8-sig")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def export() -> dict[Path, int]:
    """Write the pending requests, a file for each model and kind; return the number in each.

    vLLM has no batches of text completions, so these get files of their own.
    """
    files: dict[Path, list[str]] = {}
    for key, request in pending().items():
        path, body = request_body(
            request["kind"], request["parameters"], request["prompt"], request["model"], "vllm"
        )
        line = {"custom_id": key, "method": "POST", "url": f"/v1{path}", "body": body}
        file = PENDING.with_name(_file_name(request, path))
        files.setdefault(file, []).append(json.dumps(line))
    for file, lines in files.items():
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {file: len(lines) for file, lines in files.items()}


def _file_name(request: Request, path: str) -> str:
    name = Path(request["model"]).name
    if path == "/chat/completions":
        return f"{name}.jsonl"
    part = "text" if request["kind"] == "chat" else "loglikelihood"
    return f"{name}.{part}.jsonl"


def take_in(path: Path) -> Counter[str]:
    """Store the replies of a batch.

    Args:
        path: Output of the batch, or its file of errors.

    Returns:
        Counts of `stored`, of `unknown` (asked by no run here), and of each failure.

    Raises:
        StoreError: If it is no output of a batch.
    """
    if not path.is_file():
        raise StoreError(f"{path} is no output of a batch (there is no such file).")
    requests, counts = pending(), Counter[str]()
    try:
        lines = [(line["custom_id"], line) for line in _read_lines(path)]
        rows = []
        for key, line in lines:
            request = requests.get(key)
            if request is None:
                counts["unknown"] += 1
                continue
            try:
                rows.append(_row(request, line, path))
            except _FailedRequest as failure:
                counts[f"failed: {failure}"] += 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path} is no output of a batch ({type(error).__name__}: {error})."
        ) from None
    store().add(rows)
    counts["stored"] = len(rows)
    return counts


def _row(request: Request, line: Mapping[str, Any], path: Path) -> Row:
    """The row that one line of a batch's output makes.

    Raises:
        _FailedRequest: If the line has no reply.
    """
    response = line.get("response") or {}
    body = response.get("body") or {}
    failure = line.get("error")
    if failure or response.get("status_code", _HTTP_OK) != _HTTP_OK:
        if request["kind"] != "chat" or not is_overflow(f"{failure} {body}"):
            raise _FailedRequest(str(failure or body)[:120])
        answer: Answered = Reply("", "overflow", 0, 0, 0.0)
    else:
        answer = _answer(request, body, path)
    served, asked_at = Served(request["weights"], "batch"), _time(body, path)
    parts = (request["kind"], request["parameters"], request["prompt"])
    return to_row(answer, *parts, served, asked_at)


def _time(body: Mapping[str, Any], path: Path) -> datetime:
    """When a reply was made, or else when its file was written."""
    try:
        return datetime.fromtimestamp(body["created"], UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _answer(request: Request, body: Mapping[str, Any], path: Path) -> Answered:
    try:
        completion = parse_completion(body, str(path))
        return read_completion(
            request["kind"],
            request["parameters"],
            request["prompt"],
            completion,
            seconds=0.0,  # a batch does not tell how long a request took
            engine=str(path),
        )
    except LlmError as error:
        raise _FailedRequest(f"{type(error).__name__}: {str(error)[:100]}") from None


def main(arguments: list[str] | None = None) -> int:
    """Write what waits, or store replies."""
    parser = argparse.ArgumentParser("python -m helpers.batch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export")
    commands.add_parser("import").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.command == "export":
        for file, count in export().items():
            sys.stdout.write(f"{count:,} requests wait in {file.relative_to(ROOT)}\n")
    for path in getattr(options, "files", ()):
        counts = [f"{n:,} {outcome}" for outcome, n in take_in(path).items()]
        sys.stdout.write(f"{path}: {', '.join(counts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
