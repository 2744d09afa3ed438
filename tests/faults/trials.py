"""The table of faults: what is killed, filled, damaged, turned back and done twice, and on which command."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from conftest import as_a_user
from harness import Bench, Disk, Done, Failed, Job, Trial, World, _runs

from evaluation import answers
from helpers import requests

# --------------------------------------------------------------------------------------------------------- commands


def _printed(_: World, output: Done) -> object:
    return output.out.splitlines()[-1:]


def _reported(world: World, _: Done) -> tuple[object, ...]:
    """All that a run of the notebook leaves: record, rows, what the notebook shows, stored replies."""
    build, name = world.root / "_build", "01_demo_small"
    record = json.loads((build / f"records/smoke/{name}.json").read_text())
    notebook = json.loads((build / f"executed/smoke/{name}.ipynb").read_text())
    rows = answers.read(build / "answers" / "smoke" / name)
    store = requests.Store(world.root / "data" / "derived" / "requests")
    keys = json.loads((build / f"records/smoke/requests/{name}.json").read_text())["requests"]
    replies = {key: row.reply for key, row in store.get(keys).items()}
    store.close()
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return (
        [record[part] for part in ("values", "claims", "reasons", "sample")],
        record["provenance"]["parameters"],
        hashlib.sha256(rows.drop(columns="requests").to_json().encode()).hexdigest(),
        [
            str(o.get("text") or o.get("data")) for o in outputs if o.get("name") != "stderr"
        ],  # progress
        hashlib.sha256(json.dumps(replies, sort_keys=True).encode()).hexdigest(),
    )


def _fetched(world: World, _: Done) -> object:
    raw = world.root / "data" / "raw" / "set"
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in raw.iterdir()
        if ".bad-" not in p.name
    }


def _script(name: str) -> tuple[str, ...]:
    return (sys.executable, f"jobs/{name}.py")


NOTEBOOK = Job(
    "notebook", ("make", "--no-print-directory", "notebook", "NB=01_demo_small"), _reported
)
# where nothing can be written, what the model said cannot be stored; the run says so and goes on
UNSTORED = Job(
    "notebook whose replies need not be stored", NOTEBOOK.command, lambda *run: _reported(*run)[:-1]
)
BOARD = Job(
    "scoreboard",
    (sys.executable, "-m", "medrerun", "scoreboard"),
    lambda _, output: output.out,
    before=NOTEBOOK,
)
ASK = Job(
    "ask",
    _script("ask"),
    _printed,
)
EXPORT = Job(
    "export",
    _script("export"),
    _printed,
)
BATCH = Job("batch", (*_script("batch"), "whole"), _printed, {"ANSWERS": "collect"})
IMPORT = Job("import of a batch", _script("batch"), _printed, {"ANSWERS": "collect"})
FETCH = Job(
    "fetch",
    (sys.executable, "-m", "resources.datasets", "--fetch", "set/one.bin", "set/two.bin"),
    _fetched,
)
INDEX = Job(
    "index",
    _script("index"),
    _printed,
)
ADAPTER = Job(
    "adapter",
    _script("adapter"),
    _printed,
)
SERVER = Job(
    "server",
    _script("server"),
    _printed,
)
GRAPH = Job(
    "graph",
    _script("graph"),
    _printed,
    {"NEO4J_URI": ""},
)
LLM = Job(
    "llm",
    _script("llm"),
    _printed,
    {"LLM_BASE_URL": "", "LLM_CONCURRENCY": "1"},
)


# ----------------------------------------------------------------------------------------------------------- killed


def kill(job: Job, victim: str = "") -> Callable[[Bench], None]:
    """Kill the process whose command line has this word, or the command itself, or `everything`."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        seconds = bench.seconds(job)
        run = world.start(job)
        target: psutil.Process = run.process
        if victim in ("", "everything"):
            time.sleep(bench.rng.uniform(0, 1.1 * seconds))
        else:
            while not (processes := world.processes(victim)) and _runs(run.process):
                time.sleep(0.02)
            target = processes[0] if processes else target
            time.sleep(bench.rng.uniform(0, 0.4 * seconds))
        if victim == "everything":
            world.kill()
        elif target.is_running():
            target.kill()
        output = run.wait()
        world.wait_until_empty()
        bench.judge(
            world, job, output if target is not run.process and victim != "everything" else None
        )
        world.wait_until_empty()
        if job is ASK:
            n_requests = sum(path == "asked" for path, _ in world.server.requests)
            if n_requests > 60 + 4:
                raise Failed(
                    f"{n_requests} requests for 60 replies, four at a time: some that had come were lost"
                )

    return act


# ------------------------------------------------------------------------------------------------------------ disks


def full(job: Job, max_bytes: int) -> Callable[[Bench], None]:
    """Leave a disk room for so many bytes at most."""

    def act(bench: Bench) -> None:
        disk = Disk(bench)
        world = bench.world(job.before, disk.folder)
        disk.leave(bench.rng.randrange(max_bytes))
        output = world.run(job)
        disk.remount("rw,size=1g")
        bench.judge(world, job, output)

    return act


def limited(job: Job, max_bytes: int) -> Callable[[Bench], None]:
    """Let no file have more than so many bytes at most, which needs no privilege."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        world.prefix = ("prlimit", f"--fsize={bench.rng.randrange(max_bytes)}")
        output = world.run(job)
        world.prefix = ()
        bench.judge(world, job, output)

    return act


def read_only(job: Job) -> Callable[[Bench], None]:
    """Let nothing of the disk be written."""

    def act(bench: Bench) -> None:
        disk = Disk(bench)
        world = bench.world(job.before, disk.folder)
        disk.remount("ro")
        output = world.run(job)
        disk.remount("rw")
        bench.judge(world, job, output)

    return act


def not_ours(job: Job, folder: str) -> Callable[[Bench], None]:
    """Let one folder, and what it holds, not be written by this user."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        top = world.root / folder
        top.mkdir(parents=True, exist_ok=True)
        inside = [top, *(path for path in top.rglob("*") if not path.is_symlink())]
        modes = {path: path.stat().st_mode for path in inside}
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        world.prefix = tuple(as_a_user())
        output = world.run(job)
        for path, mode in modes.items():
            if path.exists():
                path.chmod(mode)
        world.prefix = ()
        bench.judge(world, job, output)

    return act


# --------------------------------------------------------------------------------------------------------- damaged


def damage(path: Path, rng: random.Random) -> None:
    """Flip bits, cut off the end, or leave other bytes."""
    content = bytearray(path.read_bytes())
    how = rng.choice(("flip", "flip", "flip", "cut", "other"))
    if how == "flip" and content:
        for _ in range(3):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == "cut" and content:
        del content[rng.randrange(len(content)) :]
    else:
        content = bytearray(rng.randbytes(len(content) or 40))
    path.write_bytes(content)


def flip(job: Job, pattern: str, *, running: bool = False) -> Callable[[Bench], None]:
    """Damage a file that an undisturbed run has left, or that a running server has; then give the command again."""

    def act(bench: Bench) -> None:
        world = bench.world(job)
        if running:
            world.run(job, KEEP="yes")
        damage(world.path(pattern, bench.rng), bench.rng)
        bench.judge(world, job, world.run(job))

    return act


def misread(pattern: str) -> Callable[[Bench], None]:
    """Damage what a run has left; what only shows it must not show another number, and say so."""

    def act(bench: Bench) -> None:
        world = bench.world(BOARD)
        path = world.path(pattern, bench.rng)
        damage(path, bench.rng)
        output = world.run(BOARD).clear()
        if output.out != bench.undisturbed.after(BOARD)[1] and path.name not in output.text:
            raise Failed(f"another board, and no word on {path.name}: {output.out[:600]}")
        bench.judge(world, NOTEBOOK, world.run(NOTEBOOK))
        bench.judge(world, BOARD)

    return act


def half_fetched(bench: Bench) -> None:
    """Damage what an interrupted fetch has left."""
    world = bench.world()
    run = world.start(FETCH)
    while not list(world.root.glob("data/raw/set/*.part")) and _runs(run.process):
        time.sleep(0.02)
    time.sleep(0.3)
    world.kill()
    run.wait()
    damage(world.path("data/raw/set/*.part*", bench.rng), bench.rng)
    bench.judge(world, FETCH, world.run(FETCH))


def half_noted(bench: Bench) -> None:
    """Damage the requests that wait for a batch: their replies go to no other request, and collecting anew mends it."""
    world = bench.world(BATCH)
    damage(world.path("_build/batch/pending.jsonl", bench.rng), bench.rng)
    for path in world.root.glob("data/derived/requests/*"):
        path.unlink()
    world.run(IMPORT).clear()
    bench.judge(world, BATCH)


# ----------------------------------------------------------------------------------------------------------- clocks


def _shift(root: Path, seconds: float) -> None:
    for path in root.rglob("*"):
        if (
            path.is_file()
            and not path.is_symlink()
            and "derived/models" not in str(path)
            and "raw/models" not in str(path)
        ):
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + int(seconds * 1e9)))


def step(job: Job, hours: float) -> Callable[[Bench], None]:
    """Set the clock while a command runs: what is there is now older, or of the future."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        run = world.start(job)
        time.sleep(bench.rng.uniform(0, bench.seconds(job)))
        _shift(world.root, -3600 * hours)
        bench.judge(world, job, run.wait())

    return act


def edited_after(path: str, before: str, after: str, hours: float) -> Callable[[Bench], None]:
    """Set the clock after a run, then edit what the run was made from: the run must be of the edit."""

    def act(bench: Bench) -> None:
        world, other = bench.world(NOTEBOOK), bench.folder / "other"
        edited = (world.root / path).read_text().replace(before, after)
        edited_world = bench.world(None, other)
        (edited_world.root / path).write_text(edited)
        expected = _reported(edited_world, edited_world.run(NOTEBOOK))
        if expected == bench.undisturbed.after(NOTEBOOK)[1]:
            raise Failed("harness: the edit changes nothing")
        _shift(world.root, -3600 * hours)
        (world.root / path).write_text(edited)
        report = _reported(world, world.run(NOTEBOOK).clear())
        if report != expected:
            raise Failed(f"the edit of {path} was not seen")

    return act


# -------------------------------------------------------------------------------------------------------- at once


def twice(*jobs: Job) -> Callable[[Bench], None]:
    """Give commands at once."""

    def act(bench: Bench) -> None:
        world = bench.world(jobs[0].before)

        def later(job: Job) -> Done:
            time.sleep(bench.rng.uniform(0, 0.3))
            return world.run(job)

        with ThreadPoolExecutor(len(jobs)) as pool:
            outputs = list(pool.map(later, jobs))
        for job, output in zip(jobs, outputs, strict=True):
            if output.clear().code:
                raise Failed(f"{job.name} beside {', '.join(j.name for j in jobs)}: {output.tail}")
        for job in dict.fromkeys(jobs):
            bench.judge(world, job)
        if jobs[0] is FETCH and (n_requests := len(world.server.requests)) > 2:
            raise Failed(f"two files were asked for {n_requests} times")

    return act


def stopped(bench: Bench) -> None:
    """`make stop` while a notebook needs the server."""
    world = bench.world()
    run = world.start(GRAPH)
    time.sleep(bench.rng.uniform(0.5, bench.seconds(GRAPH)))
    world.run(Job("stop", ("make", "--no-print-directory", "stop"), _printed)).clear()
    bench.judge(world, GRAPH, run.wait())


# ------------------------------------------------------------------------------------------------------------ table


def _several(
    kind: str,
    name: str,
    count: int,
    act: Callable[[Bench], None],
    *,
    fast: int = 0,
    heavy: bool = False,
) -> Iterator[Trial]:
    for number in range(1, count + 1):
        yield Trial(kind, f"{name} {number}", act, fast=number <= fast, heavy=heavy)


K, F, R, D, C, T = "kill -9", "full disk", "read-only", "damaged file", "clock", "at once"
TRIALS = [
    *_several(K, "make", 4, kill(NOTEBOOK), fast=1),
    *_several(K, "runner", 3, kill(NOTEBOOK, "publish.run")),
    *_several(K, "kernel", 5, kill(NOTEBOOK, "ipykernel_launcher"), fast=1),
    *_several(K, "all of make", 5, kill(NOTEBOOK, "everything")),
    *_several(K, "asking", 6, kill(ASK), fast=1),
    *_several(K, "fetch", 8, kill(FETCH), fast=1),
    *_several(K, "index", 3, kill(INDEX)),
    *_several(K, "adapter", 3, kill(ADAPTER)),
    *_several(K, "export", 3, kill(EXPORT)),
    *_several(K, "batch", 3, kill(BATCH), fast=1),
    *_several(K, "server", 2, kill(SERVER, "http.server"), fast=1),
    *_several(K, "supervisor", 3, kill(SERVER, "resources.supervisor"), fast=1),
    *_several(K, "reaper", 2, kill(SERVER, "server_reaper")),
    *_several(K, "guard", 2, kill(NOTEBOOK, "run_guard")),
    *_several(K, "user of a server", 3, kill(SERVER), fast=1),
    *_several(K, "user of a graph", 3, kill(GRAPH)),
    *_several(K, "graph server", 5, kill(GRAPH, "java.args")),
    *_several(K, "graph and all", 3, kill(GRAPH, "everything")),
    *_several(K, "LLM server", 3, kill(LLM, "vllm.entrypoints"), heavy=True),
    *_several(F, "notebook", 5, full(UNSTORED, 200_000)),
    *_several(F, "asking", 4, full(ASK, 60_000)),
    *_several(F, "fetch", 4, full(FETCH, 1_100_000)),
    *_several(F, "index", 2, full(INDEX, 400_000)),
    *_several(F, "export", 2, full(EXPORT, 150_000)),
    *_several(F, "batch", 2, full(BATCH, 60_000)),
    *_several(F, "adapter", 2, full(ADAPTER, 60_000)),
    *_several(F, "graph", 2, full(GRAPH, 2_000_000)),
    *_several(F, "limited notebook", 2, limited(UNSTORED, 20_000)),
    *_several(F, "limited fetch", 2, limited(FETCH, 500_000), fast=1),
    *_several(F, "limited asking", 2, limited(ASK, 30_000)),
    *(
        Trial(R, job.name, read_only(job), fast=job is FETCH)
        for job in (UNSTORED, ASK, FETCH, INDEX, SERVER, GRAPH)
    ),
    *(
        Trial(R, f"{job.name}, {folder} of another user", not_ours(job, folder))
        for job, folder in (
            (NOTEBOOK, "_build"),
            (UNSTORED, "data/derived"),
            (FETCH, "data/raw/set"),
            (EXPORT, "data/derived/requests"),
        )
    ),
    *_several(D, "requests.sqlite", 4, flip(ASK, "data/derived/requests/requests.sqlite*"), fast=1),
    *_several(D, "exported requests", 2, flip(EXPORT, "out.parquet")),
    *_several(D, "pending requests", 4, half_noted, fast=1),
    *_several(D, "answers", 3, flip(NOTEBOOK, "_build/answers/smoke/01_demo_small/*.parquet")),
    *_several(D, "record", 4, flip(NOTEBOOK, "_build/records/smoke/*.json"), fast=1),
    *_several(D, "record shown", 3, misread("_build/records/smoke/*.json")),
    *_several(D, "keys of requests", 2, flip(NOTEBOOK, "_build/records/smoke/requests/*.json")),
    *_several(D, "executed notebook", 4, flip(NOTEBOOK, "_build/executed/smoke/*.ipynb"), fast=1),
    *_several(D, "inputs of a result", 2, flip(NOTEBOOK, "_build/inputs/smoke/*.json")),
    *_several(D, "what modules say", 2, flip(NOTEBOOK, "_build/analysed.json")),
    *_several(D, "lock of a notebook", 1, flip(NOTEBOOK, "_build/executed/smoke/*.lock")),
    *_several(D, "index", 3, flip(INDEX, "data/derived/indexes/demo-*/index.faiss"), fast=1),
    *_several(
        D, "description of an index", 3, flip(INDEX, "data/derived/indexes/demo-*/training.json")
    ),
    *_several(D, "lock of an index", 1, flip(INDEX, "data/derived/indexes/*.lock")),
    *_several(
        D, "adapter", 2, flip(ADAPTER, "data/derived/adapters/demo-*/adapter_model.safetensors")
    ),
    *_several(
        D, "log of a training", 3, flip(ADAPTER, "data/derived/adapters/demo-*/training.json")
    ),
    *_several(
        D,
        "adapter's configuration",
        2,
        flip(ADAPTER, "data/derived/adapters/demo-*/adapter_config.json"),
    ),
    *_several(D, "download", 3, flip(FETCH, "data/raw/set/*.bin"), fast=1),
    *_several(D, "stamp of a download", 3, flip(FETCH, "data/raw/.state/*.json")),
    *_several(D, "lock of a download", 1, flip(FETCH, "data/raw/.state/*.lock")),
    *_several(D, "half a download", 4, half_fetched),
    *_several(
        D, "pids", 3, flip(SERVER, "_build/services/llm-plain/pids.json", running=True), fast=1
    ),
    *_several(
        D, "endpoint", 3, flip(SERVER, "_build/services/llm-plain/endpoint.json", running=True)
    ),
    *_several(D, "users", 2, flip(SERVER, "_build/services/llm-plain/users/*", running=True)),
    *_several(D, "users of the graph", 2, flip(GRAPH, "_build/graph/config/*")),
    *_several(D, "graph", 5, flip(GRAPH, "_build/graph/databases/**/*")),
    *_several(
        D, "pids of the graph", 1, flip(GRAPH, "_build/services/graph/pids.json", running=True)
    ),
    *(
        Trial(C, f"{hours:+} h while {job.name}", step(job, hours))
        for job in (NOTEBOOK, FETCH, SERVER)
        for hours in (1, -1)
    ),
    *(
        Trial(
            C,
            f"{hours:+} h, then an edit of {Path(path).name}",
            edited_after(path, old, new, hours),
        )
        for hours in (-1, 1)
        for path, old, new in (
            ("notebooks/profiles/smoke.yml", "24", "25"),
            ("notebooks/01_demo_small.ipynb", "Now 1", "Now 2"),
        )
    ),
    *_several(T, "two makes", 2, twice(NOTEBOOK, NOTEBOOK)),
    *_several(T, "make and scoreboard", 1, twice(NOTEBOOK, NOTEBOOK, NOTEBOOK)),
    *_several(T, "two fetches", 3, twice(FETCH, FETCH), fast=1),
    *_several(T, "two stores", 3, twice(ASK, ASK)),
    *_several(T, "store and export", 1, twice(ASK, EXPORT)),
    *_several(T, "two of an index", 2, twice(INDEX, INDEX)),
    *_several(T, "two of an adapter", 1, twice(ADAPTER, ADAPTER)),
    *_several(T, "three of a server", 2, twice(SERVER, SERVER, SERVER)),
    *_several(T, "two loads of a graph", 2, twice(GRAPH, GRAPH)),
    *_several(T, "stop and a graph", 2, stopped),
]
