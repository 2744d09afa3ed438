"""Sixty requests to a model."""

from helpers import llm

prompts = [[{"role": "user", "content": f"Question {i}?"}] for i in range(60)]
print([reply.text for reply in llm.connect("m").chat_many(prompts, max_tokens=4)])
