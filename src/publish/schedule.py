"""Runs the notebooks that are stale, some of them at once, each in a process of its own."""

import difflib
import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from publish import dependencies, freshness
from resources import engine_install, run_guard
from resources.parameters import check_profile, parameters
from resources.settings import NOTEBOOKS, ROOT, PublicError, profile_model, settings, threads

TIMED = ("18_across_papers",)
"""Notebooks that time single requests, so they run when the others are done."""
OPEN_FILES = 512
"""Files that a notebook with its kernel and stores may open at once, with room."""
POLL = 0.1
"""Seconds between two looks at the processes."""
PATIENCE = 20.0
"""Seconds in which an interrupted notebook may put its results in order."""
STATUS_TERMINATED = 128 + signal.SIGTERM
"""The exit status of a command that a signal ended, as a shell gives it."""
OWN_INTERRUPT = 2.0
"""Seconds in which what was interrupted together with this process ends by itself."""


class ScheduleError(PublicError, ValueError):
    """The notebooks cannot be run as asked; the message says why."""


def notebook_names() -> list[str]:
    """Return the names of all notebooks, in the order of the book."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def select(names: Sequence[str]) -> list[str]:
    """Return the notebooks that a user names; all of them if none is named.

    Raises:
        ScheduleError: there is no such notebook.
    """
    known = notebook_names()
    selected = [name for text in names for name in text.split()]
    unknown = sorted(set(selected) - set(known))
    if unknown or (names and not selected):
        raise ScheduleError(
            f"Name a notebook, or some of them; found {' '.join(unknown)!r}. "
            f"{_suggestion(unknown, known)} `medrerun run --list` lists all with their titles."
        )
    return selected or known


def _suggestion(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Name the notebooks that unknown names may stand for; all, if none is near."""
    near: dict[str, None] = {}
    for text in unknown:
        near |= dict.fromkeys(nearest_names(text, known))
    return f"Did you mean {', '.join(near)}?" if near else f"There are: {' '.join(known)}."


def nearest_names(text: str, known: Sequence[str]) -> list[str]:
    """Return the notebooks that a text may stand for: of that number, with that text, or alike.

    Args:
        text: What a user wrote, such as ``6``, ``forward`` or a misspelt name.
        known: Names of notebooks.
    """
    if text.isdecimal():
        number = text.lstrip("0")
        return [name for name in known if name.partition("_")[0].lstrip("0") == number]
    containing = [name for name in known if text.lower() in name.lower()]
    return containing or difflib.get_close_matches(text.lower(), known, n=3, cutoff=0.6)


def default_jobs() -> int:
    """Return how many notebooks run at once.

    A model that answers uses all cores. Where the reference's replies are stored it seldom does,
    and two notebooks share them.
    """
    jobs = os.environ.get("JOBS", "")
    if jobs:
        if not jobs.isdecimal() or int(jobs) < 1:
            raise ScheduleError(
                f"JOBS must be a whole number of at least 1; found JOBS={jobs}. Correct it, "
                "or unset it."
            )
        return int(jobs)
    current = settings()
    if current.answers in ("stored", "stored-only"):
        return 2
    asks_anew = current.answers == "fresh" or current.llm_model
    return 2 if current.profile == "laptop" and not asks_anew else 1


def run_stale(names: Sequence[str], jobs: int | None = None, *, again: bool = False) -> int:
    """Run those of the named notebooks that are stale; all of them if none is named.

    Args:
        names: of notebooks; each text may hold several.
        jobs: how many run at once; by default `default_jobs`.
        again: run them also if they are up to date.

    Returns:
        0, or 1 if one of them failed.

    Raises:
        ScheduleError: the project's folder has a name that Python cannot search.
    """
    _check_folder(str(ROOT))
    selected = select(names)
    check_profile(settings().profile, notebook_names())
    jobs = jobs or default_jobs()
    # of some notebooks it cannot be said how long the others take
    shown_jobs = 0 if names else jobs
    readers = [name for name in selected if dependencies.reads_runs(NOTEBOOKS / f"{name}.ipynb")]
    others = [name for name in selected if name not in readers]
    is_named = bool(names)
    status = _run_asking(others if again else _stale(others, is_named), jobs, shown_jobs)
    # what the others leave makes them stale
    to_run = readers if again else _stale(readers, is_named)
    return max(status, run_at_once(to_run, jobs, shown_jobs))


def _check_folder(path: str) -> None:
    """Check that the project's folder has a name that Python can search and notebooks can hold.

    Raises:
        ScheduleError: it has not.
    """
    advice = "Rename that folder, or move the project."
    if os.pathsep in path:
        raise ScheduleError(
            f"Python splits its search path at each {os.pathsep!r}, and there is one in the name "
            f"of the project's folder: {path}. {advice}"
        )
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ScheduleError(
            f"The name of the project's folder is not UTF-8, as notebooks are: {path!r}. {advice}"
        ) from None


def _run_asking(notebooks: Sequence[str], jobs: int, shown_jobs: int) -> int:
    """Run notebooks that may ask a model, those that time requests last; 0, or 1 if one failed."""
    if not notebooks:
        return 0
    raise_file_limit()
    profile = settings().profile
    if any("llm_model" in parameters(name, profile) for name in notebooks):
        install_engine()
    untimed = [name for name in notebooks if name not in TIMED]
    timed = [name for name in notebooks if name in TIMED]
    status = run_at_once(untimed, jobs, shown_jobs)
    return max(status, run_at_once(timed, 1, min(shown_jobs, 1)))


def _stale(names: Sequence[str], is_named: bool) -> list[str]:
    """Return the notebooks that are stale, and say why those are that have run before.

    Of notebooks that the user named, also say which are up to date.
    """
    stale = []
    for name in names:
        reason = freshness.why_stale(name, settings().profile)
        if not reason:
            if is_named:
                _say(f"{name} is up to date.")
            continue
        stale.append(name)
        if reason != freshness.NOT_RUN:
            _say(f"{reason}; {name} runs again.")
    return stale


def raise_file_limit() -> None:
    """Let the notebooks open the files that they need.

    Raises:
        ScheduleError: the system's limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < OPEN_FILES:
        raise ScheduleError(
            f"A run needs {OPEN_FILES} open files; the limit here is {hard}. Raise it and "
            f"try again: ulimit -n {OPEN_FILES}"
        )
    if soft != unlimited and soft < OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))


def install_engine() -> None:
    """Install the LLM engine if this run certainly asks a model: it checks replies, or asks anew.

    Else the engine is installed once a reply is missing. What needs no model runs without one.
    """
    current = settings()
    model = profile_model(current.profile)
    if current.llm_base_url or not model or current.answers not in ("check", "fresh"):
        return
    try:
        engine_install.install_chosen(model, _say)
    except PublicError as error:
        _say(str(error))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def run_at_once(notebooks: Sequence[str], jobs: int, shown_jobs: int) -> int:
    """Run notebooks, `jobs` of them at once; 0, or 1 if one of them failed."""
    if not notebooks:
        return 0
    environment = _environment(jobs)
    _own_servers(environment)
    workers = _Workers(deque(notebooks), jobs, shown_jobs, environment)
    with _ending_with_parent() as check_parent:
        try:
            while workers.advance():
                time.sleep(POLL)
                check_parent()
        except KeyboardInterrupt:
            # a terminal interrupts all of them
            _end(workers.running, wait=OWN_INTERRUPT)
            raise
        except BaseException:
            _end(workers.running, wait=0.0)
            raise
    return int(workers.failed)


@dataclass
class _Workers:
    """The processes that run notebooks."""

    pending: deque[str]
    jobs: int
    shown_jobs: int
    environment: Mapping[str, str]
    notebook_of: dict[subprocess.Popen[bytes], str] = field(default_factory=dict)
    failed: bool = False

    @property
    def running(self) -> list[subprocess.Popen[bytes]]:
        """The processes under way."""
        return list(self.notebook_of)

    def advance(self) -> bool:
        """Take note of what has ended, and start what may start; returns whether anything runs."""
        for process in self.running:
            if process.poll() is not None:
                notebook = self.notebook_of.pop(process)
                self.failed = self.failed or process.returncode != 0
                if process.returncode < 0:
                    _say(_describe_kill(notebook, -process.returncode))
        while self.pending and len(self.running) < self.jobs:
            notebook = self.pending.popleft()
            process = _start(notebook, self.shown_jobs, self.environment)
            self.notebook_of[process] = notebook
        return bool(self.running)


def _describe_kill(notebook: str, number: int) -> str:
    """What to say of a notebook whose process a signal has ended: it could say nothing itself."""
    name = signal.strsignal(number) or f"signal {number}"
    cause = ", as a system does that is short of memory" if number == signal.SIGKILL else ""
    return (
        f"{notebook}: its process was killed from outside ({name}{cause}). Run it again: replies "
        "that came are stored. With JOBS=1 less memory is needed."
    )


def _start(
    notebook: str, shown_jobs: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "publish.run", notebook, "--jobs", str(shown_jobs)]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def _environment(jobs: int) -> dict[str, str]:
    """Return the environment of a notebook that runs beside others."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(ROOT / "src")
    environment["PYTHONUTF8"] = "1"
    # a kernel of the project's environment, not one that the user has elsewhere
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    # images for containers often forbid Python to keep what it compiled, which each process needs
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # twice the cores in all: one notebook often waits for another, or computes on one core
    cores = threads()
    share = max(1, min(cores, 2 * cores // jobs))
    environment.setdefault("OMP_NUM_THREADS", str(share))
    return environment


def _own_servers(environment: dict[str, str]) -> None:
    """See that what the notebooks start ends with this process, even if that is killed."""
    if environment.get(run_guard.VARIABLE):
        return
    own = str(os.getpid())
    environment[run_guard.VARIABLE] = own
    command = [sys.executable, "-m", "resources.run_guard", own, own]
    subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Terminated(SystemExit):
    """This process was asked to end, or what started it has ended; it does so without a word."""


@contextmanager
def _ending_with_parent() -> Iterator[Callable[[], None]]:
    """Raise Terminated on SIGTERM or SIGHUP.

    Yields:
        A function that raises Terminated once the parent has ended.
    """
    parent = os.getppid()
    signals = (signal.SIGTERM, signal.SIGHUP)

    def terminate(number: int, frame: FrameType | None) -> None:
        # make passes on a signal that its whole group has got: once is enough
        for ignored in signals:
            signal.signal(ignored, signal.SIG_IGN)
        raise Terminated(STATUS_TERMINATED)

    def check_parent() -> None:
        if os.getppid() != parent:
            raise Terminated(STATUS_TERMINATED)

    before = [signal.signal(number, terminate) for number in signals]
    try:
        yield check_parent
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _end(processes: Sequence[subprocess.Popen[bytes]], wait: float) -> None:
    """Interrupt what still runs after `wait` seconds, and kill it if that does not help."""
    if not _all_ended(processes, wait):
        for process in processes:
            process.send_signal(signal.SIGINT)
    if not _all_ended(processes, PATIENCE):
        for process in processes:
            process.kill()


def _all_ended(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True
