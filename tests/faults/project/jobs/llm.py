"""Twelve requests to the small model, behind the embedded engine."""

import sys

from helpers import completions, llm
from resources.services import ServiceError

try:
    model = llm.connect("SmolLM2-135M-Instruct")
    prompts = [
        [{"role": "user", "content": f"Is {i} an even number? Answer YES or NO."}]
        for i in range(12)
    ]
    print([reply.text for reply in model.chat_many(prompts, max_tokens=6)])
except (completions.LlmError, ServiceError) as error:
    sys.exit(str(error))
