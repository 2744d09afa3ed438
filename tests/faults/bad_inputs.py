"""The table of bad inputs: what a user may give by mistake, and the words that must come back.

An input is handled if the command fails without a traceback and its message names what is wrong.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness import PROJECT, Bench, Done, Failed, Job, Trial
from trials import ASK, FETCH, GRAPH

PUBLISHED, PROFILE, REGISTRY = (
    "data/published/demo.yml",
    "notebooks/profiles/smoke.yml",
    "data/registry.yml",
)


def _make(*arguments: str) -> Job:
    return Job("make", ("make", "--no-print-directory", *arguments), lambda *_: None)


def _python(*arguments: str) -> Job:
    return Job("python", (sys.executable, "-m", *arguments), lambda *_: None)


def _code(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def _refused(output: Done, message: str) -> None:
    if output.clear().code == 0:
        raise Failed(f"taken without a word: {output.tail}")
    if message.lower() not in output.text.lower():
        raise Failed(f"the message does not name {message!r}: {output.tail}")


def refuses_setting(job: Job, message: str, **variables: str) -> Callable[[Bench], None]:
    """A command, or settings of it, that cannot be meant."""
    return lambda bench: _refused(bench.world().run(job, **variables), message)


def refuses_file(
    path: str, before: str, after: str | bytes, message: str, job: Job
) -> Callable[[Bench], None]:
    """A file of the project with other content, or where nothing is `before` with no other content."""

    def act(bench: Bench) -> None:
        world = bench.world()
        file = world.root / path
        if isinstance(after, bytes):
            file.write_bytes(after)
        else:
            text = file.read_text() if file.exists() else ""
            if before not in text:
                raise Failed(f"harness: {path} has no {before!r}")
            file.write_text(text.replace(before, after, 1) if before else after)
        _refused(world.run(job), message)

    return act


# ------------------------------------------------------------------------------------- inputs of functions, all at once

TABLES: dict[str, tuple[str | bytes, str]] = {
    "another column": ("drug,other\na,b\n", "--effect-column"),
    "a row without a name": ("drug,side_effect\na,b\n ,c\n", "row 3"),
    "no row": ("drug,side_effect\n", "no row"),
    "empty": ("", "columns"),
    "Latin-1": ("drug,side_effect\nmat\xe9,b\n".encode("latin-1"), "UTF-8"),
    "UTF-16 without a mark": ("drug,side_effect\na,b\n".encode("utf-16-le"), "UTF-8"),
    "a NUL": (b"drug,side_effect\na,b\0c\n", "NUL"),
    "an open quote": ('drug,side_effect\n"a,b\n', "EOF"),
    "a longer row": ("drug,side_effect\na,b\nc,d,e\n", "line 3"),
    "commas without quotes": ("drug,side_effect\nacid, folic,nausea\n", "comma"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(200)), "UTF-8"),
    "one drug": ("drug,side_effect\na,b\na,c\n", "no question"),
}
DOCUMENTS: dict[str, tuple[str, str | bytes | int | None, str]] = {
    "empty text": ("a.txt", "", "no text"),
    "blank text": ("a.md", " \n\t\n", "no text"),
    "Latin-1": ("a.txt", "mat\xe9".encode("latin-1"), "UTF-8"),
    "a picture named text": ("a.txt", b"\x89PNG\0\0\0", "UTF-8"),
    "no PDF": ("a.pdf", "not a PDF", "PDF"),
    "half a PDF": ("a.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog", "PDF"),
    "an empty PDF": ("a.pdf", b"", "PDF"),
    "no Word document": ("a.docx", b"PK\3\4", "docx"),
    "another kind": ("a.odt", b"PK\3\4", ".odt"),
    "a folder named as a file": ("a.pdf/b.docx", b"", "a.pdf/b.docx"),
    "a link to a file of the system": ("a.txt", None, "leaves the folder"),
    "a sparse file": ("a.txt", 20 * 2**30, "100 MB"),
    "UTF-16 without a mark": ("a.txt", "some text".encode("utf-16-le"), "NUL"),
}
CYPHER: dict[str, tuple[str, str]] = {
    "a write": ("CREATE (:Drug {name: 'x'})", "CREATE"),
    "a write behind a read": ("MATCH (n) DETACH DELETE n", "DETACH"),
    "a write in other letters": ("mAtCh (n) sEt n.x = 1", "SET"),
    "an escaped write": ("MATCH (n) \\u0053ET n.x = 1 RETURN n", "SET"),
    "a procedure": ("CALL db.labels()", "CALL"),
    "a file": ("LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line", "LOAD"),
    "an extension": ("RETURN apoc.text.join(['a'], '')", "apoc"),
    "two statements": ("RETURN 1; RETURN 2", "several"),
    "nothing": ("   ", "empty"),
    "a comment": ("// nothing", "empty"),
    "prose": ("Here is the query: MATCH (n) RETURN n", "begins"),
    "a fence": ("```cypher\nMATCH (n) RETURN n\n```", "begins"),
    "an open bracket": ("MATCH (n RETURN n", "refused"),
    "an open quote": ("MATCH (n {name: 'x}) RETURN n", ""),
    "an unknown function": ("RETURN nosuchfunction(1)", ""),
    "an unknown variable": ("MATCH (n) RETURN m", ""),
    "half a surrogate pair": ("RETURN '\ud800'", "Unicode"),
    "a regular expression that goes back": (
        "RETURN 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' =~ '(a|aa)+$' AS x",
        "regular",
    ),
    "paths without end": ("MATCH p = (a)-[*]-(b) RETURN count(p) AS n", ""),
    "paths of 30 steps": ("MATCH p = (a)-[*..30]-(b) RETURN count(p) AS n", ""),
    "a range of 10^12": ("UNWIND range(1, 1000000000000) AS i RETURN count(i) AS n", ""),
    "a user": ("SHOW USERS", ""),
    "a database": ("CREATE DATABASE other", "CREATE"),
    "too long": ("RETURN " + "1 + " * 5000 + "1", "bytes"),
    "a huge result": (
        "UNWIND range(1, 99) AS i RETURN reduce(s = 'x', k IN range(1, 17) | s + s) AS s",
        "reduce",
    ),
    "without end": (
        "MATCH (a), (b), (c), (d), (e), (f) WHERE a.name < f.name RETURN max(c.name)",
        "longer",
    ),
}
FUNCTIONS = Job(
    "functions",
    _code(f"""
import json, pathlib, tempfile
from helpers import graph
from papers.side_effects import own_table
from resources.settings import PublicError
from papers.qa_rag import folder
tables, documents, statements = {TABLES!r}, {DOCUMENTS!r}, {CYPHER!r}
def put(name, content):
    path = pathlib.Path(tempfile.mkdtemp()) / name
    path.parent.mkdir(exist_ok=True)
    if content is None:
        path.symlink_to("/etc/passwd")
    elif isinstance(content, int):
        with path.open("wb") as file:
            file.truncate(content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
def documented(name, content):
    path = put(name, content)
    return folder.read_folder(path.parent.parent if "/" in name else path.parent)
def said(call):
    try:
        return "taken", str(call())[:200]
    except PublicError as error:
        return "refused", str(error)
    except Exception as error:
        return "raw", repr(error)
found = {{}}
for n, (c, _) in tables.items():
    found[f"own table: {{n}}"] = said(lambda: own_table.questions(own_table.read(put("t.csv", c)), 1, 1))
for n, (f, c, _) in documents.items():
    found[f"own document: {{n}}"] = said(lambda: documented(f, c))
with graph.connect() as db:
    for n, (c, _) in statements.items():
        found[f"Cypher: {{n}}"] = said(lambda: db.read_untrusted(c, timeout=2.0).rows)
    assert db.read("MATCH (d:Drug) RETURN count(d) AS n") == [{{"n": 400}}]
print(json.dumps(found))
"""),
    lambda _, output: json.loads(output.out.splitlines()[-1]),
    GRAPH.variables,
    before=GRAPH,
)


def called(name: str, message: str) -> Callable[[Bench], None]:
    """What a function of the project is given."""

    def act(bench: Bench) -> None:
        outcomes: dict[str, list[str]] = bench.undisturbed.after(FUNCTIONS)[1]  # type: ignore[assignment]
        how, text = outcomes[name]
        if how != "refused" or message.lower() not in text.lower():
            raise Failed(f"{how}, and {message!r} was to be named: {text}")

    return act


ODD_INPUTS = Job(
    "odd inputs",
    (sys.executable, "jobs/odd_inputs.py"),
    lambda _, output: json.loads(output.out.splitlines()[-1]),
)
SECONDS = 30.0
"""Seconds of processor time in which an input of any shape is read or refused."""


def odd(name: str) -> Callable[[Bench], None]:
    """An input of any shape: read or refused, in reasonable time, and no code reaches the terminal."""

    def act(bench: Bench) -> None:
        outcomes: dict[str, Any] = bench.undisturbed.after(ODD_INPUTS)[1]  # type: ignore[assignment]
        how, text, seconds = outcomes[name]
        if how == "raw":
            raise Failed(f"a raw exception: {text}")
        if seconds > SECONDS:
            raise Failed(f"{how} after {seconds:.0f} s of processor time")
        if "root:" in text:
            raise Failed("a file outside was read")
        if how == "refused" and any(code in text for code in ("\x1b", "\x07", "\n")):
            raise Failed(f"the message is more than a plain line: {text!r}")

    return act


def _names_of_odd_inputs() -> list[str]:
    names: list[str] = runpy.run_path(str(PROJECT / "jobs" / "odd_inputs.py"))["names"]()
    return names


# ------------------------------------------------------------------------------------------------------------ table

NUMBER, CLAIM = "unit: fraction", "rule: {better: row, than: other}"
BOARD = _python("medrerun", "scoreboard")
PARAMETERS = _make("notebook", "NB=01_demo_small")
START = _python("resources.services", "start", "graph")


def _rows() -> Iterator[tuple[str, Callable[[Bench], None]]]:
    for arguments, message in (
        (["reprodoce"], "make help"),
        (["reproduce", "PROFILE=huge"], "huge"),
        (["notebooks", "JOBS=0"], "JOBS=0"),
        (["notebooks", "JOBS=two"], "JOBS=two"),
        (["notebooks", "JOBS=-1"], "JOBS=-1"),
        (["serve", "PORT=abc"], "PORT=abc"),
        (["serve", "PORT=0"], "PORT=0"),
        (["serve", "PORT=99999"], "PORT=99999"),
        (["notebook"], "01_demo_small"),
        (["notebook", "NB=99_none"], "01_demo_small"),
        (["notebook", "NB=01_demo_small.ipynb"], "01_demo_small"),
        (["reference", "PROFILE=smoke"], "no run"),
    ):
        yield f"make {' '.join(arguments)}", refuses_setting(_make(*arguments), message)
    for command, message in (
        ("answers", "notebook"),
        ("answers 01_demo_small", "make notebook"),
        ("requests export", "FILE"),
        ("requests export data", "FILE"),
        ("requests import", "FILES"),
        ("requests import missing.parquet", "missing.parquet"),
        ("requests import Makefile", "Makefile"),
        ("new-experiment First own", "First"),
        ("new-experiment first ../own", "../own"),
    ):
        yield f"medrerun {command}", refuses_setting(_python("medrerun", *command.split()), message)
    for job, name, value, message in (
        (START, "NEO4J_URI", "localhost:7687", "NEO4J_URI"),
        (START, "NEO4J_URI", "http://localhost:7474", "NEO4J_URI"),
        (START, "NEO4J_URI", "bolt://localhost:7687", "NEO4J_PASSWORD"),
        (ASK, "LLM_BASE_URL", "gpu:8000", "LLM_BASE_URL"),
        (ASK, "LLM_BASE_URL", "http://gpu:80000/v1", "LLM_BASE_URL"),
        (ASK, "LLM_BASE_URL", "http:///v1", "LLM_BASE_URL"),
        (ASK, "LLM_BASE_URL", "http://127.0.0.1:9/v1", "cannot be reached"),
        (ASK, "LLM_MODEL", "other", "does not serve 'other'"),
        (ASK, "LLM_ENGINE", "ollama", "LLM_ENGINE"),
        (ASK, "LLM_CONCURRENCY", "0", "LLM_CONCURRENCY"),
        (ASK, "LLM_CONCURRENCY", "many", "LLM_CONCURRENCY"),
        (ASK, "ANSWERS", "maybe", "ANSWERS"),
        (ASK, "ANSWERS", "stored-only", "not stored"),
        (FETCH, "DATA_MIRROR", "/no/such/folder", "DATA_MIRROR"),
        (BOARD, "PROFILE", "huge", "huge"),
        (_python("publish.scoreboard"), "PROFILE", "huge", "PROFILE"),
        (_python("evaluation.show", "01_demo_small"), "PROFILE", "huge", "PROFILE"),
        (_python("medrerun", "run"), "PROFILE", "huge", "huge"),
        (_python("resources.services", "start", "grpah"), "ANSWERS", "stored", "graph"),
    ):
        quiet = _quietly(job) if job is ASK else job
        yield (
            f"setting {name}={value} of {job.command[-1] if job is not ASK else 'a request'}",
            refuses_setting(quiet, message, **{name: value}),
        )
    for name, before, after, message in (
        ("a misspelt parameter", "size", "sise", "size"),
        ("a section of no notebook", "defaults:", "01_demo_smal:", "01_demo_small"),
        ("no YAML", "defaults:", "defaults: [", "smoke.yml"),
        ("a list", "defaults:\n  size: 24", "- size", "smoke.yml"),
        ("defaults that are a number", "defaults:\n  size: 24", "defaults: 24", "smoke.yml"),
    ):
        yield f"profile with {name}", refuses_file(PROFILE, before, after, message, PARAMETERS)
    yield (
        "profile that is no text",
        refuses_file(PROFILE, "", b"\xff\xfe\0", "smoke.yml", PARAMETERS),
    )
    for name, before, after, message in (
        ("an unknown field", NUMBER, f"{NUMBER}, colour: red", "colour"),
        ("an unknown unit", NUMBER, "unit: furlongs", "unit"),
        ("a value that is not what is printed", "value: 0.5", "value: 0.6", "0.6"),
        ("a value that is none", "value: 0.5", "value: .nan", "value"),
        ("an id of another paper", "id: demo.table1", "id: other.table1", "demo"),
        ("an id with blanks", "id: demo.table1.row.accuracy", "id: demo table1", "id"),
        ("no reason why it is not rescored", ", why_not: nothing is released", "", "why_not"),
        ("an id twice", "demo.claim.row_wins", "demo.table1.row.accuracy", "twice"),
        ("a claim without test", f", {CLAIM}", "", "rule"),
        ("a rule without verb", CLAIM, "rule: {than: other}", "one of better"),
        (
            "a rule with two verbs",
            CLAIM,
            "rule: {better: row, on_par: row, than: other}",
            "one of better",
        ),
        ("a rule that compares with nothing", CLAIM, "rule: {better: row}", "than"),
        ("a rule without bound", CLAIM, "rule: {above: row}", "bound"),
        ("a rule by a function without words", CLAIM, "rule: {function: best}", "words"),
        ("a bound that is a word", CLAIM, "rule: {above: row, bound: high}", "bound"),
        ("no claims", "claims:", "clams:", "claims"),
        ("no YAML", "numbers:", "numbers: [", "demo.yml"),
        ("nothing", "", " ", "demo.yml"),
    ):
        yield f"claims with {name}", refuses_file(PUBLISHED, before, after, message, BOARD)
    yield "claims that are no text", refuses_file(PUBLISHED, "", b"\xff\xfe\0", "demo.yml", BOARD)
    for name, before, after, message in (
        ("an unknown field", "kind: data", "kind: data\n    colour: red", "colour"),
        ("an unknown kind", "kind: data", "kind: other", "kind"),
        ("bytes below none", "bytes: 512000", "bytes: -1", "bytes"),
        ("a short digest", "sha256: ", "sha256: 00", "sha256"),
        ("no licence", "licence: CC0", "note: none", "licence"),
        ("a name that leads out", "set/one.bin:", "../one.bin:", "one.bin"),
        ("a source of another kind", "- url: http", "- url: ftp", "url"),
        ("no sources", "sources:", "origins:", "origins"),
        (
            "an entry that is a word",
            "set/one.bin:",
            "set/none.bin: word\n  set/one.bin:",
            "none.bin",
        ),
        ("no files", "files:", "flies:", "files"),
        ("no YAML", "files:", "files: [", "registry.yml"),
        ("nothing", "", " ", "registry.yml"),
    ):
        yield f"registry with {name}", refuses_file(REGISTRY, before, after, message, FETCH)
    yield (
        "registry that is no text",
        refuses_file(REGISTRY, "", b"\xff\xfe\0", "registry.yml", FETCH),
    )
    yield (
        "name that the registry lacks",
        refuses_setting(_python("resources.datasets", "--fetch", "set/oen.bin"), "set/one.bin"),
    )
    yield (
        "notebook that is none",
        refuses_file("notebooks/01_demo_small.ipynb", "", b"{", "01_demo_small", PARAMETERS),
    )
    yield (
        "notebook without parameters",
        refuses_file(
            "notebooks/01_demo_small.ipynb", '"parameters"', '"x"', "parameters", PARAMETERS
        ),
    )
    for name in _names_of_odd_inputs():
        yield f"own {name}, of any shape", odd(name)
    for kind, table in (("own table", TABLES), ("own document", DOCUMENTS), ("Cypher", CYPHER)):
        for name, row in table.items():
            yield f"{kind}: {name}", called(f"{kind}: {name}", row[-1])


def _quietly(job: Job) -> Job:
    """The job, with errors that are meant for the user told as a command line tells them."""
    script = f"runpy.run_path({job.command[-1]!r})"
    code = f"import runpy, sys\nfrom resources.settings import PublicError\ntry:\n    {script}\n"
    return Job(
        job.name,
        _code(f"{code}except PublicError as error:\n    sys.exit(str(error))\n"),
        job.result,
    )


FAST = (
    "make notebook",
    "make reprodoce",
    "claims with nothing",
    "registry with nothing",
    "setting ANSWERS=maybe of a request",
)
BAD_INPUTS = [Trial("bad input", name, act, fast=name in FAST) for name, act in _rows()]
