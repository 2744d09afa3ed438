"""Messages of a prompt: what is the same for all questions comes first, so that a server computes it once."""

from __future__ import annotations

from collections.abc import Iterable


def chat(system: str, question: str, examples: Iterable[tuple[str, str]] = ()) -> list[dict[str, str]]:
    """An instruction, the question, and between them examples or earlier turns: pairs of a question and its answer."""
    messages = [{"role": "system", "content": system}]
    for asked, answer in examples:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return [*messages, {"role": "user", "content": question}]
