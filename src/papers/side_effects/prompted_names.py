"""Misspelt names whose answers the authors' own prompt holds."""

from typing import Final

PROMPTED = {
    "floxetine": "fluoxetine",
    "ropirinole": "ropinirole",
    "grisefulvin": "griseofulvin",
}
"""Names of the paper's list whose answers are in the authors' prompt, with these answers.

Source: FEWSHOT_PROMPT_TEMPLATE in their src/utils/spell_corrector.py, the same at commits dff2716
and 10e9091 of the repository of the released files. The released reports say that this prompt was
used (`use_fewshot`).
"""
IN_AUTHORS_PROMPT: Final = "in the authors' prompt"
"""The stratum of rows on a name, whose values are those of `IS_PROMPTED`."""
IS_PROMPTED: Final = {True: "in the prompt", False: "not in the prompt"}
