"""medspaCy's components, imported in silence: it logs each rule, and may log a note."""

import warnings

from loguru import logger as _loguru

_loguru.disable("medspacy")
_loguru.disable("PyRuSH")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from medspacy.context import ConText, ConTextRule
    from medspacy.section_detection import Sectionizer, SectionRule
    from medspacy.target_matcher import TargetMatcher, TargetRule
# a matcher whose rules are all regular expressions has no token patterns, and needs none
warnings.filterwarnings("ignore", message=r"\[W036\]")

__all__ = [
    "ConText",
    "ConTextRule",
    "SectionRule",
    "Sectionizer",
    "TargetMatcher",
    "TargetRule",
]
