"""What a notebook would ask and train, as `ANSWERS=plan` notes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resources.settings import BUILD

FILE = BUILD / "plan" / "steps.jsonl"
"""The steps of the notebook that was run last; who runs one removes the file before."""
CHARACTERS_PER_TOKEN = 4.0
"""Of English text by any tokenizer of today, where the model's own is not on this machine."""


def note(row: Mapping[str, Any]) -> None:
    """Add a step."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the steps in a file; none if there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
