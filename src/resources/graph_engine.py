"""How the embedded graph is served: ArcadeDB over Bolt.

One user loads the graph; another may only read it.
"""

import importlib.util
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from resources.engine_install import EngineError
from resources.engines import Launch, write_secret
from resources.settings import BUILD, LOGS

GRAPH_FOLDER = BUILD / "graph"
"""Data of the server; they are loaded anew from the registry's files if they are lost."""
COMMAND_TIMEOUT = 15_000
"""Milliseconds that a statement may take.

The server ignores the driver's own timeouts, and what a client gives up on runs on until then.
"""

RIGHTS = {
    "admin": (
        ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
        ["createRecord", "readRecord", "updateRecord", "deleteRecord"],
    ),
    "reader": ([], ["readRecord"]),
}
"""Of the groups of the users `root` and `reader`: on the database, and on its records."""


def graph_launch(port: int, http_port: int, database: str, say: Callable[[str], None]) -> Launch:
    """Say how to serve ArcadeDB's data; damaged ones are set aside.

    Args:
        port: Where it is to answer Bolt on loopback.
        http_port: Where it is to say whether it is ready.
        database: The database of the graphs.
        say: Writes a line for the user.

    Raises:
        EngineError: The server is not installed.
    """
    spec = importlib.util.find_spec("arcadedb_embedded")
    if spec is None or spec.origin is None:
        raise EngineError(
            "The embedded graph needs the package arcadedb-embedded: run `make setup`, or set "
            "NEO4J_URI."
        )
    _write_rights()
    if aside := set_aside():
        say(f"The graph's databases are damaged; they were set aside as {aside}.")
    say("Starting the embedded graph server ...")
    # new passwords at each start; the databases do not need them
    root, reader = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    properties = {
        "server.rootPath": GRAPH_FOLDER,
        "server.rootPassword": root,
        "server.mode": "development",  # production hides the reason of an error from the client
        "server.httpIncomingHost": "127.0.0.1",
        "server.httpIncomingPort": http_port,
        "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "server.logsDirectory": LOGS,
        "bolt.host": "127.0.0.1",
        "bolt.port": port,
        "bolt.defaultDatabase": database,
        "server.defaultDatabases": f"{database}[reader:{reader}:reader]",
        "command.timeout": COMMAND_TIMEOUT,
        "opencypher.loadCsv.allowFileUrls": "false",
        "opencypher.loadCsv.allowRemoteUrls": "false",
    }
    package = Path(spec.origin).parent
    arguments = _write_arguments(package, properties)
    return Launch(
        name="graph",
        command=[str(package / "jre" / "bin" / "java"), f"@{arguments}"],
        environment=_locale(),
        ready_url=f"http://127.0.0.1:{http_port}/api/v1/ready",
        start_timeout=60.0,
        endpoint={
            "uri": f"bolt://127.0.0.1:{port}",
            "user": "root",
            "password": root,
            "database": database,
            "reader_user": "reader",
            "reader_password": reader,
            "engine": "arcadedb",
            "version": f"arcadedb-embedded {version('arcadedb-embedded')}",
            "embedded": True,
        },
    )


def _write_rights() -> None:
    """Write what each group of users may do, and forget the users of an earlier start."""
    config = GRAPH_FOLDER / "config"
    config.mkdir(parents=True, exist_ok=True)
    groups = {}
    for group, (access, records) in RIGHTS.items():
        groups[group] = {
            "access": access,
            "resultSetLimit": -1,
            "readTimeout": -1,
            "types": {"*": {"access": records}},
        }
    content = {"databases": {"*": {"groups": groups}}, "version": 1}
    (config / "server-groups.json").write_text(json.dumps(content))
    # else the server holds on to the users that it has, with their passwords
    (config / "server-users.jsonl").unlink(missing_ok=True)


def _write_arguments(package: Path, properties: Mapping[str, object]) -> Path:
    """Write the arguments of java to a file, which keeps the passwords off the command line."""
    arguments = [
        "-Xmx512m",
        "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        *(f"-Darcadedb.{key}={value}" for key, value in properties.items()),
        "-cp",
        str(package / "jars" / "*"),
        "com.arcadedb.server.ArcadeDBServer",
    ]
    lines = []
    for argument in arguments:
        escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'"{escaped}"')
    path = GRAPH_FOLDER / "java.args"
    write_secret(path, "\n".join(lines))
    return path


def _locale() -> dict[str, str]:
    """Return the locale by which java reads a folder's name that is not ASCII."""
    return {"LC_ALL": "C.UTF-8"} if sys.platform == "linux" else {}


def mark_damaged() -> None:
    """Have the next start set the databases aside; the graphs are loaded again when needed."""
    (GRAPH_FOLDER / "damaged").touch()


def set_aside() -> str:
    """Move databases that are marked as damaged aside, and return their new name, if any."""
    mark, databases = GRAPH_FOLDER / "damaged", GRAPH_FOLDER / "databases"
    if not mark.exists() or not databases.exists():
        return ""
    mark.unlink()
    return databases.replace(databases.with_name(f"databases.bad-{secrets.token_hex(4)}")).name
