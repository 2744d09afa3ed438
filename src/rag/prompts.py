"""Messages of a prompt: what is the same for all questions comes first, so that a server computes it once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

Units = TypeVar("Units")
Said = TypeVar("Said")
More = ParamSpec("More")


def chat(
    system: str, question: str, examples: Iterable[tuple[str, str]] = ()
) -> list[dict[str, str]]:
    """An instruction, the question, and between them examples or earlier turns: pairs of a question and its answer."""
    messages = [{"role": "system", "content": system}]
    for asked, answer in examples:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return [*messages, {"role": "user", "content": question}]


def alpaca(messages: Sequence[Mapping[str, str]]) -> str:
    """An instruction and its input as plain text in the form of Alpaca, for a base model without a chat template."""
    instruction, given = (message["content"] for message in messages)
    return (
        "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
        f"response that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{given}"
        "\n\n### Response:\n"
    )


def each(
    ask: Callable[[list[Any]], Iterable[Any]],
    prompt: Callable[[Any], Any],
    read: Callable[[Any, Any], Any],
) -> Callable[[Sequence[Any]], list[Any]]:
    """An arm: all prompts of its units are asked at once, and `read` takes each unit with what was said to it."""
    return lambda units: [
        read(u, said) for u, said in zip(units, ask([prompt(u) for u in units]), strict=True)
    ]


def arm_of(
    answer: Callable[Concatenate[Units, More], Said],
) -> Callable[More, Callable[[Units], Said]]:
    """Makes of a function of units and of what else it needs a maker of arms, which takes the rest first."""
    return lambda *rest, **more: lambda units: answer(units, *rest, **more)
