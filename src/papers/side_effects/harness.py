"""Writes the closed book of 01 as a task of lm-evaluation-harness: python -m papers.side_effects.harness.

It asks the same questions in the same words and reads replies alike; the data keep their licence, in `_build/lm-eval`.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from papers.side_effects import corpus, forward
from resources import datasets
from resources.parameters import declared, parameters
from resources.settings import BUILD, NOTEBOOKS, run_command_line, settings

NOTEBOOK: Final = "01_side_effects_forward"
FIXED: Final = Path(__file__).with_suffix(".yml")
TASK: Final = "side_effects_forward_closed_book"


def task(data: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The task's description, of questions as JSON lines, with the notebook's parameters."""
    # an answer that cannot be read counts as NO
    first = {
        "function": "regex",
        "regex_pattern": f"(?i){forward.LABEL_PATTERN.pattern}",
        "fallback": "NO",
    }
    asked = {"until": list(values["answer_stop"]), "max_gen_toks": values["answer_tokens"]}
    sampled = {"do_sample": values["temperature"] > 0} | {
        name: values[name] for name in ("temperature", "top_p")
    }
    return yaml.safe_load(FIXED.read_text(encoding="utf-8")) | {
        "task": TASK,
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "generation_kwargs": asked | sampled,
        "filter_list": [
            {
                "name": "label",
                "filter": [first, {"function": "uppercase"}, {"function": "take_first"}],
            }
        ],
    }


def write(folder: Path, questions: list[corpus.Question], values: dict[str, Any]) -> Path:
    """Write questions and task; returns the task's file."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{TASK}.jsonl"
    with data.open("w", encoding="utf-8") as file:
        for q in questions:
            prompt = forward.closed_book_prompt(q)[0]["content"]
            file.write(
                f"{json.dumps({'unit': q.unit, 'prompt': prompt, 'gold': q.gold, 'cluster': q.cluster})}\n"
            )
    path = folder / f"{TASK}.yaml"
    path.write_text(
        yaml.safe_dump(task(data, values), sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    return path


def main() -> int:
    """The command line."""
    values = declared(NOTEBOOKS / f"{NOTEBOOK}.ipynb") | parameters(NOTEBOOK, settings().profile)
    benchmark = corpus.read_questions(
        datasets.locate("side_effects/evaluation_dataset.csv", values["data"]).path
    )
    questions = corpus.stratified(benchmark, min(values["pairs"], len(benchmark)), values["seed"])
    path = write(BUILD / "lm-eval", questions, values)
    sys.stdout.write(
        f"{len(questions)} questions: {path}\nRun them: lm_eval --include_path {path.parent} --tasks {TASK} "
        "--apply_chat_template --model ...\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
