"""Carries out the trials: python tests/faults."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from conftest import REPOSITORY
from harness import main
from trials import TRIALS

sys.exit(main(TRIALS, REPOSITORY / "data" / "results" / "faults.json"))
