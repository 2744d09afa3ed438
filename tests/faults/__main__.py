"""Carries out the trials: python tests/faults."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where the fixtures are

if __name__ == "__main__":
    from bad_inputs import BAD_INPUTS
    from harness import main
    from trials import TRIALS

    results = Path(__file__).parents[2] / "data" / "results"
    sys.exit(main([*TRIALS, *BAD_INPUTS], results / "faults.json"))
