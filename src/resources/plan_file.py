"""What a notebook would ask and train, as `ANSWERS=plan` notes it."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from resources import datasets
from resources.settings import BUILD

FILE = BUILD / "plan" / "steps.jsonl"
"""The steps of the notebook that was run last; who runs one removes the file before."""
TOKENIZER = "models/all-MiniLM-L6-v2/tokenizer.json"
"""Stands in for a model's own tokenizer, which is rarely on this machine.

By chapter, it counts 90 to 111 % of what the servers of the reference counted; characters, of which
a token has 3 to 6, come to 82 to 124 %.
"""


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has for a language model, to which a line's end is one.

    Raises:
        DataUnavailable: No source gives `TOKENIZER`.
    """
    return len(_tokenizer().encode(text, add_special_tokens=False).ids) + text.count("\n")


@cache
def _tokenizer() -> Any:  # noqa: ANN401  # of a library that is imported only here
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(datasets.fetch(TOKENIZER)))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


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
