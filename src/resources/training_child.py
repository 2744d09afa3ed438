"""Run a training script beside a parent: `python -P training_child.py SCRIPT JOB FOLDER`.

The interpreter is the LLM engine's own. The script defines `main(job, folder, say)`: it reads the
job, writes to the folder, and says one JSON line a logged step, `{"step": 10, "loss": 2.1}`, and
last a summary with `done`. What else it or its libraries print goes to the log.
"""

import json
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Any


def end_with_parent() -> None:
    """End this process when the one that started it is gone: its end of the pipe closes then."""
    sys.stdin.read()
    os._exit(1)


def find(base: str) -> None:
    """End with a message if there is no such model. Before torch is loaded, which takes seconds."""
    if Path(base).exists():
        if not (Path(base) / "config.json").exists():
            sys.exit(f"{base} holds no model in Hugging Face's format: it has no config.json.")
        return
    import huggingface_hub  # noqa: PLC0415  # of the engine's environment, and only for a hub's name

    try:
        huggingface_hub.hf_hub_download(base, "config.json")
    except Exception as error:
        sys.exit(
            f"{base} is no folder here, and no model hub gave a model of that name. Give a folder "
            "in Hugging Face's format, or check the name, the network and HF_ENDPOINT. The hub's "
            f"client says: {error}"
        )


def main(script: str, job: dict[str, Any], folder: Path) -> None:
    """Run the script."""
    # the libraries print too, and the parent reads lines of its own
    parent, sys.stdout = sys.stdout, sys.stderr
    threading.Thread(target=end_with_parent, daemon=True).start()

    def say(**line: Any) -> None:  # noqa: ANN401  # numbers, for JSON
        parent.write(json.dumps(line) + "\n")
        parent.flush()

    find(job["base"])
    runpy.run_path(script)["main"](job, folder, say)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3]))
