"""End what a make has started once that make has ended, also by `kill -9`.

python -m resources.run_guard MAKE SHELL

`MAKE` and `SHELL` are process numbers: of the make, and of the shell that it runs a recipe in. What
that shell starts has `SERVERS_OWNER=MAKE` in its environment. The embedded servers of the run end
by themselves, because their supervisors watch the same make.
"""

import contextlib
import os
import signal
import sys
import time

import psutil

VARIABLE = "SERVERS_OWNER"
POLL = 0.3
"""Seconds between two looks at the make."""
PATIENCE = 4.0
"""Seconds in which what was interrupted may put its results in order."""


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL)


def processes_of_run(make: int, shell: psutil.Process | None) -> list[psutil.Process]:
    """Return the processes of a run, but for this one."""
    found = [shell] if shell and shell.is_running() else []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            owner = process.environ().get(VARIABLE)
            if owner == str(make) and process.pid != os.getpid():
                found.append(process)
    return found


def interrupt(process: psutil.Process) -> None:
    """Do as Ctrl-C does, which no kernel sees: it has a session of its own."""
    with contextlib.suppress(psutil.Error, OSError):
        if os.getsid(process.pid) == os.getsid(0):
            process.send_signal(signal.SIGINT)


def main(make: int, shell_pid: int) -> None:
    """Wait for the end of a make, then interrupt what is left of its run, and at last kill it."""
    shell = psutil.Process(shell_pid) if psutil.pid_exists(shell_pid) else None
    wait_for_end(make)
    left = processes_of_run(make, shell)
    for process in left:
        interrupt(process)
    psutil.wait_procs(left, timeout=PATIENCE)
    while left := processes_of_run(make, shell):
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
