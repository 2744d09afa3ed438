"""Breaks a small project on purpose, one trial at a time, and looks whether anything is lost, left behind or wrong.

    make test-faults                            every trial, into data/results/faults.json
    make test-faults SEED=7                     other moments, other bytes
    make test-faults TRIAL="kill -9: kernel 3"  one trial, or all whose names begin so

The report is of all trials: of a whole run, or of parts that together tried each.

A trial survives if the disturbed command ends well, or says in clear lines what happened and what to do; and if the
same command, given again, then gives what an undisturbed run gives. No process may be left behind.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil
import yaml
from conftest import REPOSITORY
from test_datasets import CONTENT, Handler, Server

PROJECT = Path(__file__).parent / "project"
MODEL = "models/smollm2-135m-instruct-q4_1.gguf"
LIMIT = 240.0
"""Seconds that a command may take; what takes longer hangs."""
ENDS = 10.0
"""Seconds after the end of a command in which all that it started must have ended."""
OURS = (
    "NEO4J_",
    "LLM_",
    "DATA_MIRROR",
    "PROFILE",
    "ANSWERS",
    "MAKE",
    "MFLAGS",
    "MEDRAG_ROOT",
    "JOBS",
    "PORT",
    "SEED",
    "SERVERS_OWNER",
)
CLEAR = re.compile(
    r"again|did you mean|nearest|no notebook|not valid|free |set |unset|delete|restore|correct|use |run |start |make |"
    r"check |choose|save |name |need|must|should|allowed|is no |unknown|missing|killed|give |write |report|mend|raise |"
    r"take|shorten|close ",
    re.I,
)
"""What a message that says what to do, or what was wrong, does not do without."""


class Failed(Exception):
    """The trial was not survived; the message says how."""


class Skipped(Exception):
    """The trial needs a privilege that is missing; the message names it."""


@dataclass(frozen=True)
class Job:
    """A command on the small project, and what it makes.

    Attributes:
        command: as a user gives it.
        result: what must be the same with and without a fault.
        variables: of its environment.
        before: the job that must have been done before.
    """

    name: str
    command: tuple[str, ...]
    result: Callable[[World, Done], object]
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    before: Job | None = None


@dataclass(frozen=True)
class Done:
    """A command that has ended; `out` is its standard output, `text` both outputs."""

    code: int
    out: str
    text: str

    def clear(self) -> Done:
        """The same, if it tells no traceback and, where it failed, what to do."""
        if "Traceback (most recent call last)" in self.text:
            raise Failed(f"a raw traceback: {self.tail}")
        if self.code and not CLEAR.search(self.text):
            raise Failed(f"ended with {self.code} and said nothing that helps: {self.tail}")
        return self

    @property
    def tail(self) -> str:
        """The last lines."""
        return " | ".join(line.strip() for line in self.text.splitlines()[-6:] if line.strip())[
            -900:
        ]


class _Answering(Handler):
    """Serves files as those tests' server does, and a model that says YES or NO by the prompt's digits."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's own name
        if self.path != "/v1/models":
            return super().do_GET()
        self._send({"data": [{"id": "m"}]})

    def do_POST(self) -> None:  # noqa: N802
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1][
            "content"
        ]
        self.server.requests.append(("asked", prompt))
        time.sleep(0.05)
        misbehave = getattr(self.server, "misbehave", None)
        if misbehave is None:
            self._send(completion(prompt))
        else:
            with suppress(OSError):
                misbehave(self, prompt)

    def _send(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        for name, value in (
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        ):
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)


def completion(prompt: str) -> dict[str, Any]:
    """What the server of a world answers to a prompt."""
    text = "YES" if sum(map(int, re.findall(r"\d", prompt))) % 3 else "NO"
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


class World:
    """A copy of the small project with a server of its own, and all processes that work in it."""

    def __init__(self, root: Path, like: Path | None) -> None:
        """Make it, as it is new or as another one is."""
        self.root, self.prefix = root, ()
        if like is None:
            self._make()
        else:
            shutil.copytree(like, root, symlinks=True)
        self.server = Server()
        self.server.RequestHandlerClass = _Answering
        self.server.files = {"/one.bin": CONTENT, "/two.bin": CONTENT[::-1]}
        self.server.drip = 0.002
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        registry = yaml.safe_load(
            (PROJECT / "registry.yml").read_text().replace("SERVER", self.server.url)
        )
        registry["files"][MODEL] = yaml.safe_load(
            (REPOSITORY / "data" / "registry.yml").read_text()
        )["files"][MODEL]
        (root / "data" / "registry.yml").write_text(yaml.safe_dump(registry))

    prefix: tuple[str, ...]

    def _make(self) -> None:
        shutil.copytree(PROJECT, self.root)
        shutil.copytree(
            REPOSITORY / "src",
            self.root / "src",
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
        for name in ("Makefile", "pyproject.toml", "requirements.lock", "_config.yml"):
            shutil.copy2(REPOSITORY / name, self.root / name)
        shutil.copytree(REPOSITORY / "locks", self.root / "locks")
        for path in (REPOSITORY / "data").glob("*.yml"):  # what a paper's module reads
            shutil.copy2(path, self.root / "data" / path.name)
        os.utime(self.root / "requirements.lock", (0, 0))
        (self.root / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)
        (self.root / ".venv-llm").symlink_to(REPOSITORY / ".venv-llm", target_is_directory=True)
        for models in ("data/derived/models", "data/raw/models"):
            (REPOSITORY / models).mkdir(parents=True, exist_ok=True)
            (self.root / models).parent.mkdir(parents=True)
            (self.root / models).symlink_to(REPOSITORY / models, target_is_directory=True)

    def start(self, job: Job, **variables: str | None) -> Running:
        """Begin a command, as the leader of a session; a variable that is None is not set."""
        foreign = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        environment = foreign | {
            "MEDRAG_ROOT": str(self.root),
            "PYTHONPATH": str(self.root / "src"),
        }
        environment |= {
            "PROFILE": "smoke",
            "ANSWERS": "stored",
            "LLM_BASE_URL": f"{self.server.url}/v1",
        }
        environment |= {"LLM_CONCURRENCY": "4", "COLUMNS": "200", **job.variables}
        for name, value in variables.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        out, err = _written_text(), _written_text()  # `wait` closes them
        process = psutil.Popen(
            [*self.prefix, *job.command], cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=out,
            stderr=err, start_new_session=True,
        )  # fmt: skip
        return Running(process, out, err)

    def run(self, job: Job, **variables: str | None) -> Done:
        """Carry out a command."""
        return self.start(job, **variables).wait()

    def processes(self, word: str = "") -> list[psutil.Process]:
        """The processes that work in this world, those whose command line has a word."""
        matching = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("MEDRAG_ROOT") == str(self.root) and word in " ".join(
                    process.cmdline()
                ):
                    matching.append(process)
        return [process for process in matching if _runs(process)]

    def path(self, pattern: str, rng: random.Random) -> Path:
        """One of the files of a pattern."""
        paths = [p for p in sorted(self.root.glob(pattern)) if p.is_file() and not p.is_symlink()]
        if not paths:
            raise Failed(f"the undisturbed run has left no {pattern}")
        return rng.choice(paths)

    def kill(self) -> None:
        """End all processes of this world at once, as when the machine loses its power."""
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, timeout=5)

    def wait_until_empty(self) -> None:
        """Wait for the end of what was started; nobody has to stop it.

        Raises:
            Failed: something still runs after `ENDS`.
        """
        deadline = time.monotonic() + ENDS
        while (processes := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.2)
        if processes:
            lines = [" ".join(process.cmdline())[-100:] for process in processes if _runs(process)]
            raise Failed(f"still runs after {ENDS:.0f} s: {'; '.join(lines)}")

    def close(self) -> None:
        """Stop the servers, and see that nothing is left."""
        stop = Job("stop", (sys.executable, "-m", "resources.services", "stop"), lambda *_: None)
        try:
            if (self.root / "_build" / "services").exists():
                self.run(stop).clear()
            deadline = time.monotonic() + 60
            while (processes := self.processes()) and time.monotonic() < deadline:
                time.sleep(0.2)
            if processes:
                raise Failed(
                    "left behind: "
                    + "; ".join(" ".join(p.cmdline())[-100:] for p in processes if _runs(p))
                )
        finally:
            self.kill()
            self.server.shutdown()
            self.server.server_close()


@dataclass
class Running:
    """A command under way."""

    process: psutil.Popen
    out: IO[str]
    err: IO[str]

    def wait(self) -> Done:
        """What became of it.

        Raises:
            Failed: it takes longer than `LIMIT`.
        """
        try:
            code = self.process.wait(timeout=LIMIT)
        except psutil.TimeoutExpired:
            raise Failed(f"still runs after {LIMIT:.0f} s") from None
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        return Done(code, texts[0], "\n".join(texts))


def _written_text() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Undisturbed:
    """What each job gives without a fault: its result, its seconds, the bytes that it writes, the project after it."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder."""
        self.folder, self.lock = folder, threading.RLock()
        self.known: dict[str, tuple[object, float]] = {}
        self.failures: dict[str, str] = {}

    def fresh(self) -> Path:
        """The project before any job, its code compiled."""
        with self.lock:
            if not (root := self.folder / "fresh").exists():
                world = World(root, None)
                world.run(
                    Job(
                        "compile",
                        (sys.executable, "-m", "compileall", "-q", "src"),
                        lambda *_: None,
                    )
                )
                world.close()
            return root

    def after(self, job: Job) -> tuple[Path, object, float]:
        """The project after a job, the job's result and its seconds."""
        with self.lock:
            root = self.folder / job.name
            if job.name in self.failures:
                raise Failed(self.failures[job.name])
            if job.name not in self.known:
                world = World(root, self.after(job.before)[0] if job.before else self.fresh())
                began = time.monotonic()
                output = world.run(job)
                seconds = time.monotonic() - began
                if output.code:
                    world.close()
                    self.failures[job.name] = f"{job.name} fails undisturbed: {output.tail}"
                    raise Failed(self.failures[job.name])
                self.known[job.name] = job.result(world, output), seconds
                world.close()
            return root, *self.known[job.name]


class Bench:
    """What one trial works with. Everything it makes is gone when it ends."""

    def __init__(self, rng: random.Random, folder: Path, undisturbed: Undisturbed) -> None:
        """Work in a folder; `rng` decides on moments and bytes."""
        self.rng, self.folder, self.undisturbed = rng, folder, undisturbed
        self.ends = ExitStack()

    def world(self, after: Job | None = None, folder: Path | None = None) -> World:
        """A project that is new, or as a job has left it."""
        like = self.undisturbed.after(after)[0] if after else self.undisturbed.fresh()
        world = World((folder or self.folder) / "project", like)
        self.ends.callback(world.close)
        return world

    def seconds(self, job: Job) -> float:
        """What a job takes undisturbed."""
        return self.undisturbed.after(job)[2]

    def judge(self, world: World, job: Job, disturbed: Done | None = None) -> None:
        """Hold the disturbed command, and the same command given again, against an undisturbed run."""
        expected = self.undisturbed.after(job)[1]
        if disturbed is not None and disturbed.clear().code == 0:
            self._compare(job, job.result(world, disturbed), expected, "the disturbed command")
        again = world.run(job).clear()
        if again.code:
            raise Failed(f"the same command fails again: {again.tail}")
        self._compare(job, job.result(world, again), expected, "the same command")

    @staticmethod
    def _compare(job: Job, result: object, expected: object, who: str) -> None:
        if result != expected:
            a, b = str(result), str(expected)
            position = next(
                (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(b)
            )
            position = max(0, position - 60)
            raise Failed(
                f"{who} ({job.name}) gives ...{a[position : position + 300]} in place of ...{b[position : position + 300]}"
            )


@dataclass(frozen=True)
class Trial:
    """One fault, by its class and name; `heavy` ones run one at a time, `fast` ones in `make test` too."""

    kind: str
    name: str
    act: Callable[[Bench], None]
    fast: bool = False
    heavy: bool = False

    @property
    def id(self) -> str:
        """What names it on the command line."""
        return f"{self.kind}: {self.name}"


def attempt(trial: Trial, seed: int, undisturbed: Undisturbed) -> tuple[str, str]:
    """Carry out a trial: survived, failed or skipped, and why."""
    rng = random.Random(f"{seed} {trial.id}")
    try:
        with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as folder:
            bench = Bench(rng, Path(folder), undisturbed)
            with bench.ends:
                trial.act(bench)
    except Skipped as why:
        return "skipped", str(why)
    except Failed as why:
        return "failed", str(why)
    except Exception as error:  # of what the results are read by
        return "failed", f"its results cannot be read: {error!r}"[:600]
    return "survived", ""


# ----------------------------------------------------------------------------------------------------------- a disk


class Disk:
    """A disk in memory that can be full or read-only."""

    def __init__(self, bench: Bench) -> None:
        """Mount it.

        Raises:
            Skipped: this user may not.
        """
        self.folder = bench.folder / "disk"
        self.folder.mkdir()
        process = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(self.folder)],
            capture_output=True,
            check=False,
        )
        if process.returncode:
            raise Skipped("mounting a tmpfs needs CAP_SYS_ADMIN")
        bench.ends.callback(subprocess.run, ["umount", "-l", str(self.folder)], check=False)

    def remount(self, option: str) -> None:
        """Change what it allows: `ro`, `rw,size=...`."""
        subprocess.run(
            ["mount", "-o", f"remount,{option}", str(self.folder)], check=True, capture_output=True
        )

    def leave(self, room: int) -> None:
        """Let so many bytes be written, and no more."""
        status = os.statvfs(self.folder)
        self.remount(f"rw,size={(status.f_blocks - status.f_bfree) * status.f_frsize + room}")


# ----------------------------------------------------------------------------------------------------------- a run


NOTES = REPOSITORY / "_build" / "faults"
"""Where the outcomes of each seed are noted, so that a run may be made in parts."""


def main(trials: list[Trial], report: Path) -> int:
    """Carry out the trials that TRIAL names, or all of them; returns the exit status.

    The report is written once each trial has an outcome, of this run or of earlier parts.
    """
    seed, only = int(os.environ.get("SEED") or 1), os.environ.get("TRIAL", "")
    selected = [trial for trial in trials if trial.id.startswith(only)]
    if not selected:
        names = "\n".join(trial.id for trial in trials)
        sys.stderr.write(f"No trial begins with {only!r}. They are:\n{names}\n")
        return 2
    notes = NOTES / f"seed-{seed}.json"
    all_outcomes = json.loads(notes.read_text()) if only and notes.exists() else {}
    outcomes = _attempt_all(selected, seed)
    failed = sorted(id for id, outcome in outcomes.items() if outcome["outcome"] == "failed")
    sys.stdout.write(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} without failure, SEED={seed}\n"
    )
    for id in failed:
        sys.stdout.write(f'  make test-faults SEED={seed} TRIAL="{id}"\n')
    all_outcomes |= outcomes
    NOTES.mkdir(parents=True, exist_ok=True)
    notes.write_text(json.dumps(all_outcomes, indent=1) + "\n")
    if all(trial.id in all_outcomes for trial in trials):
        _write(report, trials, all_outcomes, seed)
    return 1 if failed else 0


def _attempt_all(trials: list[Trial], seed: int) -> dict[str, dict[str, Any]]:
    """Carry out trials, two at once but for the heavy ones; returns their outcomes."""
    outcomes: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()
    light = [trial for trial in trials if not trial.heavy]
    heavy = [trial for trial in trials if trial.heavy]

    def next_trial(takes_heavy: bool) -> Trial | None:
        with lock:
            queue = heavy if takes_heavy and heavy else light
            return queue.pop(0) if queue else None

    def work(takes_heavy: bool) -> None:
        while trial := next_trial(takes_heavy):
            start = time.monotonic()
            outcome, why = attempt(trial, seed, undisturbed)
            seconds = time.monotonic() - start
            outcomes[trial.id] = {"outcome": outcome, "why": why, "seconds": round(seconds, 1)}
            place = f"[{len(outcomes)}/{len(trials)}]"
            reason = f"\n    {why}" if why else ""
            sys.stdout.write(f"{place} {outcome:8} {seconds:4.0f} s  {trial.id}{reason}\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        undisturbed = Undisturbed(Path(folder))
        workers = [threading.Thread(target=work, args=(heavy,)) for heavy in (False, True)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return outcomes


def _write(
    report: Path, trials: list[Trial], outcomes: Mapping[str, Mapping[str, Any]], seed: int
) -> None:
    from evaluation.provenance import machine

    this_machine = machine()
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        of_kind = counts.setdefault(
            trial.kind, {"tried": 0, "survived": 0, "failed": 0, "skipped": 0}
        )
        of_kind["tried"] += 1
        of_kind[outcomes[trial.id]["outcome"]] += 1
    seconds = sum(outcomes[trial.id]["seconds"] for trial in trials)
    reasons = {trial.id: outcomes[trial.id] for trial in trials}
    content = {
        "seed": seed,
        "minutes": round(seconds / 2 / 60, 1),  # two at once
        "versions": {key: this_machine[key] for key in ("python", "platform", "commit", "dirty")},
        "classes": counts,
        "failed": {
            id: outcome["why"][:300]
            for id, outcome in reasons.items()
            if outcome["outcome"] == "failed"
        },
        "skipped": sorted(
            {outcome["why"] for outcome in reasons.values() if outcome["outcome"] == "skipped"}
        ),
    }
    report.write_text(json.dumps(content, indent=1) + "\n")
