"""Sixty requests that leave in a batch file, are answered there, and come back; `ask.py` then asks no model."""

import hashlib
import json
import sys
from pathlib import Path

from helpers import batch, llm, requests
from resources.settings import BUILD, run_command_line

FOLDER = BUILD / "batch"


def collect() -> None:
    """What `medrerun batch export` does, with one step in place of notebooks."""
    (FOLDER / "pending.jsonl").unlink(missing_ok=True)
    prompts = [[{"role": "user", "content": f"Question {i}?"}] for i in range(60)]
    try:
        llm.connect("m").chat_many(prompts, max_tokens=4)
    except batch.PendingError:
        batch.main(["export"])


def answer(path: Path) -> Path:
    """What a batch service does, by the rule of the tests' own server."""
    lines = []
    for request in map(json.loads, path.read_text().splitlines()):
        content = request["body"]["messages"][-1]["content"]
        text = "YES" if sum(int(digit) for digit in content if digit.isdigit()) % 3 else "NO"
        body = {
            "choices": [{"message": {"content": text}, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1},
            "created": 1_700_000_000,
        }
        lines.append(
            json.dumps(
                {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}}
            )
        )
    out = FOLDER / "out.jsonl"
    out.write_text("\n".join(lines))
    return out


def main() -> int:
    """Import the file that is there, or with `whole` all steps; print what is stored."""
    if "whole" in sys.argv:
        collect()
        if (exported := FOLDER / "m.jsonl").is_file():
            batch.main(["import", str(answer(exported))])
    else:
        batch.main(["import", str(FOLDER / "out.jsonl")])
    rows = requests.store().rows()
    replies = json.dumps(sorted((row.key, row.reply) for row in rows))
    print(len(rows), hashlib.sha256(replies.encode()).hexdigest())
    return 0


sys.exit(run_command_line(main))
