"""Says what a profile would ask and train, and what that costs, before anything is asked.

Each notebook is run with a client that counts its requests and sends none, in a project of links
in `_build/plan`. It encodes and searches as a run does, with the default encoder in place of every
other, so that its prompts are as long.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from helpers.forecast import CONDITIONAL, StepForecast, read_steps
from helpers.requests import RELEASED
from helpers.vectors import DEFAULT_ENCODER
from publish.cell_names import read_by_no_later_cell
from publish.rehearse import link_project
from publish.schedule import select
from resources import plan_file
from resources.datasets import DataUnavailable
from resources.parameters import declared, read_notebook
from resources.settings import BUILD, NOTEBOOKS, ROOT, PublicError, read_profile
from resources.supervisor import OWNER_VARIABLE

FOLDER = BUILD / "plan"
LOCAL_ENCODERS = ("encoder", "reranker_encoder", "search_encoder")
NOT_PLANNED = ("cross_encoder", "reranker", "tuned_encoder")
"""Encoders that only order what is found; a fine-tuned one is trained without a language model."""
DEFAULT_RATE = 2_500.0
"""Tokens a second of a GPU, in and out, where none is given."""
TRAINING_FACTOR = 3
"""A token of training takes the time of so many that are read: forwards and backwards."""
WIDTH = 160
"""Characters of a line that goes to a file."""
COLUMNS = ("notebook", "model", "requests", "tokens in", "tokens out", "trained", "GPU-hours")
UNKNOWN_SHARE = 0.5
"""Share of the longest reply, and of conditional requests, where the reference has no such step."""


class PlanError(PublicError, RuntimeError):
    """A notebook cannot be planned; the message says which, and why."""


@dataclass(frozen=True)
class Prices:
    """What tokens cost.

    Attributes:
        prompt: Of a million tokens of prompts.
        answer: Of a million tokens of answers.
        tokens_per_second: Of one GPU, in and out.
    """

    prompt: float = 0.0
    answer: float = 0.0
    tokens_per_second: float = DEFAULT_RATE


@dataclass(frozen=True)
class Amount:
    """What some steps would ask: the likely number, and the least and the most.

    Attributes:
        requests: Number of requests.
        max_requests: Their number if every conditional one is sent.
        prompt_tokens: Tokens of prompts.
        min_prompt_tokens: With empty replies to earlier requests.
        max_prompt_tokens: With the longest replies.
        answer_tokens: Tokens of answers.
        max_answer_tokens: Of the longest answers.
        training_tokens: Tokens that are trained on.
    """

    requests: float = 0
    max_requests: float = 0
    prompt_tokens: float = 0
    min_prompt_tokens: float = 0
    max_prompt_tokens: float = 0
    answer_tokens: float = 0
    max_answer_tokens: float = 0
    training_tokens: float = 0

    def __add__(self, other: "Amount") -> "Amount":
        """The sum of two."""
        own, others = vars(self), vars(other)
        return Amount(**{name: own[name] + others[name] for name in own})

    def gpu_hours(self, prices: Prices) -> float:
        """Hours of one GPU that answers and trains."""
        n_tokens = self.prompt_tokens + self.answer_tokens + TRAINING_FACTOR * self.training_tokens
        return n_tokens / prices.tokens_per_second / 3600

    def money(self, prices: Prices) -> float:
        """What a hosted service would charge for the requests."""
        return (self.prompt_tokens * prices.prompt + self.answer_tokens * prices.answer) / 1e6


@dataclass(frozen=True)
class Planned:
    """What one model would do in one notebook.

    Attributes:
        notebook: Name of the notebook.
        model: Name of the model.
        amount: What it would be asked, and trained on.
        is_partial: Whether a cell failed; its later requests, and those of cells that need it, are
            not counted.
    """

    notebook: str
    model: str
    amount: Amount
    is_partial: bool = False


def prepare(profile: str) -> None:
    """Write the project of links, whose profile names no encoder that would have to be fetched."""
    content = read_profile(profile)
    local: dict[str, Any] = {"defaults": _with_local_encoders(content.get("defaults") or {})}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        section = _with_local_encoders(content.get(path.stem) or {})
        if "text_box" in declared(path):
            section["text_box"] = False
        local[path.stem] = section
    link_project(FOLDER, profile, local)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        copy = FOLDER / path.relative_to(ROOT)
        copy.unlink()
        notebook = _going_on(read_notebook(path))
        copy.write_text(json.dumps(notebook), encoding="utf-8")


def _going_on(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook that goes on after a cell that fails, if no later cell depends on it.

    Stand-ins for answers have no scores, so a cell that shows them may fail. After the failure of
    any other cell, the rest would be half a notebook, whose requests are not those of a run.
    """
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    are_independent = read_by_no_later_cell(["".join(cell["source"]) for cell in cells])
    for cell, is_independent in zip(cells, are_independent, strict=True):
        if is_independent:
            cell["metadata"].setdefault("tags", []).append("raises-exception")
    return notebook


def _with_local_encoders(section: Mapping[str, Any]) -> dict[str, Any]:
    local = {name: value for name, value in section.items() if name not in NOT_PLANNED}
    for name in LOCAL_ENCODERS:
        if name in local:
            local[name] = DEFAULT_ENCODER
    return local


def plan(names: Sequence[str], profile: str, model: str = "") -> list[Planned]:
    """Plan notebooks; all of them if none is named.

    Args:
        names: The notebooks.
        profile: Sizes and models.
        model: What answers in place of the profile's model.

    Raises:
        PlanError: A notebook asks nothing, or its data cannot be had.
    """
    prepare(profile)
    planned = []
    notebooks = select(names)
    for place, notebook in enumerate(notebooks, 1):
        sys.stderr.write(f"[{place}/{len(notebooks)}] planning {notebook} ...\n")
        planned += _plan_notebook(notebook, profile, model)
    return planned


def _plan_notebook(notebook: str, profile: str, model: str) -> list[Planned]:
    """Run a notebook that asks nothing, and read what it would ask."""
    steps = FOLDER / plan_file.FILE.relative_to(ROOT)
    failed = FOLDER / "_build" / "failed" / profile / f"{notebook}.ipynb"
    for path in (steps, failed):
        path.unlink(missing_ok=True)
    variables = {"ANSWERS": "plan", "PROFILE": profile, "LLM_MODEL": model}
    variables |= {"MEDRAG_ROOT": str(FOLDER), "PYTHONPATH": str(ROOT / "src")}
    # a graph server that one notebook starts serves the next ones, and ends with this process
    owner = {OWNER_VARIABLE: str(os.getpid())}
    done = subprocess.run(
        [sys.executable, "-m", "publish.run", notebook],
        env=owner | os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        why = _why_unusable(failed, done.stderr, has_steps=steps.exists())
        if why:
            raise PlanError(f"{notebook} cannot be planned: {why}")
    amounts = _amounts_by_model(notebook, read_steps(steps))
    is_partial = done.returncode != 0
    return [Planned(notebook, name, amount, is_partial) for name, amount in amounts.items()]


def _why_unusable(failed: Path, stderr: str, *, has_steps: bool) -> str:
    """Say why a run that failed makes no plan: it asked nothing, or its data cannot be had.

    Args:
        failed: The notebook that it left.
        stderr: What it wrote.
        has_steps: Whether it asked anything.

    Returns:
        The first error, from which later ones may follow; empty if there is a plan.
    """
    errors = _cell_errors(failed)
    lacks_data = any(error["ename"] == DataUnavailable.__name__ for error in errors)
    if has_steps and not lacks_data:
        return ""
    return errors[0]["evalue"] if errors else " ".join(stderr.strip().splitlines()[-3:])


def _cell_errors(path: Path) -> list[dict[str, Any]]:
    """Return the errors of an executed notebook's cells, in their order; none if there is none."""
    if not path.exists():
        return []
    errors = []
    for cell in read_notebook(path)["cells"]:
        outputs = cell.get("outputs", [])
        errors += [output for output in outputs if output["output_type"] == "error"]
    return errors


@dataclass(frozen=True)
class _Answered:
    """What a step came to in the reference: requests, and the mean tokens of an answer."""

    requests: int
    answer_tokens: float


def _reference(notebook: str) -> dict[str, _Answered]:
    """What the steps of a notebook came to in the reference, by the names of their files."""
    answered = {}
    for path in (RELEASED / notebook).glob("*.parquet"):
        tokens = pq.read_table(path, columns=["generated_tokens"])["generated_tokens"].to_pylist()
        known = [n for n in tokens if n is not None]
        answered[path.stem] = _Answered(len(tokens), sum(known) / max(1, len(known)))
    return answered


def _file_name(label: str) -> str:
    """The name of the file in which the reference has the requests of a step."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _amounts_by_model(notebook: str, steps: Sequence[StepForecast]) -> dict[str, Amount]:
    answered = _reference(notebook)
    amounts: dict[str, Amount] = {}
    for step in steps:
        amounts[step.model] = amounts.get(step.model, Amount()) + _amount(step, answered)
    return amounts


def _amount(step: StepForecast, answered: Mapping[str, _Answered]) -> Amount:
    """What a step comes to, by what such steps came to in the reference.

    Args:
        step: The step.
        answered: The steps of the reference.
    """
    if step.kind == "training":
        return Amount(training_tokens=step.prompt_tokens)
    share = _conditional_share(step, answered) if step.is_conditional else 1.0
    longest = step.max_answer_tokens / max(1, step.requests)
    like = answered.get(_file_name(step.label))
    mean = min(longest, like.answer_tokens) if like else UNKNOWN_SHARE * longest
    middle = (step.prompt_tokens + step.max_prompt_tokens) / 2
    return Amount(
        requests=share * step.requests,
        max_requests=step.requests,
        prompt_tokens=share * middle,
        min_prompt_tokens=0 if step.is_conditional else step.prompt_tokens,
        max_prompt_tokens=step.max_prompt_tokens,
        answer_tokens=share * mean * step.requests,
        max_answer_tokens=step.max_answer_tokens,
    )


def _conditional_share(step: StepForecast, answered: Mapping[str, _Answered]) -> float:
    """Share of a step's requests that an earlier step's replies make necessary."""
    name = _file_name(step.label)
    own, first = answered.get(name), answered.get(name.replace(CONDITIONAL, "write", 1))
    if own is None or first is None:
        return UNKNOWN_SHARE
    return min(1.0, own.requests / first.requests)


def show(planned: Sequence[Planned], prices: Prices, console: Console) -> None:
    """Print a row for each notebook and model, and the sum."""
    table = Table(box=None)
    for title in COLUMNS:
        table.add_column(title, no_wrap=True)
    if prices.prompt or prices.answer:
        table.add_column("money", no_wrap=True)
    total = sum((item.amount for item in planned), Amount())
    for item in [*planned, Planned("all", "", total)]:
        table.add_row(*_cells(item, prices))
    console.print(table)
    console.print(
        f"GPU-hours at {prices.tokens_per_second:,.0f} tokens a second; a token that is trained on "
        f"counts as {TRAINING_FACTOR}. Ranges: prompts that hold earlier replies, answers up to "
        "their limit. The likely length of an answer is that of the reference's. Encoders, the "
        "graph and searches are not counted."
    )
    if any(item.is_partial for item in planned):
        console.print(
            "*: a cell failed, as stand-ins for answers have no scores; what it, and cells that "
            "need it, had yet to ask is not counted."
        )


def _cells(item: Planned, prices: Prices) -> list[str]:
    amount = item.amount
    cells = [
        f"{item.notebook}{' *' * item.is_partial}",
        item.model,
        _number(amount.requests, amount.requests, amount.max_requests),
        _number(amount.prompt_tokens, amount.min_prompt_tokens, amount.max_prompt_tokens),
        _number(amount.answer_tokens, amount.answer_tokens, amount.max_answer_tokens),
        f"{amount.training_tokens:,.0f}" if amount.training_tokens else "-",
        f"{amount.gpu_hours(prices):,.2f}",
    ]
    if prices.prompt or prices.answer:
        cells.append(f"{amount.money(prices):,.2f}")
    return cells


def _number(likely: float, low: float, high: float) -> str:
    """A number with its range, where there is one."""
    if round(low) == round(high):
        return f"{likely:,.0f}"
    return f"{likely:,.0f} ({low:,.0f} to {high:,.0f})"
