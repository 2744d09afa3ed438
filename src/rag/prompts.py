"""Build prompts: chat messages, and plain text for models without a chat template.

The part that all questions share comes first, so a server with prefix caching
processes it only once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

Units = TypeVar("Units")
Said = TypeVar("Said")
More = ParamSpec("More")

Message = dict[str, str]
"""A chat message in the OpenAI format: ``{"role": ..., "content": ...}``."""

ALPACA_TEMPLATE = (
    "Below is an instruction that describes a task, paired with an input that provides "
    "further context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n"
    "### Input:\n{input}\n\n"
    "### Response:\n"
)
"""The prompt of Stanford Alpaca (Taori et al. 2023)."""


def chat_messages(
    system: str, question: str, examples: Iterable[tuple[str, str]] = ()
) -> list[Message]:
    """Build the messages of a chat, with few-shot examples if there are any.

    Args:
        system: The instruction, sent as the system message.
        question: The question to answer, sent as the last user message.
        examples: Pairs of a question and its answer, placed before ``question``.

    Returns:
        The messages in the order in which the model reads them.
    """
    messages = [{"role": "system", "content": system}]
    for example_question, example_answer in examples:
        messages.append({"role": "user", "content": example_question})
        messages.append({"role": "assistant", "content": example_answer})
    messages.append({"role": "user", "content": question})
    return messages


def user_message(content: str) -> list[Message]:
    """Build a chat of a single user message."""
    return [{"role": "user", "content": content}]


def alpaca_prompt(messages: Sequence[Message]) -> str:
    """Write a system and a user message as one text in the Alpaca format.

    Args:
        messages: Exactly two messages: the instruction and its input.

    Returns:
        The prompt for a base model, which has no chat template.
    """
    instruction, user_input = messages
    return ALPACA_TEMPLATE.format(instruction=instruction["content"], input=user_input["content"])


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
