"""All trials."""

from bad_inputs import BAD_INPUTS
from edits import EDITS_AND_SIGNALS
from misbehaving import MISBEHAVING
from surroundings import SURROUNDINGS
from trials import TRIALS

EVERY = [*TRIALS, *EDITS_AND_SIGNALS, *SURROUNDINGS, *MISBEHAVING, *BAD_INPUTS]
