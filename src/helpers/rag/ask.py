"""A box in a notebook that answers questions; it needs a running kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipywidgets


def box(ask: Callable[[str], object], example: str = "") -> ipywidgets.VBox:
    """A text box that shows `ask` of the question at Enter, and an example while it is empty."""
    import ipywidgets  # noqa: PLC0415  # only for who has a notebook open
    from IPython.display import display  # noqa: PLC0415

    wide = {"width": "100%"}
    text = ipywidgets.Text(description="Question", placeholder=example, continuous_update=False, layout=wide)
    output = ipywidgets.Output()

    def respond(_: object) -> None:
        output.clear_output()
        with output:
            display(ask(text.value))

    text.observe(respond, names="value")
    return ipywidgets.VBox([text, output])
