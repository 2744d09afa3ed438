"""The table of edits during a run, of signals, and of two profiles in one tree."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from conftest import REPOSITORY
from harness import Bench, Done, Failed, Job, Trial, World
from trials import BOARD, FETCH, GRAPH, INDEX, NOTEBOOK, SERVER, _reported

Act = Callable[[Bench], None]
EDITS: dict[str, tuple[str, str, str]] = {
    "module": ("src/papers/demo/wording.py", 'WORDS = ""', 'WORDS = " Now 1"'),
    "notebook": ("notebooks/01_demo_small.ipynb", "Now 1", "Now 2"),
    "profile": ("notebooks/profiles/smoke.yml", "24", "25"),
    "rule": ("data/published/demo.yml", "better: row, than: other", "better: other, than: row"),
}
"""What is edited: file, text, new text. Each changes the record."""


# ------------------------------------------------------------------------------------------------- edits


def edited_during(path: str, before: str, after: str) -> Act:
    """Edit what a run is made from while it runs: the next run must be of the edit."""

    def act(bench: Bench) -> None:
        world = bench.world()
        expected_world = bench.world(None, bench.folder / "expected")
        edited = (world.root / path).read_text().replace(before, after)
        (expected_world.root / path).write_text(edited)
        expected = _reported(expected_world, expected_world.run(NOTEBOOK))
        if expected == bench.undisturbed.after(NOTEBOOK)[1]:
            raise Failed("harness: the edit changes nothing")
        run = world.start(NOTEBOOK)
        time.sleep(bench.rng.uniform(0.1, 0.95) * bench.seconds(NOTEBOOK))
        (world.root / path).write_text(edited)
        run.wait().clear()
        report = _reported(world, world.run(NOTEBOOK).clear())
        if report != expected:
            raise Failed(f"the edit of {path} during the run was not seen by the next one")

    return act


def removed_during(pattern: str) -> Act:
    """Remove what a run writes or reads while it runs."""

    def act(bench: Bench) -> None:
        world = bench.world()
        run = world.start(NOTEBOOK)
        time.sleep(bench.rng.uniform(0.3, 0.9) * bench.seconds(NOTEBOOK))
        for path in world.root.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        run.wait().clear()  # what it made may be gone, though it ended well
        bench.judge(world, NOTEBOOK)

    return act


# ------------------------------------------------------------------------------------------------ signals


def signalled(job: Job, numbers: Sequence[int], *, alone: bool = False) -> Act:
    """Send signals to a command and all in its group, as a terminal does, or to it alone."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        run = world.start(job)
        time.sleep(bench.rng.uniform(0, 1.0) * bench.seconds(job))
        for number in numbers:
            try:
                if alone:
                    run.process.send_signal(number)
                else:
                    os.killpg(run.process.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.3)
        output = run.wait()
        if "Traceback" in output.text:
            raise Failed(f"a raw traceback: {output.tail}")
        world.wait_until_empty()
        bench.judge(world, job)
        world.wait_until_empty()

    return act


def stopped_for_a_while(job: Job, word: str, seconds: float) -> Act:
    """Stop a process for some seconds, as a machine that sleeps or swaps does."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        run = world.start(job)
        while not (targets := world.processes(word)) and run.process.poll() is None:
            time.sleep(0.05)
        for process in targets:
            process.suspend()
        time.sleep(seconds)
        for process in targets:
            process.resume()
        bench.judge(world, job, run.wait())

    return act


# ------------------------------------------------------------------------------------------- two profiles


def both_profiles(first: str, second: str) -> Act:
    """Run a notebook in two profiles in one tree: each gives what it gives alone."""

    def act(bench: Bench) -> None:
        world = bench.world()
        for profile in (first, second, first):
            alone = bench.world(None, bench.folder / f"alone-{profile}-{time.monotonic_ns()}")
            expected = _board(alone, alone.run(NOTEBOOK, PROFILE=profile), profile)
            board = _board(world, world.run(NOTEBOOK, PROFILE=profile), profile)
            if board != expected:
                raise Failed(f"{profile} gives {board[:300]} in place of {expected[:300]}")

    return act


def _board(world: World, output: Done, profile: str) -> str:
    if output.clear().code:
        raise Failed(f"{profile} failed: {output.tail}")
    return world.run(BOARD, PROFILE=profile).clear().out


def both_graphs(first: str, second: str) -> Act:
    """Load a graph of one size after that of another size, in one tree."""

    def act(bench: Bench) -> None:
        world = bench.world()
        for size in (first, second, first):
            alone = bench.world(None, bench.folder / f"alone-{size}-{time.monotonic_ns()}")
            expected = alone.run(GRAPH, DRUGS=size).clear()
            output = world.run(GRAPH, DRUGS=size).clear()
            if (output.code, output.out) != (0, expected.out):
                raise Failed(f"{size} drugs: {output.tail} in place of {expected.tail}")

    return act


CHAPTER = "06_interactions_qa"


def chapter_in_both_profiles(first: str, second: str) -> Act:
    """Run the chapter with the largest graph in two profiles in a copy of the project."""

    def act(bench: Bench) -> None:
        root = bench.folder / "book"
        _copy_project(root)
        for profile in (first, second):
            output = _run_chapter(root, profile)
            record = root / f"_build/records/{profile}/{CHAPTER}.json"
            if output.clear().code or not record.exists():
                raise Failed(f"{profile} after {first}: {output.tail}")

    return act


def _copy_project(root: Path) -> None:
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(listed, capture_output=True, check=True).stdout.decode().split("\0")
    for name in names:
        source = REPOSITORY / name
        if name and source.is_file() and not source.is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name)
    (root / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)
    os.utime(root / "requirements.lock", (0, 0))
    raw = REPOSITORY / "data" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    (root / "data" / "raw").symlink_to(raw, target_is_directory=True)


def _run_chapter(root: Path, profile: str) -> Done:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "LLM_"))
    }
    environment |= {"PROFILE": profile, "ANSWERS": "stored-only", "MEDRAG_ROOT": str(root)}
    process = subprocess.run(
        ["make", "--no-print-directory", "notebook", f"NB={CHAPTER}"],
        cwd=root,
        env=environment | {"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    return Done(process.returncode, process.stdout, process.stdout + process.stderr)


# ------------------------------------------------------------------------------------------------ at once


def at_once(first: Job, second: Job) -> Act:
    """Give two different commands at once; each may refuse in clear lines, and what is left is whole."""

    def act(bench: Bench) -> None:
        world = bench.world(first.before)
        runs = [world.start(first), world.start(second)]
        for run in runs:
            run.wait().clear()
        world.wait_until_empty()
        bench.judge(world, first)

    return act


def _make(*arguments: str) -> Job:
    return Job("make", ("make", "--no-print-directory", *arguments), lambda *_: None)


# -------------------------------------------------------------------------------------------------- table


def _rows() -> Iterator[Trial]:
    for name, edit in EDITS.items():
        for number in (1, 2):
            yield Trial("edit during a run", f"{name} {number}", edited_during(*edit))
    for name, pattern in (
        ("records", "_build/records"),
        ("parameters", "_build/params"),
        ("replies", "data/derived/requests"),
        ("all that was built", "_build"),
    ):
        yield Trial("edit during a run", f"{name} removed", removed_during(pattern))
    for job in (NOTEBOOK, FETCH, INDEX):
        for name, numbers in (
            ("Ctrl-C", [signal.SIGINT]),
            ("Ctrl-C twice", [signal.SIGINT, signal.SIGINT]),
            ("a closed terminal", [signal.SIGHUP]),
            ("SIGTERM", [signal.SIGTERM]),
        ):
            yield Trial("signal", f"{job.name}, {name}", signalled(job, numbers))
    for name, numbers in (
        ("SIGTERM to make alone", [signal.SIGTERM]),
        ("SIGHUP to make alone", [signal.SIGHUP]),
        ("SIGQUIT to make alone", [signal.SIGQUIT]),
        ("Ctrl-C to make alone", [signal.SIGINT]),
    ):
        yield Trial("signal", name, signalled(NOTEBOOK, numbers, alone=True))
    for job, word in ((NOTEBOOK, "ipykernel_launcher"), (NOTEBOOK, "publish.run")):
        yield Trial("signal", f"{word} stopped for 6 s", stopped_for_a_while(job, word, 6))
    for job, word in ((GRAPH, "java.args"), (SERVER, "resources.supervisor")):
        yield Trial("signal", f"{word} stopped for 8 s", stopped_for_a_while(job, word, 8))
    for first, second in (("laptop", "smoke"), ("smoke", "laptop")):
        yield Trial("two profiles", f"{first}, {second}", both_profiles(first, second))
        act = chapter_in_both_profiles(first, second)
        yield Trial("two profiles", f"chapter 06, {first}, {second}", act, heavy=True)
    for first, second in (("400", "100"), ("100", "400")):
        yield Trial("two profiles", f"graph, {first}, {second} drugs", both_graphs(first, second))
    yield Trial("at once", "two profiles", at_once(NOTEBOOK, _make("notebook", "PROFILE=laptop")))
    yield Trial("at once", "make and clean", at_once(NOTEBOOK, _make("clean")))
    yield Trial("at once", "make and stop", at_once(NOTEBOOK, _make("stop")))
    yield Trial("at once", "make and doctor", at_once(NOTEBOOK, _make("doctor")))


EDITS_AND_SIGNALS = list(_rows())
