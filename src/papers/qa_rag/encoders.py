"""The encoder of a run, and that of the paper's BERTScore: another encoder is another scale."""

from __future__ import annotations

import logging

from helpers import vectors
from helpers.vectors import Encoder, EncoderUnavailable

log = logging.getLogger(__name__)

PAPER_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Of BERTScore, as the authors' notebook names it."""


def encoder_of(name: str) -> tuple[Encoder, str]:
    """An encoder, or the one that needs nothing in its place, and then why; asked for before anything takes time.

    Args:
        name: as in `vectors.encoder`.
    """
    try:
        return vectors.encoder(name), ""
    except EncoderUnavailable as error:
        log.warning("%s", error)
        return vectors.encoder(), f"{vectors.DEFAULT_ENCODER} stands in for {name}. {error}"


def other_scale(encoder: str) -> str:
    """Why a BERTScore by this encoder is no rerun of a printed one; empty if it is by the paper's."""
    if encoder == PAPER_ENCODER:
        return ""
    return f"BERTScore by {encoder} is another scale than by {PAPER_ENCODER}, which was not used"
