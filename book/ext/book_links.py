"""Sphinx extension: where the book's buttons lead.

The repository's address is what `publish.launch.repository_url` finds; without one, a page has no
launch, edit or repository button. The pages are staged copies, so a button leads to the file that a
reader can edit or run: `notebooks/<name>.ipynb`, `book/<page>.md`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from publish.launch import repository_url

BRANCH = os.environ.get("REPOSITORY_BRANCH", "main")


def add_repository(app: Sphinx, config: Config) -> None:
    """Turn the buttons on where the address is known."""
    options = config["html_theme_options"]
    options["launch_buttons"] = {}
    if url := repository_url():
        options.update(
            repository_url=url,
            repository_branch=BRANCH,
            path_to_docs="book",
            use_repository_button=True,
            use_issues_button=True,
            use_edit_page_button=True,
            launch_buttons={
                "notebook_interface": "jupyterlab",
                "binderhub_url": "https://mybinder.org",
                "colab_url": "https://colab.research.google.com",
            },
        )


def lead_to_source(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Point the launch and edit buttons of a notebook's page at the notebook itself."""
    staged = re.compile(r"book/notebooks/(\w+?)(_sample)?\.ipynb")

    def mend(button: dict[str, Any]) -> None:
        if "url" in button:
            button["url"] = staged.sub(r"notebooks/\1.ipynb", button["url"])
        for child in button.get("buttons", []):
            mend(child)

    for button in context.get("header_buttons", []):
        mend(button)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", add_repository)
    # after the theme has made its buttons
    app.connect("html-page-context", lead_to_source, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
