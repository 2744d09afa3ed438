"""An adapter, made or loaded, with the log of its training."""

import sys

from resources import artifacts, lora
from resources.datasets import digest
from resources.settings import run_command_line

TOLD = {
    "base": "m",
    "settings": {},
    "train": [],
    "validation": [],
    "pairs": 1,
    "validation_pairs": 1,
    "cut": 0,
}
COUNTS = {"tokens": 9, "trained_parameters": 1, "parameters": 2, "seconds": 1.0}


def make(folder):
    with artifacts.replacing(folder) as part:
        part.mkdir()
        (part / lora.WEIGHTS).write_bytes(bytes(range(256)) * 200)
        (part / "adapter_config.json").write_text('{"r": 8}')
        artifacts.write_log(part, lora.WEIGHTS, {**TOLD, **COUNTS})
    return lora.load(folder)


def main():
    log = artifacts.load_or_make(lora.ADAPTERS, "demo", ["pairs"], lora.load, make)
    print(
        log.adapter.sha256, log.adapter.rank, log.tokens, digest(log.adapter.folder / lora.WEIGHTS)
    )
    return 0


sys.exit(run_command_line(main))
