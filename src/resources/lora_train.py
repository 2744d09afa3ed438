"""Train a LoRA adapter. Run by `training_child.py`, never imported.

Writes the adapter to a folder, and says `{"step": 10, "loss": 2.1, "seconds": 12.3}` or `{"step": 10, "validation":
2.3, ...}` at each logged step; the last line is a summary.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

IGNORED = -100


class Tell(TrainerCallback):
    """Tells the parent of each logged loss."""

    def __init__(self, say: Callable[..., None]) -> None:
        """Start the clock."""
        self.say = say
        self.start = time.perf_counter()

    def on_log(
        self,
        args: Any,  # noqa: ANN401
        state: Any,  # noqa: ANN401
        control: Any,  # noqa: ANN401
        logs: dict[str, float],
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Pass on the training and validation losses."""
        for name, told in (("loss", "loss"), ("eval_loss", "validation")):
            if name in logs:
                self.say(
                    step=state.global_step,
                    seconds=time.perf_counter() - self.start,
                    **{told: logs[name]},
                )


def tokens(tokenizer: Any, prompt: Any, completion: str, longest: int) -> dict[str, Any]:  # noqa: ANN401
    """Token numbers and labels of one pair; the loss is of the completion alone, and what is too long is cut there."""
    if isinstance(prompt, str):
        before = tokenizer(prompt)["input_ids"]
    else:
        before = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        before = tokenizer(before, add_special_tokens=False)["input_ids"]
    after = [*tokenizer(completion, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    ids = (before + after)[:longest]
    return {
        "input_ids": ids,
        "labels": ([IGNORED] * len(before) + after)[:longest],
        "cut": len(before + after) > longest,
    }


def main(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Train as the job says and save the adapter."""
    set_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    tokenizer = AutoTokenizer.from_pretrained(job["base"])
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    gpu = torch.cuda.is_available()
    base = AutoModelForCausalLM.from_pretrained(
        job["base"], dtype=torch.bfloat16, device_map="auto" if gpu else None
    )
    scale = {"r": job["rank"], "lora_alpha": job["alpha"], "lora_dropout": job["dropout"]}
    settings = LoraConfig(**scale, target_modules=job["modules"], task_type="CAUSAL_LM")
    model = get_peft_model(base, settings)
    trained, parameters = model.get_nb_trainable_parameters()
    sets, cut = {}, {}
    for name in ("pairs", "validation"):
        rows = [
            tokens(tokenizer, prompt, completion, job["max_tokens"])
            for prompt, completion in job[name]
        ]
        cut[name] = sum(row.pop("cut") for row in rows)
        sets[name] = [row for row in rows if any(label != IGNORED for label in row["labels"])]
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=job["steps"],
        per_device_train_batch_size=job["batch"],
        per_device_eval_batch_size=job["batch"],
        learning_rate=job["rate"],
        lr_scheduler_type="linear",
        warmup_steps=max(1, job["steps"] // 20),
        logging_steps=max(1, job["steps"] // job["evaluations"]),
        eval_strategy="steps",
        eval_steps=max(1, job["steps"] // job["evaluations"]),
        eval_on_start=True,
        save_strategy="no",
        train_sampling_strategy="group_by_length",
        seed=job["seed"],
        data_seed=job["seed"],
        use_cpu=not gpu,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=gpu,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=sets["pairs"],
        eval_dataset=sets["validation"],
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        callbacks=[Tell(say)],
    )
    trainer.train()
    model.save_pretrained(folder)
    say(
        done=True,
        trained_parameters=trained,
        parameters=parameters,
        pairs=len(sets["pairs"]),
        validation_pairs=len(sets["validation"]),
        cut=cut["pairs"],
        tokens=sum(len(row["input_ids"]) for row in sets["pairs"]),
    )
