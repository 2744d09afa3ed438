"""Write the closed book of 01 as a task of lm-evaluation-harness.

It asks the same questions in the same words and reads replies alike. The data keep their licence,
in `_build/lm-eval`.
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
    """Describe the task.

    Args:
        data: The questions as JSON lines.
        values: The notebook's parameters.
    """
    read_label = {
        "function": "regex",
        "regex_pattern": f"(?i){forward.LABEL_PATTERN.pattern}",
        "fallback": "NO",  # an answer that cannot be read counts as NO
    }
    steps = [read_label, {"function": "uppercase"}, {"function": "take_first"}]
    generation = {
        "until": list(values["answer_stop"]),
        "max_gen_toks": values["answer_tokens"],
        "do_sample": values["temperature"] > 0,
        "temperature": values["temperature"],
        "top_p": values["top_p"],
    }
    description: dict[str, Any] = yaml.safe_load(FIXED.read_text(encoding="utf-8"))
    return description | {
        "task": TASK,
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "generation_kwargs": generation,
        "filter_list": [{"name": "label", "filter": steps}],
    }


def write(folder: Path, questions: list[corpus.Question], values: dict[str, Any]) -> Path:
    """Write questions and task.

    Args:
        folder: Where the files go; it is made if need be.
        questions: The questions of the task.
        values: The notebook's parameters.

    Returns:
        The task's file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{TASK}.jsonl"
    data.write_text("".join(map(_json_line, questions)), encoding="utf-8")
    path = folder / f"{TASK}.yaml"
    text = yaml.safe_dump(task(data, values), sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    return path


def _json_line(question: corpus.Question) -> str:
    row = {
        "unit": question.unit,
        "prompt": forward.closed_book_prompt(question)[0]["content"],
        "gold": question.gold,
        "cluster": question.cluster,
    }
    return json.dumps(row) + "\n"


def main() -> int:
    """Write the task for the profile of the settings and say how to run it."""
    defaults = declared(NOTEBOOKS / f"{NOTEBOOK}.ipynb")
    values = defaults | parameters(NOTEBOOK, settings().profile)
    file = datasets.locate("side_effects/evaluation_dataset.csv", values["data"])
    benchmark = corpus.read_questions(file.path)
    n_pairs = min(values["pairs"], len(benchmark))
    questions = corpus.stratified(benchmark, n_pairs, values["seed"])
    path = write(BUILD / "lm-eval", questions, values)
    sys.stdout.write(
        f"{len(questions)} questions: {path}\n"
        f"Run them: lm_eval --include_path {path.parent} --tasks {TASK} --apply_chat_template "
        "--model ...\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
