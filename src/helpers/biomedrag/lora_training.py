"""Fit a LoRA adapter to a causal language model. Run by the vLLM environment's own interpreter, never imported.

Reads a JSON file of settings (`model`, `rows`, `folder`, `rank`, `alpha`, `steps`, `batch`, `learning_rate`, `seed`,
`longest`) and writes the adapter and `losses.json` to `folder`.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer


def encode(tokenizer: Any, row: dict[str, Any], longest: int) -> tuple[list[int], list[int]] | None:  # noqa: ANN401
    """Token numbers of prompt and answer, and labels that leave the prompt out; None if they are too long."""
    prompt = tokenizer.apply_chat_template(row["messages"], tokenize=False, add_generation_prompt=True)
    start = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    end = tokenizer(row["answer"] + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    if len(start) + len(end) > longest:
        return None
    return start + end, [-100] * len(start) + end


def padded(rows: list[tuple[list[int], list[int]]], filler: int) -> dict[str, torch.Tensor]:
    """One batch of token numbers, mask and labels, padded on the right."""
    width = max(len(ids) for ids, _ in rows)
    ids = [ids + [filler] * (width - len(ids)) for ids, _ in rows]
    mask = [[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]
    labels = [labels + [-100] * (width - len(labels)) for _, labels in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(labels)}


def main(settings: dict[str, Any]) -> None:
    """Train, one line of progress to stderr each step."""
    torch.manual_seed(settings["seed"])
    draw = random.Random(settings["seed"])  # noqa: S311  # no secret is drawn
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.bfloat16).to(device)
    config = LoraConfig(
        r=settings["rank"],
        lora_alpha=settings["alpha"],
        lora_dropout=0.0,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, config)
    # the adapter's own weights are too small a part to be kept in half precision
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    encoded = [encode(tokenizer, row, settings["longest"]) for row in settings["rows"]]
    rows = [row for row in encoded if row]
    if not rows:
        raise SystemExit(f"No row fits in {settings['longest']} tokens.")
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=settings["learning_rate"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings["learning_rate"], total_steps=settings["steps"], pct_start=0.1
    )
    filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    waiting: list[tuple[list[int], list[int]]] = []
    losses: list[float] = []
    seen = 0
    model.train()
    for step in range(settings["steps"]):
        if len(waiting) < settings["batch"]:
            waiting = draw.sample(rows, len(rows)) + waiting
        batch = [waiting.pop() for _ in range(min(settings["batch"], len(waiting)))]
        seen += len(batch)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(**{k: v.to(device) for k, v in padded(batch, filler).items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        losses.append(float(loss))
        sys.stderr.write(f"step {step + 1} of {settings['steps']}: loss {losses[-1]:.3f}\n")
        sys.stderr.flush()
    folder = Path(settings["folder"])
    model.save_pretrained(folder)
    report = {"losses": losses, "examples": seen, "too_long": len(encoded) - len(rows)}
    (folder / "losses.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
