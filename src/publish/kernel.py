"""Executes the cells of a notebook in a kernel by papermill, and shows how far it is."""

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from resources.parameters import read_notebook
from resources.settings import ROOT, explain_os_error

KERNEL_SECONDS = 300
"""Seconds that a kernel may take to answer. Where many processes wait, a minute is not enough."""
TERMINAL_SECONDS = 0.2
"""Seconds between two lines of progress in a terminal, where each takes the place of the last."""
LOG_SECONDS = 10.0
"""Seconds between two lines of progress in a log."""
LONGEST_SOCKET = 90
"""Characters of a socket's path, less than the system's limit of 107 on Linux, 103 on macOS."""
LAST_LINES = 25
"""Lines of a failed cell's error that are shown."""
INTERRUPTED = "The run was interrupted."
_OS_ERROR = re.compile(r"\[Errno (\d+)\] ([^:]*)(?:: '(.*)')?")


class Progress(logging.Handler):
    """Shows the progress bars and messages of a notebook as they come, under its name."""

    def __init__(self, notebook: Path) -> None:
        """Show the progress of a notebook at this path."""
        super().__init__()
        self._name = notebook.stem
        cells = read_notebook(notebook)["cells"]
        tags = [tag for cell in cells for tag in cell["metadata"].get("tags", ())]
        # papermill adds a cell with the profile's parameters
        self._n_cells = len(cells) + ("parameters" in tags)
        self._last_shown = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message of papermill's."""
        message = record.getMessage()
        # what a cell shows comes as INFO, and what it writes to stderr as WARNING
        if record.levelno < logging.WARNING and not message.startswith("Executing Cell"):
            return
        for line in message.replace("\r", "\n").splitlines():
            cell = re.sub(
                r"^Executing Cell (\S+?)-*$", rf"cell \1 of {self._n_cells}", line.strip()
            )
            self._show(cell.rstrip("-"))

    def _show(self, text: str) -> None:
        is_bar = "%|" in text and "100%|" not in text
        moving = is_bar or text.startswith("cell ")
        terminal = sys.stderr.isatty()
        pause = TERMINAL_SECONDS if terminal else LOG_SECONDS
        too_soon = time.monotonic() - self._last_shown < pause
        if not text or (moving and too_soon):
            return
        if moving:
            self._last_shown = time.monotonic()
        sys.stderr.write(self._line(text, terminal) + ("" if moving and terminal else "\n"))
        sys.stderr.flush()

    def _line(self, text: str, terminal: bool) -> str:
        if not terminal:
            return f"  {self._name}: {text}"
        width = shutil.get_terminal_size().columns - len(self._name) - 4
        return f"\r  {self._name}: {text[:width].ljust(width)}"


def make_interruptible() -> None:
    """Make nbclient end when it is interrupted between two looks at whether the kernel lives."""
    from nbclient.client import NotebookClient  # noqa: PLC0415  # a second to import
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415

    look = NotebookClient._async_check_alive

    async def look_if_connected(self: NotebookClient) -> None:
        if self.kc is None:
            raise DeadKernelError(INTERRUPTED)
        await look(self)

    NotebookClient._async_check_alive = look_if_connected  # type: ignore[method-assign]


def execute_cells(notebook: Path, output: Path, parameters: dict[str, Any]) -> str:
    """Execute a notebook, and write what it shows to `output`, as far as it comes.

    Returns:
        Why it failed; empty if it did not.

    Raises:
        KeyboardInterrupt: the run was interrupted.
    """
    import papermill  # noqa: PLC0415  # a second to import
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415

    logger = logging.getLogger("papermill")
    logger.handlers, logger.propagate = [Progress(notebook)], False
    logger.setLevel(logging.INFO)
    make_interruptible()
    try:
        with _transport() as config:
            papermill.execute_notebook(
                _papermill_path(notebook),
                _papermill_path(output),
                parameters=parameters,
                progress_bar=False,
                log_output=True,
                kernel_name="python3",
                start_timeout=KERNEL_SECONDS,
                cwd=str(ROOT),
                config=config,
                # a kernel is ended by an interrupt, which is no error
                extra_arguments=["--log-level=50"],
            )
    except PapermillExecutionError as error:
        return _explain_cell_error(error)
    except RuntimeError as error:  # of a kernel that died, or did not start
        if str(error) == INTERRUPTED:
            raise KeyboardInterrupt from None
        return (
            f"The kernel ended before the notebook did ({error}). The system ends it when memory "
            "runs out: then close other programs, or set JOBS=1 or a smaller PROFILE."
        )
    return ""


def _papermill_path(path: Path) -> str:
    """A path as papermill takes it.

    Papermill formats paths, so that braces are doubled, and writes them into the notebook. As seen
    from the project's folder, a path has none of the letters that UTF-8 cannot write.
    """
    return os.path.relpath(path).replace("{", "{{").replace("}", "}}")


def _explain_cell_error(error: Any) -> str:  # noqa: ANN401  # papermill's class is costly to import
    """Say in one line what the system refused, or else show the end of the traceback."""
    match = _OS_ERROR.fullmatch(error.evalue)
    if match:
        return explain_os_error(OSError(int(match[1]), match[2], match[3]))
    return "\n".join(str(error).splitlines()[-LAST_LINES:])


@contextmanager
def _transport() -> Iterator[Any]:
    """Yield the configuration by which the kernel is spoken to.

    Sockets in the file system take the place of TCP ports, to which others on the machine could
    connect. Each run has a folder of its own for them: in a shared one, two kernels that start
    together take the same names.
    """
    from traitlets.config import Config  # noqa: PLC0415

    if sys.platform == "win32":
        yield None
        return
    folder = tempfile.gettempdir()
    if len(folder) > LONGEST_SOCKET - len("/kernel-12345678/at-1"):
        folder = "/tmp"  # noqa: S108  # a folder is made in it, for this user alone
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=folder) as sockets:
        yield Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/at"}})
