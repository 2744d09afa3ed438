"""A box in a notebook that answers questions; it needs a running kernel."""

from collections.abc import Callable

import ipywidgets
from IPython.display import display


def box(ask: Callable[[str], object], example: str = "") -> ipywidgets.VBox:
    """A text box that shows `ask` of the question at Enter, and an example while it is empty."""
    wide = {"width": "100%"}
    text = ipywidgets.Text(
        description="Question", placeholder=example, continuous_update=False, layout=wide
    )
    output = ipywidgets.Output()

    def respond(_: object) -> None:
        output.clear_output()
        with output:
            display(ask(text.value))

    text.observe(respond, names="value")
    return ipywidgets.VBox([text, output])
