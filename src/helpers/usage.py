"""What the requests of a client came to, and what served them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from helpers.completions import Answer, Answered


@dataclass
class Usage:
    """Counts over the distinct requests of one client.

    A request whose reply was stored counts like one that was sent in this run.

    Attributes:
        cached: Number of replies that were stored before.
        prompt_tokens: Sum over the replies whose server counts tokens.
        kept_seconds: The part of `seconds` that stored replies took when they were made,
            divided by the number of requests under way at once.
        keys: Label of the step that first sent each request, by the request's key.
        sources: Number of replies by engine, version and precision that gave them.
        changes: Number of replies by what was changed in their request.
        other_models: Number of replies by the model that their server named, where that
            was not the requested model.
        uncounted: Number of replies whose server counts no tokens.
        thoughts: Number of replies that began with a thought.
        checked: Number of stored requests that were sent again, in this run or an earlier one,
            by step.
        same: Number of these requests that got the same reply.
    """

    requests: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    kept_seconds: float = 0.0
    keys: dict[str, str] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    other_models: dict[str, int] = field(default_factory=dict)
    uncounted: int = 0
    thoughts: int = 0
    checked: dict[str, int] = field(default_factory=dict)
    same: int = 0

    def count(
        self, answers: Mapping[str, Answer], waited: float, label: str, concurrency: int
    ) -> None:
        """Count the answers of a step, unless they were counted before.

        Args:
            answers: The answers, by the request's key.
            waited: Seconds spent waiting for new answers.
            label: Name of the step.
            concurrency: Number of requests under way at once.
        """
        new = [answer for key, answer in answers.items() if key not in self.keys]
        stored_seconds = math.fsum(answer.seconds for answer in new if answer.cached)
        kept_seconds = stored_seconds / max(1, min(concurrency, len(answers)))
        self.kept_seconds += kept_seconds
        self.seconds += waited + kept_seconds
        for answer in new:
            self._add(answer, label)

    def _add(self, answer: Answered, label: str) -> None:
        self.keys[answer.key] = label
        self.requests += 1
        self.cached += answer.cached
        self.prompt_tokens += answer.prompt_tokens or 0
        self.generated_tokens += answer.generated_tokens or 0
        self.uncounted += answer.prompt_tokens is None
        self.thoughts += bool(getattr(answer, "thought", ""))
        _increment(self.sources, answer.source)
        for change in answer.changes:
            _increment(self.changes, change)
        if answer.answered_by:
            _increment(self.other_models, answer.answered_by)


def _increment(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def describe_sources(usage: Usage, own_source: str) -> tuple[str, str]:
    """Say what gave the replies that were used, and what was not as it was meant.

    Args:
        usage: Of one client, at least one request.
        own_source: The engine that answers now, as in `Row.source`.

    Returns:
        The engine or engines, and version, precision, counts and differences in words.
    """
    sources = usage.sources
    engine, _, version = next(iter(sources)).partition(" ")
    if len(sources) > 1:
        engines = {source.partition(" ")[0] for source in sources}
        engine = ", ".join(sorted(engines))
        version = _counted(sources, "{name}: {replies}")
    notes = [version] if version else []
    if usage.checked and own_source not in sources:
        notes.append(f"asked again: {own_source}")
    if usage.changes:
        notes.append(_counted(usage.changes, "{name} (refused by the server): {requests}"))
    if usage.other_models:
        notes.append(_counted(usage.other_models, "the server names the model {name}: {replies}"))
    if usage.thoughts:
        notes.append(f"with a thought, which no parser reads: {usage.thoughts:,} replies")
    if usage.uncounted:
        notes.append(f"without counts of tokens: {usage.uncounted:,} replies")
    return engine, "; ".join(notes)


def _counted(counts: Mapping[str, int], template: str) -> str:
    """Names with their counts, the most frequent first."""
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = []
    for name, n in items:
        replies = "1 reply" if n == 1 else f"{n:,} replies"
        requests = "1 request" if n == 1 else f"{n:,} requests"
        texts.append(template.format(name=name, replies=replies, requests=requests))
    return "; ".join(texts)
