"""Addresses of the book's pages, relative to its first page."""

from urllib.parse import quote, urlencode


def answers_address(  # noqa: PLR0913  # one argument for each filter
    notebook: str,
    arm: str = "",
    against: str = "",
    *,
    model: str = "",
    text: str = "",
    show: str = "",
    rows: str = "",
    measure: str = "",
) -> str:
    """Return the viewer's address for an experiment.

    Args:
        notebook: Name of the experiment's notebook.
        arm: Show this arm alone.
        against: Show this arm beside the other.
        model: Show answers of this model alone.
        text: Show rows that contain this text.
        show: Which questions: ``all``, ``wrong``, ``disagree`` and so on, see `viewer.js`.
        rows: Show answers of these strata alone.
        measure: Show answers that have this measure, by its values.
    """
    filters = {
        "nb": notebook,
        "arm": arm,
        "against": against,
        "model": model,
        "show": show,
        "text": text,
        "rows": rows,
        "measure": measure,
    }
    chosen = [(name, value) for name, value in filters.items() if value]
    return "answers.html#" + urlencode(chosen, quote_via=quote, errors="replace")
