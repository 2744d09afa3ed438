"""End a server whose supervisor was killed: python server_reaper.py PID FOLDER.

The supervisor holds the other end of standard input, so that standard input ends when the
supervisor does. This script needs the standard library alone, and so starts at once.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

PATIENCE = 5.0
"""Seconds that a server may take to end in order."""


def end_process_group(leader: int) -> None:
    """Ask the processes of a group to end, and kill those that still run after `PATIENCE`.

    The engine of vLLM is a process beside its server, and outlives it if only the server is killed.
    """
    deadline = time.monotonic() + PATIENCE
    try:
        os.killpg(leader, signal.SIGTERM)
        while time.monotonic() < deadline:
            # a child that has ended stays in its group until its parent waits for it
            with contextlib.suppress(ChildProcessError):
                os.waitpid(leader, os.WNOHANG)
            os.killpg(leader, 0)
            time.sleep(0.05)
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:  # none is left
        return
    with contextlib.suppress(ChildProcessError):
        os.waitpid(leader, 0)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    Path(sys.argv[2], "endpoint.json").unlink(missing_ok=True)
    end_process_group(int(sys.argv[1]))
