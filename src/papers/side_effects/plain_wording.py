"""The names of a plainly worded question, by where they stand in it.

The words around a name say what it is, also if no catalogue has it: a drug or a side effect.
"""

import re
from typing import Final

_EFFECT_WORDS: Final = (
    r"(?:(?:adverse|common|known|listed|possible|side) )*(?:effects?|events?|reactions?)"
)
_CAUSE_WORDS: Final = r"(?:causes?|induces?|leads? to|produces?|triggers?)"
_DRUG_WORDS: Final = r"(?:drugs?|medications?|medicines?)"
_WORDINGS: Final = (
    rf"(?:is|are) (?P<effect>.+?) (?:an? )?{_EFFECT_WORDS} of (?P<drug>.+)",
    rf"(?:how often )?(?:can|could|do|does|may|might) (?P<drug>.+?) {_CAUSE_WORDS} (?P<effect>.+)",
    rf"(?:what|which) {_DRUG_WORDS} (?:(?:can|could|may|might) )?{_CAUSE_WORDS} (?P<effect>.+)",
    rf"what (?:are|is) the {_EFFECT_WORDS} of (?P<drug>.+)",
    rf"(?:what|which) {_EFFECT_WORDS} (?:do|does) (?P<drug>.+?) (?:cause|have)",
)
_SEVERAL: Final = re.compile(r"\b(?:and|or)\b|[,;/]")


def names_by_place(text: str) -> dict[str, str]:
    """Find the drug and the side effect of a question by the words around them.

    Args:
        text: The question in lower case, without a mark at its end.

    Returns:
        What stands for "drug" and "effect", if the question has one of the wordings; what looks
        like several names is left out.
    """
    for wording in _WORDINGS:
        match = re.fullmatch(wording, text)
        if match:
            return {
                role: name for role, name in match.groupdict().items() if not _SEVERAL.search(name)
            }
    return {}
