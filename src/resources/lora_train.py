"""Train a LoRA adapter. Run by `training_child.py`, never imported.

It writes the adapter to a folder, and says `{"step": 10, "loss": 2.1, "seconds": 12.3}` or
`{"step": 10, "validation": 2.3, ...}` at each logged step; the last line is a summary.
"""

import time
from collections.abc import Callable, Sequence
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


class LossReporter(TrainerCallback):
    """Sends each logged loss to the parent process."""

    def __init__(self, say: Callable[..., None]) -> None:
        """Start the clock."""
        self.say = say
        self.start = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ANN401
        """Send the training and validation losses.

        Args:
            args: The trainer's; not needed.
            state: Has the number of steps so far.
            control: The trainer's; not needed.
            more: Has the losses as `logs`.
        """
        logs = more["logs"]
        for name, reported in (("loss", "loss"), ("eval_loss", "validation")):
            if name in logs:
                seconds = time.perf_counter() - self.start
                self.say(step=state.global_step, seconds=seconds, **{reported: logs[name]})


def tokens(tokenizer: Any, prompt: Any, completion: str, longest: int) -> dict[str, Any]:  # noqa: ANN401
    """Return token numbers and labels of one pair.

    The loss is of the completion alone.

    Args:
        tokenizer: The base's.
        prompt: Text, or chat messages.
        completion: What is to follow it.
        longest: Tokens of both at most; what is behind is cut.
    """
    if isinstance(prompt, str):
        before = tokenizer(prompt)["input_ids"]
    else:
        text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        before = tokenizer(text, add_special_tokens=False)["input_ids"]
    after = [*tokenizer(completion, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    ids = before + after
    labels = [IGNORED] * len(before) + after
    return {
        "input_ids": ids[:longest],
        "labels": labels[:longest],
        "cut": len(ids) > longest,
    }


def learnable(
    pairs: Sequence[tuple[Any, str]],
    tokenizer: Any,  # noqa: ANN401
    longest: int,
) -> tuple[list[dict[str, Any]], int]:
    """Return the tokens of pairs that have a completion left, and how many pairs were cut."""
    rows = []
    n_cut = 0
    for prompt, completion in pairs:
        row = tokens(tokenizer, prompt, completion, longest)
        n_cut += row.pop("cut")
        if any(label != IGNORED for label in row["labels"]):
            rows.append(row)
    return rows, n_cut


def main(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Train as the job says, and save the adapter."""
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
    pairs, n_cut = learnable(job["pairs"], tokenizer, job["max_tokens"])
    validation, _ = learnable(job["validation"], tokenizer, job["max_tokens"])
    every = max(1, job["steps"] // job["evaluations"])
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=job["steps"],
        per_device_train_batch_size=job["batch"],
        per_device_eval_batch_size=job["batch"],
        learning_rate=job["rate"],
        lr_scheduler_type="linear",
        warmup_steps=max(1, job["steps"] // 20),
        logging_steps=every,
        eval_strategy="steps",
        eval_steps=every,
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
        train_dataset=pairs,
        eval_dataset=validation,
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        callbacks=[LossReporter(say)],
    )
    n_tokens = sum(len(row["input_ids"]) for row in pairs)
    trainer.train()
    model.save_pretrained(folder)
    say(
        done=True,
        trained_parameters=trained,
        parameters=parameters,
        pairs=len(pairs),
        validation_pairs=len(validation),
        cut=n_cut,
        tokens=n_tokens,
    )
