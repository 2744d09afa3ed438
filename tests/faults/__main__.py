"""Carries out the trials: python tests/faults."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where the fixtures are

if __name__ == "__main__":
    from every import EVERY
    from harness import main

    results = Path(__file__).parents[2] / "data" / "results"
    sys.exit(main(EVERY, results / "faults.json"))
