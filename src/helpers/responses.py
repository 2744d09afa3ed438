"""Read what a server replies: one validated type, whatever the server sends.

Servers leave out usage and reasons, send content in parts, or log-probabilities of null.
What they may leave out becomes None; what makes no sense is an error before anything is
stored.
"""

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from helpers.completions import Answered, CapabilityError, Choice, LlmError, Loglikelihood, Reply
from helpers.logprobs import choice_logprobs, continuation_logprobs
from helpers.requests import Kind
from helpers.thoughts import split_thought

MAX_COUNT = 2**31 - 1
"""Largest number of tokens that is believed; the store has 32 bits for it."""
_WRAPPING = re.compile(r'\s*\{\s*"answer"\s*:\s*')
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size")
_OVERFLOW_WORDS = (
    "context length",
    "context size",
    "context window",
    "maximum model length",
    "max_model_len",
    "prompt is too long",
    "input is too long",
)
MIN_SHARE_READ = 0.8
"""Share of a prompt's tokens that a server must report; one that reports less cut the prompt."""


def _count(value: object) -> int | None:
    """A number of tokens; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    is_count = 0 <= number <= MAX_COUNT and number.is_integer()
    return int(number) if is_count else None


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object_or_none(value: object) -> object:
    return value if isinstance(value, dict) else None


def _list_or_empty(value: object) -> object:
    return value if isinstance(value, list) else []


def _objects(value: object) -> list[object]:
    """The objects of a list; no list has none."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _logprob(value: object) -> float:
    """A log-probability; one that is no number is taken as impossible."""
    is_number = isinstance(value, int | float) and not math.isnan(value)
    return min(0.0, float(value)) if is_number else -math.inf  # type: ignore[arg-type]


Count = Annotated[int | None, BeforeValidator(_count)]
Text = Annotated[str, BeforeValidator(_text_or_empty)]
Logprob = Annotated[float, BeforeValidator(_logprob)]


class Alternative(BaseModel):
    """A token that might have been generated."""

    token: Text = ""
    logprob: Logprob = -math.inf


class Step(Alternative):
    """A generated token with its alternatives."""

    top_logprobs: Annotated[list[Alternative], BeforeValidator(_objects)] = []
    bytes: Annotated[list[int], BeforeValidator(_list_or_empty)] = []


class Logprobs(BaseModel):
    """Log-probabilities of a chat in `content`, of plain text in the other fields."""

    content: Annotated[list[Step], BeforeValidator(_objects)] = []
    tokens: Annotated[list[Text], BeforeValidator(_list_or_empty)] = []
    token_logprobs: Annotated[list[float | None], BeforeValidator(_list_or_empty)] = []


class Part(BaseModel):
    """A part of a message: text, or a thought with parts of its own."""

    type: Text = "text"
    text: Text = ""
    thinking: Any = None

    @property
    def is_thought(self) -> bool:
        """Whether a parser must not read it."""
        return self.thinking is not None or self.type in ("thinking", "reasoning")


def _parts(value: object) -> object:
    """Content as a list of parts."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"text": value}]
    if isinstance(value, list):
        return [{"text": item} if isinstance(item, str) else item for item in value]
    raise ValueError(f"content is {type(value).__name__}, neither text nor a list of parts")


class ChatMessage(BaseModel):
    """What the model said."""

    content: Annotated[list[Part], BeforeValidator(_parts)] = []
    reasoning: Text = ""
    reasoning_content: Text = ""

    @property
    def text(self) -> str:
        """The text of all parts but thoughts."""
        return "".join(part.text for part in self.content if not part.is_thought)

    @property
    def thought(self) -> str:
        """What stands beside the content, or in parts of its own."""
        thoughts = [self.reasoning_content or self.reasoning]
        for part in self.content:
            if part.is_thought:
                thoughts.append(_text_of(part.thinking or part.text))
        stripped = [thought.strip() for thought in thoughts]
        return "\n".join(thought for thought in stripped if thought)


def _text_of(thinking: object) -> str:
    """The text of a part's thought, which may have parts again."""
    if isinstance(thinking, str):
        return thinking
    parts = [item.get("text") for item in _objects(thinking) if isinstance(item, dict)]
    return "".join(part for part in parts if isinstance(part, str))


class CompletionChoice(BaseModel):
    """One reply."""

    message: ChatMessage | None = None
    text: Annotated[str | None, BeforeValidator(_text_or_none)] = None
    finish_reason: Text = ""
    logprobs: Annotated[Logprobs | None, BeforeValidator(_object_or_none)] = None

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.message is None and self.text is None:
            raise ValueError("a choice has neither a message nor a text")
        return self


class TokenDetails(BaseModel):
    """Which of the generated tokens were thoughts."""

    reasoning_tokens: Count = None


class TokenUsage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    completion_tokens_details: Annotated[TokenDetails | None, BeforeValidator(_object_or_none)] = (
        None
    )

    @property
    def thought_tokens(self) -> int | None:
        """Number of generated tokens that were thoughts."""
        details = self.completion_tokens_details
        return details.reasoning_tokens if details else None


class Completion(BaseModel):
    """A server's reply to a request, of a chat or of plain text."""

    choices: list[CompletionChoice] = Field(min_length=1)
    usage: Annotated[TokenUsage | None, BeforeValidator(_object_or_none)] = None
    model: Text = ""

    @property
    def counts(self) -> TokenUsage:
        """Numbers of tokens; None where the server gives none."""
        return self.usage or TokenUsage()


class Token(BaseModel):
    """A token by llama.cpp: its number, and its text or bytes."""

    id: int
    piece: str | list[int]


class TokenList(BaseModel):
    """What llama.cpp's ``/tokenize`` replies."""

    tokens: list[Token]


class ServerError(BaseModel):
    """Why a server refused a request, in the forms of OpenAI, vLLM, llama.cpp and FastAPI."""

    message: Text = ""
    param: Text = ""
    code: Any = ""
    type: Text = ""

    @property
    def codes(self) -> str:
        """Code and type in one text."""
        return f"{self.code} {self.type}"


def read_error(body: bytes) -> ServerError:
    """Read the body of an error; one that is not understood is taken as its message."""
    text = body.decode("utf-8", errors="replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return ServerError(message=text[:500])
    if isinstance(content, dict) and isinstance(content.get("error"), dict):
        content = content["error"]
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        return ServerError(message=content["error"])
    if not isinstance(content, dict):
        return ServerError(message=text[:500])
    error = ServerError.model_validate(content)
    if error.message:
        return error
    return ServerError(message=text[:500], param=_validated_field(content))


def _validated_field(content: Mapping[str, Any]) -> str:
    """The field that FastAPI names as the cause; empty if there is none."""
    try:
        return str(content["detail"][0]["loc"][-1])
    except (LookupError, TypeError):
        return ""


def is_overflow(message: str, codes: str = "") -> bool:
    """Whether an error says that a prompt does not fit the context.

    Args:
        message: The server's words.
        codes: Code and type of the error.
    """
    text = message.lower()
    by_words = any(words in text for words in _OVERFLOW_WORDS)
    return by_words or any(code in f"{codes} {text}" for code in _OVERFLOW_CODES)


def parse_completion(body: bytes | Mapping[str, Any], engine: str) -> Completion:
    """Validate a server's reply.

    Args:
        body: The reply as it came, or from a batch file.
        engine: Name of the server, for the error.

    Raises:
        LlmError: If it is no completion.
    """
    try:
        if isinstance(body, bytes):
            return Completion.model_validate_json(body)
        return Completion.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: {first['msg']}".removeprefix(": ")
        begin = bytes(body[:200]) if isinstance(body, bytes) else str(body)[:200].encode()
        raise LlmError(
            f"{engine} gave no completion ({problem}). Its reply begins with "
            f"{begin.decode('utf-8', errors='replace')!r}."
        ) from None


def parse_tokens(body: bytes, server: str) -> list[dict[str, Any]]:
    """Read the tokens that llama.cpp's ``/tokenize`` replies.

    Raises:
        LlmError: If it replies something else.
    """
    try:
        parsed = TokenList.model_validate_json(body)
    except ValidationError:
        raise LlmError(f"{server} gave no tokens: {body[:200]!r}.") from None
    return [token.model_dump() for token in parsed.tokens]


def read_completion(
    kind: Kind,
    parameters: Mapping[str, Any],
    prompt: Sequence[Any],
    completion: Completion,
    *,
    seconds: float,
    engine: str,
) -> Answered:
    """Read the answer to a request.

    Args:
        kind: What was asked for.
        parameters: Those of the request.
        prompt: Messages, plain text, or context and continuation.
        completion: What the server replied.
        seconds: What it took.
        engine: Name of the server, for errors.

    Returns:
        A `Reply`, a `Choice` or a `Loglikelihood`.

    Raises:
        CapabilityError: If it lacks what was asked for.
    """
    choice, counts = completion.choices[0], completion.counts
    if kind == "loglikelihood":
        return _read_loglikelihood(prompt, choice, counts.prompt_tokens, seconds, engine)
    reply = _read_reply(choice, counts, seconds, is_plain=isinstance(prompt, str))
    if kind == "chat":
        return reply
    return _read_choice(parameters["choices"], reply, _steps(choice), engine)


def _read_reply(
    choice: CompletionChoice, counts: TokenUsage, seconds: float, *, is_plain: bool
) -> Reply:
    message = choice.message or ChatMessage()
    has_text_only = is_plain or choice.message is None
    text = choice.text if has_text_only else message.text
    parts = split_thought(text or "")
    thoughts = [thought for thought in (message.thought, parts.thought) if thought]
    first_token: dict[str, float] = {}
    if not thoughts and not is_plain:
        first_token = _alternatives(_steps(choice))
    return Reply(
        text=parts.answer,
        status="cut" if choice.finish_reason == "length" else "complete",
        prompt_tokens=counts.prompt_tokens,
        generated_tokens=counts.completion_tokens,
        seconds=seconds,
        first_token=first_token,
        thought="\n".join(thoughts),
        thought_tokens=counts.thought_tokens,
    )


def _steps(choice: CompletionChoice) -> list[Step]:
    return choice.logprobs.content if choice.logprobs else []


def _alternatives(steps: Sequence[Step]) -> dict[str, float]:
    """The likeliest first tokens; where the server lists none, the one that was generated."""
    if not steps:
        return {}
    return {item.token: item.logprob for item in steps[0].top_logprobs or steps[:1]}


def _read_choice(
    choices: Sequence[str], reply: Reply, steps: Sequence[Step], engine: str
) -> Choice:
    answer, wrapping = reply.text, ""
    if match := _WRAPPING.match(reply.text):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            answer, wrapping = json.loads(reply.text)["answer"], match[0]
    if answer not in choices:
        raise CapabilityError(
            f"{engine} ignored the constraint {choices}: {reply.text[:80]!r}. Use the embedded "
            "engine."
        )
    if reply.thought:
        steps = _after_thought(steps, reply.text)
    steps, wrapping = _after_wrapping(steps, wrapping)
    spelled = {
        _spelled(choice, wrapping, is_wrapped=answer != reply.text): choice for choice in choices
    }
    return Choice(
        answer=answer,
        logprobs=_choice_logprobs(steps, spelled),
        prompt_tokens=reply.prompt_tokens,
        generated_tokens=reply.generated_tokens,
        seconds=reply.seconds,
        thought=reply.thought,
        thought_tokens=reply.thought_tokens,
    )


def _choice_logprobs(steps: Sequence[Step], spelled: Mapping[str, str]) -> dict[str, float]:
    """The log-probability of each choice; none where the server gives none."""
    if not steps:
        return {}
    tokens = [(step.token, {step.token: step.logprob, **_listed(step)}) for step in steps]
    logprobs = choice_logprobs(tokens, list(spelled))
    return {spelled[text]: value for text, value in logprobs.items()}


def _listed(step: Step) -> dict[str, float]:
    return {item.token: item.logprob for item in step.top_logprobs}


def _spelled(choice: str, wrapping: str, *, is_wrapped: bool) -> str:
    """A choice as it is written in the reply."""
    return wrapping + json.dumps(choice, ensure_ascii=False) if is_wrapped else choice


def _after_wrapping(steps: Sequence[Step], wrapping: str) -> tuple[list[Step], str]:
    """Skip the tokens before the answer, which are the same whatever the answer.

    Returns:
        The other tokens, and the part of the wrapping that the first of them has.
    """
    rest = list(steps)
    while wrapping and rest and len(rest[0].token) <= len(wrapping):
        wrapping = wrapping[len(rest.pop(0).token) :]
    return rest, wrapping


def _after_thought(steps: Sequence[Step], answer: str) -> list[Step]:
    """The last tokens, which join to the answer; none if they do not."""
    text = ""
    for position in range(len(steps) - 1, -1, -1):
        text = steps[position].token + text
        if text.strip() == answer and text.lstrip() == text:
            return list(steps[position:])
    return []


def _read_loglikelihood(
    prompt: Sequence[str],
    choice: CompletionChoice,
    prompt_tokens: int | None,
    seconds: float,
    engine: str,
) -> Loglikelihood:
    context, continuation = prompt
    scored = choice.logprobs
    if scored and scored.content:
        values = _forced_logprobs(scored.content, continuation, engine)
        return Loglikelihood(math.fsum(values), len(values), prompt_tokens, seconds)
    if scored is None or not (choice.text or "").startswith(context):
        raise CapabilityError(f"{engine} does not echo the prompt with its log-probabilities.")
    # after the prompt's tokens comes the one that was generated
    n = len(scored.tokens) - 1 if prompt_tokens is None else prompt_tokens
    tokens, logprobs = scored.tokens[:n], scored.token_logprobs[:n]
    values_or_none = None
    if len(tokens) == len(logprobs):
        values_or_none = continuation_logprobs(tokens, logprobs, context, continuation)
    if values_or_none is None:
        raise CapabilityError(
            f"The tokens that {engine} gives do not join to {continuation!r}. Use the embedded "
            "engine, or a model of another tokeniser."
        )
    return Loglikelihood(math.fsum(values_or_none), len(values_or_none), prompt_tokens, seconds)


def _forced_logprobs(steps: Sequence[Step], continuation: str, engine: str) -> list[float]:
    """Log-probabilities of the tokens that a grammar made llama.cpp generate."""
    written = b"".join(bytes(step.bytes) for step in steps)
    if not written.endswith(continuation.encode()):
        raise CapabilityError(
            f"{engine} ignored the grammar that forces {continuation!r}. Use a newer version."
        )
    return [step.logprob for step in steps]
