"""Separate what a model thought from what it answered.

Many models write a thought before their answer, marked by tags of their own. A thought
may weigh every answer there is, so no parser may read it.
"""

import re
from typing import NamedTuple

_NAMES = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)"
_OPEN = re.compile(
    rf"<\s*{_NAMES}\b[^<>]*>"
    r"|\[THINK\]"  # Magistral
    r"|◁think▷"  # Kimi
    r"|<\|START_THINKING\|>"  # Command
    r"|<unused94>(?:thought)?",  # MedGemma
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"<\s*/\s*{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<unused95>",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
"""The beginning of a message in the format Harmony of gpt-oss."""
_CHANNEL_END = re.compile(r"<\|(?:end|return|start|call)\|>.*", re.DOTALL)


class SplitReply(NamedTuple):
    """A reply in its two parts.

    Attributes:
        thought: Without its tags; empty if there is none.
        answer: All else.
        is_open: Whether the thought has no end, as where the token limit cut it.
    """

    thought: str
    answer: str
    is_open: bool = False


def split_thought(text: str) -> SplitReply:
    """Separate a reply's thoughts from its answer.

    A closing tag without an opening one ends a thought that began with the reply: some
    chat templates put the opening tag into the prompt.
    """
    if not any(mark in text for mark in "<[◁"):
        return SplitReply("", text)
    if _CHANNEL.search(text):
        return _split_channels(text)
    return _split_tags(text)


def without_thought(text: str) -> str:
    """The answer in a reply, for a parser."""
    return split_thought(text).answer


def _split_tags(text: str) -> SplitReply:
    thoughts: list[str] = []
    answers: list[str] = []
    rest = text
    while rest:
        opening, closing = _OPEN.search(rest), _CLOSE.search(rest)
        if closing and (not opening or closing.start() < opening.start()):
            thoughts += [*answers, rest[: closing.start()]]
            answers = []
            rest = rest[closing.end() :]
            continue
        if not opening:
            break
        answers.append(rest[: opening.start()])
        end = _CLOSE.search(rest, opening.end())
        if not end:
            thoughts.append(rest[opening.end() :])
            return _joined(thoughts, answers, is_open=True)
        thoughts.append(rest[opening.end() : end.start()])
        rest = rest[end.end() :]
    if not thoughts:
        return SplitReply("", text)
    return _joined(thoughts, [*answers, rest])


def _split_channels(text: str) -> SplitReply:
    """Split the messages of Harmony: the channel `final` has the answer."""
    before, *parts = _CHANNEL.split(text)
    thoughts: list[str] = []
    answers = [_CHANNEL_END.sub("", before)]
    for channel, message in zip(parts[::2], parts[1::2], strict=True):
        target = answers if channel == "final" else thoughts
        target.append(_CHANNEL_END.sub("", message))
    is_open = bool(parts) and parts[-2] != "final"
    return _joined(thoughts, answers, is_open=is_open)


def _joined(thoughts: list[str], answers: list[str], *, is_open: bool = False) -> SplitReply:
    thought = "\n".join(part.strip() for part in thoughts if part.strip())
    return SplitReply(thought, "".join(answers).strip(), is_open)
