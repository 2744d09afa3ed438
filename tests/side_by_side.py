"""Makes several targets at once, each line with the name of its target: python side_by_side.py A B.

The first target that fails ends the others; its last lines are repeated at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

ROOT = Path(__file__).resolve().parents[1]
LAST_LINES = 60
"""Lines of a failed target that are repeated."""
POLL = 0.2
"""Seconds between two looks at the targets."""
PATIENCE = 6.0
"""Seconds in which a target that is ended may stop its servers."""


@dataclass
class Target:
    """A target under way."""

    name: str
    width: int
    process: subprocess.Popen[str]
    began: float = field(default_factory=time.monotonic)
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def follow(self, output: IO[str]) -> None:
        """Show each line of its output with its name, until it ends."""
        for line in output:
            text = line.rstrip()
            if text:
                self.last_lines.append(text)
                show(f"{self.name:{self.width}} | {text}")


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def start(name: str, width: int, folder: Path) -> tuple[Target, threading.Thread]:
    """Make a target; a thread shows what it prints."""
    process = subprocess.Popen(
        ["make", "--no-print-directory", name],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    target = Target(name, width, process)
    assert process.stdout
    reader = threading.Thread(target=target.follow, args=(process.stdout,), daemon=True)
    reader.start()
    return target, reader


def end(target: Target) -> None:
    """Interrupt what a target has started, as Ctrl-C does, and kill what stays."""
    if target.process.poll() is not None:
        return
    make = psutil.Process(target.process.pid)
    processes = [*make.children(recursive=True), make]
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.is_running():
                process.send_signal(stop)
        _, processes = psutil.wait_procs(processes, timeout=PATIENCE)


def run(names: Sequence[str], folder: Path = ROOT) -> int:
    """Make targets of a folder's Makefile at once; returns 0, or 1 if one of them failed."""
    width = max(len(name) for name in names)
    started = [start(name, width, folder) for name in names]
    running = [target for target, _ in started]
    failed: Target | None = None
    try:
        while running and failed is None:
            time.sleep(POLL)
            for target in [target for target in running if target.process.poll() is not None]:
                running.remove(target)
                seconds = time.monotonic() - target.began
                if target.process.returncode:
                    failed = failed or target
                else:
                    show(f"{target.name:{width}} | passed after {seconds:.0f} s")
    finally:
        for target in running:
            end(target)
    for _, reader in started:
        reader.join(timeout=PATIENCE)
    if failed is None:
        return 0
    stopped = " ".join(target.name for target in running)
    show(
        f"\n{failed.name} failed{f'; {stopped} did not finish' if stopped else ''}. It ended with:"
    )
    for line in failed.last_lines:
        show(f"  {line}")
    show(f"Try it again alone: make {failed.name}")
    return 1


def terminate(number: int, frame: FrameType | None) -> None:
    """Let what is under way end, too, when this process is asked to."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminate)
    for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        os.environ.pop(variable, None)
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
