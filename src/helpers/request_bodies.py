"""What a server is sent: the path and the body of each kind of request."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.completions import object_schema
from helpers.requests import Kind

Json = Mapping[str, Any]

TOP_LOGPROBS = 20
WRAPPING_TOKENS = 16
"""What a JSON object around an answer may take."""
OWN_FIELDS = ("extra", "thinking", "thinking_tokens")
"""Parameters of a request that are no fields of its body."""


def request_body(
    kind: Kind,
    parameters: Json,
    prompt: Sequence[Any],
    model: str,
    engine: str,
    tokens: Sequence[Json] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Build a request as a server of this make takes it.

    Args:
        kind: What is asked for.
        parameters: Sampling parameters and other fields; see `LLM.chat_many`.
        prompt: Messages, plain text, or context and continuation.
        model: Name of the model at the server.
        engine: `vllm`, `llamacpp`, or `openai` for any other.
        tokens: Those of context and continuation by llama.cpp's ``/tokenize``.

    Returns:
        The path below ``/v1``, and the body.
    """
    if kind == "loglikelihood":
        if tokens is not None:
            return "/completions", _forced_continuation(prompt[1], model, tokens)
        return "/completions", _echoed_prompt("".join(prompt), model)
    if kind == "choose":
        parameters = _choice_parameters(parameters, engine)
    fields = {name: value for name, value in parameters.items() if name not in OWN_FIELDS}
    fields |= parameters["extra"]
    if isinstance(prompt, str):
        return "/completions", {"model": model, "prompt": prompt, **fields}
    fields["max_tokens"] += parameters.get("thinking_tokens", 0)
    if thinking := parameters.get("thinking"):
        fields["chat_template_kwargs"] = _template_switch(is_on=thinking == "on")
    return "/chat/completions", {"model": model, "messages": prompt, **fields}


def _template_switch(*, is_on: bool) -> dict[str, bool]:
    """What chat templates ask whether to let the model think; each knows one of the names."""
    return {"enable_thinking": is_on, "thinking": is_on}


def _echoed_prompt(text: str, model: str) -> dict[str, Any]:
    """Ask for the log-probabilities of a prompt's tokens."""
    return {
        "model": model,
        "prompt": text,
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


def _forced_continuation(continuation: str, model: str, tokens: Sequence[Json]) -> dict[str, Any]:
    """Make llama.cpp, which scores no prompt, generate the continuation's tokens by a grammar."""
    n_left, border = len(continuation.encode()), len(tokens)
    while n_left > 0 and border > 1:
        border -= 1
        n_left -= _n_bytes(tokens[border]["piece"])
    ids = [token["id"] for token in tokens]
    rule = " ".join(f"<[{token_id}]>" for token_id in ids[border:])
    return {
        "model": model,
        "prompt": ids[:border],
        "temperature": 0,
        "logprobs": 1,
        "grammar": f"root ::= {rule}",
        "max_tokens": len(ids) - border,
    }


def _n_bytes(piece: str | Sequence[int]) -> int:
    """Size of a token, which llama.cpp gives as text, or as bytes that are no text."""
    return len(piece.encode() if isinstance(piece, str) else piece)


def _choice_parameters(parameters: Json, engine: str) -> dict[str, Any]:
    choices = parameters["choices"]
    constraint = _constraint(engine, choices)
    wrapping = WRAPPING_TOKENS if "response_format" in constraint else 0
    own = {name: value for name, value in parameters.items() if name in OWN_FIELDS}
    return own | {
        "max_tokens": 4 + 2 * max(len(choice) for choice in choices) + wrapping,
        "temperature": 0.0,
        "seed": 0,
        "logprobs": True,
        "top_logprobs": TOP_LOGPROBS,
        "extra": constraint,
    }


def _constraint(engine: str, choices: Sequence[str]) -> dict[str, Any]:
    """Fields that make an engine answer one of the choices."""
    if engine == "vllm":
        return {"structured_outputs": {"choice": list(choices)}}
    if engine == "llamacpp":
        alternatives = [json.dumps(choice, ensure_ascii=False) for choice in choices]
        return {"grammar": f"root ::= {' | '.join(alternatives)}"}
    # OpenAI's own takes no other root than an object, which must name all of its properties
    schema = object_schema({"answer": {"type": "string", "enum": list(choices)}})
    described = {"name": "choice", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}
