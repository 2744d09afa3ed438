"""The table of surroundings: variables, settings files, folders, limits and streams that nobody planned for.

A command in odd surroundings works as ever, or says in clear lines what it cannot do with; the same
command in plain surroundings then gives what an undisturbed run gives.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from conftest import as_a_user
from harness import Bench, Disk, Failed, Job, Trial, World
from trials import ASK, BOARD, FETCH, GRAPH, INDEX, NOTEBOOK, SERVER

Act = Callable[[Bench], None]
Prepare = Callable[[World, Bench], dict[str, str | None]]

SETTINGS_JOB = Job(
    "settings",
    (sys.executable, "-m", "medrerun", "settings", "PROFILE", "ANSWERS"),
    lambda _, output: output.out,
)


def with_variables(job: Job, **variables: str | None) -> Act:
    """Give a command with these variables; None unsets one."""
    return prepared(job, lambda *_: variables)


def prepared(job: Job, prepare: Prepare) -> Act:
    """Change something in the project, give a command with the variables that this names."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        variables = prepare(world, bench)
        output = world.run(job, **variables)
        world.prefix = ()
        bench.judge(world, job, output)

    return act


def limited_by(job: Job, *prefix: str) -> Act:
    """Give a command with limits that another program sets."""

    def prepare(world: World, _: Bench) -> dict[str, str | None]:
        world.prefix = prefix
        return {}

    return prepared(job, prepare)


def through_shell(job: Job, pattern: str) -> Act:
    """Give a command within a line of a shell, whose streams may be closed; its word counts less than its end."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        words = " ".join(f"'{word}'" for word in job.command)
        line = Job(job.name, ("bash", "-c", pattern.format(words)), job.result)
        output = world.run(line)
        if "Traceback" in output.text:
            raise Failed(f"a raw traceback: {output.tail}")
        bench.judge(world, job)

    return act


def in_folder(job: Job, name: bytes) -> Act:
    """Give a command in a project whose folder has an odd name."""

    def act(bench: Bench) -> None:
        folder = bench.folder / os.fsdecode(name)
        folder.mkdir(parents=True)
        world = bench.world(job.before, folder)
        bench.judge(world, job, world.run(job))
        if traces := sorted(path.name for path in bench.folder.rglob("ran-*")):
            raise Failed(f"the name of the folder ran as code: {traces}")

    return act


def behind_link(job: Job) -> Act:
    """Give a command in a project that a link leads to."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        real = world.root
        link = bench.folder / "link"
        link.symlink_to(real, target_is_directory=True)
        world.root = link
        output = world.run(job)
        world.root = real
        bench.judge(world, job, output)

    return act


# ------------------------------------------------------------------------------------ settings that are code


def as_code(name: str, template: str) -> Act:
    """Give `make notebook` a value that a shell, make or Python could run."""

    def act(bench: Bench) -> None:
        world = bench.world()
        value = template.format("touch ran-as-code")
        arguments = [f"{name}={value}"] if name != "environment" else []
        variables: dict[str, str | None] = {} if arguments else {"LLM_MODEL": value}
        goals = [] if name == "NB" else ["NB=01_demo_small"]
        job = Job("code", ("make", "notebook", *goals, *arguments), NOTEBOOK.result)
        output = world.run(job, **variables)
        if list(world.root.rglob("ran-as-code")):
            raise Failed(f"a command of the value ran: {output.tail}")
        if "Traceback" in output.text:
            raise Failed(f"a raw traceback: {output.tail}")
        bench.judge(world, NOTEBOOK)

    return act


def env_file_as_code(template: str) -> Act:
    """Give `.env` a line that a shell or make could run."""

    def act(bench: Bench) -> None:
        world = bench.world()
        (world.root / ".env").write_text(template.format("touch ran-as-code"))
        output = world.run(NOTEBOOK)
        (world.root / ".env").unlink()
        if list(world.root.rglob("ran-as-code")):
            raise Failed(f"a line of .env ran: {output.tail}")
        bench.judge(world, NOTEBOOK, output)

    return act


# --------------------------------------------------------------------------------------------- settings files


def env_file(content: bytes) -> Prepare:
    """Write `.env`; it is gone before the command is given again."""

    def prepare(world: World, bench: Bench) -> dict[str, str | None]:
        (world.root / ".env").write_bytes(content)
        return {}

    return prepare


def env_is(kind: str) -> Prepare:
    """Make something else of `.env`: a pipe, a folder, a link in a circle, another user's file."""

    def prepare(world: World, bench: Bench) -> dict[str, str | None]:
        path = world.root / ".env"
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a folder":
            path.mkdir()
        elif kind == "a link to itself":
            path.symlink_to(path)
        else:
            path.write_text("PROFILE=smoke\n")
            path.chmod(0)
            world.prefix = tuple(as_a_user())
        return {}

    return prepare


def with_env(job: Job, prepare: Prepare) -> Act:
    """Give a command while `.env` is odd, then without it."""

    def act(bench: Bench) -> None:
        world = bench.world(job.before)
        prepare(world, bench)
        output = world.run(job)
        world.prefix = ()
        path = world.root / ".env"
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        bench.judge(world, job, output)

    return act


# ---------------------------------------------------------------------------------------- folders and files


def temporary_folder(make: Callable[[Path], Path]) -> Prepare:
    """Name another TMPDIR."""
    return lambda world, bench: {"TMPDIR": str(make(bench.folder))}


def _make_folder(folder: Path, name: str, mode: int = 0o755) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    path.chmod(mode)
    return path


def home(kind: str) -> Prepare:
    """Name another home: one with a broken configuration, one that cannot be written."""

    def prepare(world: World, bench: Bench) -> dict[str, str | None]:
        folder = bench.folder / "home"
        folder.mkdir()
        broken = {
            ".ipython/profile_default/startup/00.py": "raise SystemExit('a start-up file')",
            ".ipython/profile_default/ipython_config.py": "this is no Python",
            ".jupyter/jupyter_config.py": "this is no Python",
            ".config/matplotlib/matplotlibrc": "backend: nonsense",
            ".config/pip/pip.conf": "no = [configuration",
            ".pdbrc": "raise SystemExit",
        }
        for name, text in broken.items() if kind == "broken" else ():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if kind == "read-only":
            folder.chmod(0o555)
            world.prefix = tuple(as_a_user())
        return {"HOME": str(folder)}

    return prepare


def foreign_modules(world: World, bench: Bench) -> dict[str, str | None]:
    """Let a folder on the path hold modules with the names of the project's."""
    folder = bench.folder / "foreign"
    for name in ("helpers", "evaluation", "resources", "rag", "papers", "publish", "medrerun"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('a foreign module')")
    return {"PYTHONPATH": str(folder), "MEDRAG_ROOT": str(world.root)}


def taken_by_file(path: str) -> Act:
    """Let a file lie where a folder is to be made; then remove it."""

    def act(bench: Bench) -> None:
        world = bench.world()
        file = world.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("in the way")
        output = world.run(NOTEBOOK)
        if file.is_file():
            file.unlink()
        bench.judge(world, NOTEBOOK, output)

    return act


def elsewhere(path: str) -> Act:
    """Let a folder of the project lie elsewhere, behind a link."""

    def act(bench: Bench) -> None:
        world = bench.world()
        target = bench.folder / "elsewhere"
        target.mkdir()
        link = world.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target, target_is_directory=True)
        bench.judge(world, NOTEBOOK, world.run(NOTEBOOK))

    return act


def full_temporary_folder(job: Job) -> Act:
    """Let TMPDIR be full."""

    def act(bench: Bench) -> None:
        disk = Disk(bench)
        disk.leave(4096)
        world = bench.world(job.before, bench.folder / "apart")
        bench.judge(world, job, world.run(job, TMPDIR=str(disk.folder)))

    return act


def no_inodes(job: Job) -> Act:
    """Let a disk have room for bytes and none for files."""

    def act(bench: Bench) -> None:
        disk = Disk(bench)
        world = bench.world(job.before, disk.folder)
        status = os.statvfs(disk.folder)
        disk.remount(f"rw,nr_inodes={status.f_files - status.f_ffree + bench.rng.randrange(6)}")
        output = world.run(job)
        disk.remount(f"rw,nr_inodes={status.f_files}")
        bench.judge(world, job, output)

    return act


# ------------------------------------------------------------------------------------------------------ table

CODE = (
    "x'; {}; '",
    'x"; {}; "',
    "$({})",
    "`{}`",
    "$(shell {})",
    "x\n{}\n",
    "x;{};",
    "x|{}",
    "x&{}&",
)
VARIABLES: dict[str, dict[str, str | None]] = {
    "no HOME": {"HOME": None},
    "a HOME that is not there": {"HOME": "/no/such/home"},
    "no TERM": {"TERM": None},
    "a dumb terminal": {"TERM": "dumb"},
    "one column": {"COLUMNS": "1"},
    "columns in words": {"COLUMNS": "many"},
    "CDPATH": {"CDPATH": ".:/tmp:/"},
    "make keeps going": {"MAKEFLAGS": "-k"},
    "make in parallel": {"MAKEFLAGS": "-j4"},
    "another shell": {"SHELL": "/bin/false"},
    "BASH_ENV that fails": {"BASH_ENV": "/no/such/file"},
    "a start-up file of Python": {"PYTHONSTARTUP": "/no/such/file"},
    "Python without docstrings": {"PYTHONOPTIMIZE": "2"},
    "Python that compiles nothing": {"PYTHONDONTWRITEBYTECODE": "1"},
    "Python in ASCII": {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
    "Python without a user's packages": {"PYTHONNOUSERSITE": "1"},
    "Python in safe paths": {"PYTHONSAFEPATH": "1"},
    "a safe hash seed": {"PYTHONHASHSEED": "0"},
    "warnings shown": {"PYTHONWARNINGS": "default"},
    "proxies that are not there": {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": None,
        "no_proxy": None,
    },
    "a proxy of an unknown kind": {"ALL_PROXY": "socks9://x", "NO_PROXY": None, "no_proxy": None},
    "certificates that are not there": {"SSL_CERT_FILE": "/no/such/file"},
    "a time zone far away": {"TZ": "Pacific/Kiritimati"},
    "a time zone that is none": {"TZ": "No/Where"},
    "a folder of IPython that is a file": {"IPYTHONDIR": "/dev/null"},
    "a folder of Jupyter that is a file": {"JUPYTER_CONFIG_DIR": "/dev/null"},
    "a runtime folder that is not there": {"JUPYTER_RUNTIME_DIR": "/proc/none"},
    "a data folder of Jupyter that is not there": {"JUPYTER_DATA_DIR": "/proc/none"},
    "a backend of matplotlib that is none": {"MPLBACKEND": "nonsense"},
    "a folder of matplotlib that is not there": {"MPLCONFIGDIR": "/proc/none"},
    "a cache that cannot be written": {"XDG_CACHE_HOME": "/proc/none"},
    "threads in words": {"OMP_NUM_THREADS": "many"},
    "no thread": {"OMP_NUM_THREADS": "0"},
    "a virtual environment of another project": {"VIRTUAL_ENV": "/no/such/venv"},
    "a conda environment": {"CONDA_PREFIX": "/opt/conda", "CONDA_DEFAULT_ENV": "base"},
    "LC_ALL=POSIX": {"LC_ALL": "POSIX"},
    "a locale that is not installed": {"LC_ALL": "tr_TR.UTF-8"},
    "a locale that is none": {"LC_ALL": "nonsense"},
    "no locale": {"LC_ALL": None, "LANG": None, "LC_CTYPE": None},
    "CI": {"CI": "true", "GITHUB_ACTIONS": "true"},
    "a huge variable": {"HUGE": "x" * 100_000},
}
ENV_FILES: dict[str, bytes] = {
    "in Latin-1": b"LLM_MODEL=caf\xe9\n",
    "of 10 MB": b"# a comment\n" * 870_000,
    "with a mark of UTF-8": b"\xef\xbb\xbfANSWERS=stored\n",
    "with ends of lines of Windows": b"ANSWERS=stored\r\nJOBS=2\r\n",
    "with a NUL": b"ANSWERS=sto\0red\n",
    "without an equals sign": b"ANSWERS\n",
    "with an open quote": b"LLM_API_KEY='never closed\n",
    "of other bytes": bytes(range(256)),
    "with a name that is none": b"=value\n",
    "empty": b"",
}
FOLDERS: dict[str, bytes] = {
    "blanks": b"a  b ",
    "quotes": b'it\'s "so"',
    "a dollar": b"a$(touch ran-in-folder)$HOME",
    "a backtick": b"a`touch ran-in-folder`",
    "a semicolon": b"a;touch ran-in-folder;",
    "a hash": b"a # b",
    "a percent sign": b"100%s %d",
    "a line feed": b"a\ntouch ran-in-folder",
    "a leading dash": b"-rf",
    "brackets": b"[a-z]*?{b}",
    "umlauts": "prüjekt 日本".encode(),
    "200 letters": b"x" * 200,
    "a depth of 20": b"/".join([b"deeper"] * 20),
}


def _rows() -> Iterator[Trial]:
    for name in ("LLM_MODEL", "environment", "NB", "PROFILE", "JOBS"):
        for number, template in enumerate(CODE, 1):
            # each value in each form is a test of its own (test_make); here some of them
            if (number + len(name)) % 4 == 0:
                yield Trial("setting as code", f"{name} {number}", as_code(name, template))
    for number, template in enumerate(("X=$({})\n", "LLM_MODEL=`{}`\n", "X=1; {}\n"), 1):
        yield Trial("setting as code", f".env {number}", env_file_as_code(template))
    for name, variables in VARIABLES.items():
        yield Trial(
            "surroundings",
            name,
            with_variables(NOTEBOOK, **variables),
            fast=name in ("CDPATH", "LC_ALL=POSIX"),
        )
    for name, content in ENV_FILES.items():
        act = with_env(SETTINGS_JOB, env_file(content))
        yield Trial("surroundings", f".env {name}", act)
    for kind in ("a pipe", "a folder", "a link to itself", "another user's"):
        yield Trial("surroundings", f".env is {kind}", with_env(NOTEBOOK, env_is(kind)))
    for name, prepare in (
        ("TMPDIR of 130 letters", temporary_folder(lambda folder: _make_folder(folder, "x" * 130))),
        ("TMPDIR with blanks", temporary_folder(lambda folder: _make_folder(folder, "a  b"))),
        ("TMPDIR that is not there", temporary_folder(lambda folder: folder / "none")),
        ("a broken configuration at home", home("broken")),
        ("a home that may only be read", home("read-only")),
        ("foreign modules", foreign_modules),
    ):
        yield Trial("surroundings", name, prepared(NOTEBOOK, prepare))
    for job in (INDEX, GRAPH):
        long = temporary_folder(lambda folder: _make_folder(folder, "x" * 130))
        yield Trial("surroundings", f"{job.name}, TMPDIR of 130 letters", prepared(job, long))
        yield Trial("surroundings", f"{job.name}, POSIX", with_variables(job, LC_ALL="POSIX"))
    for name, prefix in (
        ("64 open files", ("prlimit", "--nofile=64:64")),
        ("64 open files that may be more", ("prlimit", "--nofile=64:4096")),
        ("1.5 GB of addresses", ("prlimit", f"--as={1500 * 2**20}")),
        ("a stack of 256 KB", ("prlimit", "--stack=262144")),
        ("no core files", ("prlimit", "--core=0")),
        ("the lowest priority", ("nice", "-n", "19")),
        ("no terminal", ("setsid", "--wait")),
        ("a mask of 077", ("bash", "-c", 'umask 077; exec "$@"', "-")),
        ("a mask of 777", ("bash", "-c", 'umask 777; exec "$@"', "-")),
        ("signals ignored", ("bash", "-c", "trap '' INT TERM HUP PIPE; exec \"$@\"", "-")),
    ):
        yield Trial("surroundings", name, limited_by(NOTEBOOK, *prefix))
    for name, pattern in (
        ("standard input closed", "{} <&-"),
        ("standard output closed", "{} >&-"),
        ("standard error closed", "{} 2>&-"),
        ("all streams closed", "{} <&- >&- 2>&-"),
        ("a full device", "{} >/dev/full"),
        ("a full device for errors", "{} 2>/dev/full"),
        ("a reader that leaves", "{} 2>&1 | head -c 20"),
    ):
        for job in (NOTEBOOK, BOARD):
            yield Trial("surroundings", f"{job.name}, {name}", through_shell(job, pattern))
    for name, folder in FOLDERS.items():
        yield Trial("path", name, in_folder(NOTEBOOK, folder))
    for job in (GRAPH, SERVER, FETCH):
        for name in ("blanks", "quotes", "umlauts"):
            yield Trial("path", f"{job.name}, {name}", in_folder(job, FOLDERS[name]))
    yield Trial("path", "behind a link", behind_link(NOTEBOOK))
    for path in ("_build", "data/derived", "_build/executed", "_build/records/smoke"):
        if path != "data/derived":  # a world has it, with the models
            yield Trial("path", f"a file in place of {path}", taken_by_file(path))
    yield Trial("path", "_build elsewhere", elsewhere("_build"))
    for job in (NOTEBOOK, FETCH, ASK, GRAPH):
        yield Trial("full disk", f"{job.name}, TMPDIR", full_temporary_folder(job))
    for job in (NOTEBOOK, FETCH, INDEX):
        yield Trial("full disk", f"{job.name}, no room for files", no_inodes(job))


SURROUNDINGS = list(_rows())
