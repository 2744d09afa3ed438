"""Run requests in threads, and say what is waited for.

The threads end with the process: one that hangs in the network, which nothing can
interrupt, keeps no run from ending.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tqdm import tqdm

from helpers.completions import LlmError

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""How often it is looked whether something is late."""
SILENT_SECONDS = 5.0
"""After so long without a reply, the progress line says what is waited for."""
LOG_SECONDS = 10.0
"""Seconds between two such lines in a log; in a terminal each takes the place of the last."""
GRACE_SECONDS = 2.0
"""How long after its limit a wait is given up from outside, if it does not end by itself."""


@dataclass(frozen=True)
class Wait:
    """What one thread waits for; times are of `time.monotonic`."""

    purpose: str
    since: float
    until: float


class Waits:
    """What all threads of a client wait for."""

    def __init__(self) -> None:
        """Begin without any."""
        self._waits: dict[int, Wait] = {}

    @contextmanager
    def wait_for(self, purpose: str, seconds: float) -> Iterator[None]:
        """Note that this thread waits, at most for some seconds."""
        thread, now = threading.get_ident(), time.monotonic()
        before = self._waits.get(thread)
        self._waits[thread] = Wait(purpose, now, now + seconds)
        try:
            yield
        finally:
            self._waits.pop(thread, None)
            if before:
                self._waits[thread] = before

    @property
    def oldest(self) -> Wait | None:
        """The wait that began first."""
        waits = list(self._waits.values())
        return min(waits, key=lambda wait: wait.since, default=None)

    def describe(self) -> str:
        """What is waited for, for how long already, and until when at most."""
        wait = self.oldest
        if wait is None:
            return ""
        now = time.monotonic()
        end = time.localtime(time.time() + wait.until - now)
        return (
            f"waiting for {wait.purpose}: {now - wait.since:.0f} s so far, at most until "
            f"{time.strftime('%H:%M:%S', end)}"
        )

    def check(self) -> None:
        """Give up if some wait has passed its limit.

        Raises:
            LlmError: If so.
        """
        now = time.monotonic()
        for wait in list(self._waits.values()):
            if now > wait.until + GRACE_SECONDS:
                raise LlmError(
                    f"No end of {wait.purpose} within {wait.until - wait.since:.0f} s. Replies "
                    "that had come are stored: see what the server does, and run again."
                )


def run_concurrently(
    function: Callable[[str], T],
    keys: Sequence[str],
    n_threads: int,
    label: str,
    waits: Waits,
) -> dict[str, T]:
    """Call a function for each key in threads, with a progress bar.

    Args:
        function: What each thread does.
        keys: Its arguments.
        n_threads: How many run at once.
        label: Name of the step, before the bar.
        waits: What the threads wait for.

    Returns:
        The results by key.

    Raises:
        BaseException: The first error; what was under way is waited for.
    """
    work: queue.SimpleQueue[str] = queue.SimpleQueue()
    for key in keys:
        work.put(key)
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()
    n_threads = min(n_threads, len(keys))
    for _ in range(n_threads):
        threading.Thread(target=_work, args=(function, work, done), daemon=True).start()
    return _gather(work, done, len(keys), label, waits)


def _work(
    function: Callable[[str], T],
    work: "queue.SimpleQueue[str]",
    done: "queue.SimpleQueue[tuple[str, T | None, BaseException | None]]",
) -> None:
    while True:
        try:
            key = work.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((key, function(key), None))
        except BaseException as error:  # raised again by who gathers
            done.put((key, None, error))


def _gather(
    work: "queue.SimpleQueue[str]",
    done: "queue.SimpleQueue[tuple[str, T | None, BaseException | None]]",
    n_keys: int,
    label: str,
    waits: Waits,
) -> dict[str, T]:
    results: dict[str, T] = {}
    n_expected, last = n_keys, time.monotonic()
    pause = LOOK_SECONDS if sys.stderr.isatty() else LOG_SECONDS
    last_said = -pause
    first_error: BaseException | None = None
    n_done = 0
    with tqdm(total=n_keys, desc=label, unit="req") as progress:
        while n_done < n_expected:
            try:
                key, result, error = done.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                now = time.monotonic()
                if now - last > SILENT_SECONDS and now - last_said >= pause:
                    progress.set_postfix_str(waits.describe())
                    last_said = now
                _check_unless_failed(waits, first_error)
                continue
            last = time.monotonic()
            progress.set_postfix_str("", refresh=False)
            n_done += 1
            if error is None:
                results[key] = result  # type: ignore[assignment]  # there is no error
                progress.update()
                continue
            first_error = first_error or error
            n_expected -= _cancel(work)
    if first_error is not None:
        raise first_error
    return results


def _check_unless_failed(waits: Waits, failure: BaseException | None) -> None:
    """Give up on what is late; after a failure, what failed first is the error."""
    try:
        waits.check()
    except LlmError:
        if failure is None:
            raise
        raise failure from None


def _cancel(work: "queue.SimpleQueue[str]") -> int:
    """Take back what no thread has begun; return how many."""
    n_cancelled = 0
    while True:
        try:
            work.get_nowait()
        except queue.Empty:
            return n_cancelled
        n_cancelled += 1
