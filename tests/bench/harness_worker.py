"""Ask a server by lm-evaluation-harness, and print what that took: python harness_worker.py URL MODEL AT_ONCE TOKENS.

It reads the prompts from its standard input, and the server's key from OPENAI_API_KEY.
"""

from __future__ import annotations

import json
import sys
import time

from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import LocalChatCompletion


def main() -> None:
    url, model, concurrency, max_tokens = sys.argv[1:]
    client = LocalChatCompletion(
        base_url=f"{url}/chat/completions",
        model=model,
        num_concurrent=int(concurrency),
        tokenizer_backend=None,
    )
    sampling = {"until": [], "max_gen_toks": int(max_tokens), "temperature": 0, "do_sample": False}
    instances = [
        Instance("generate_until", {}, (JsonChatStr(json.dumps(prompt)), sampling), number)
        for number, prompt in enumerate(json.load(sys.stdin))
    ]
    start = time.perf_counter()
    replies = client.generate_until(instances)
    seconds = time.perf_counter() - start
    sys.stdout.write(json.dumps({"seconds": seconds, "replies": replies}) + "\n")


if __name__ == "__main__":
    main()
