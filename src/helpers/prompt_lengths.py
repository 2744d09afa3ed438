"""Notice a server that cut a prompt without saying so: it reports too few tokens."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from helpers.completions import LlmError

MIN_SHARE_READ = 0.8
"""Share of a prompt's tokens that a server must report to have read it."""
MIN_CONTEXT = 256
"""No server's context is shorter, so a count below it is not that of a prompt that was cut."""
CHARACTERS_PER_TOKEN = 4.0
"""Only a prompt of more characters for each reported token is counted by a tokenizer."""


def check_prompt_was_read(
    prompt: str | Sequence[Mapping[str, str]], prompt_tokens: int | None, model: str, server: str
) -> None:
    """Compare the number of tokens that a server reports with the prompt.

    By any tokenizer, a prompt has at least as many tokens as words. Where the model's own
    tokenizer is on this machine, it gives the exact number.

    Args:
        prompt: Messages or plain text.
        prompt_tokens: What the server reports; nothing is checked without.
        model: Name of the model.
        server: Name of the server, for the error.

    Raises:
        LlmError: If it read less than `MIN_SHARE_READ` of the prompt.
    """
    if prompt_tokens is None or prompt_tokens < MIN_CONTEXT:
        return
    text = prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)
    n_expected = len(text.split())
    if len(text) > CHARACTERS_PER_TOKEN * prompt_tokens and (tokenizer := own_tokenizer(model)):
        n_expected = max(n_expected, len(tokenizer.encode(text, add_special_tokens=False).ids))
    if prompt_tokens < MIN_SHARE_READ * n_expected:
        raise LlmError(
            f"{server} cut a prompt: it read {prompt_tokens:,} of at least {n_expected:,} tokens. "
            "Its reply was not stored. Raise the context there: OLLAMA_CONTEXT_LENGTH or num_ctx "
            "(Ollama), --ctx-size (llama.cpp), --max-model-len (vLLM), the model's context length "
            "(LM Studio)."
        )


@lru_cache(maxsize=8)
def own_tokenizer(model: str) -> Any:  # noqa: ANN401  # of a library that is imported only here
    """The model's own tokenizer, from its folder or the hub's cache; None if it is in neither."""
    import huggingface_hub  # noqa: PLC0415  # half a second, for other servers alone
    import tokenizers  # noqa: PLC0415

    path: object = Path(model) / "tokenizer.json"
    if not Path(model).is_dir():
        try:
            path = huggingface_hub.try_to_load_from_cache(model, "tokenizer.json")
        except ValueError:  # no name that a hub could have
            return None
    if not isinstance(path, str | Path) or not Path(path).is_file():
        return None
    return tokenizers.Tokenizer.from_file(str(path))
