"""How the embedded graph is served: ArcadeDB over Bolt, with a user who loads and one who may only read."""

import importlib.util
import json
import secrets
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from resources.engine_install import EngineError
from resources.engines import Launch, write_secret
from resources.settings import BUILD, LOGS

GRAPH_FOLDER = (
    BUILD / "graph"
)  # loaded anew from the data; below BUILD, as the lock of its server is

RIGHTS = {
    "admin": (
        ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
        ["createRecord", "readRecord", "updateRecord", "deleteRecord"],
    ),
    "reader": ([], ["readRecord"]),
}
"""Of the users `root` and `reader`: on the database, and on its records."""


def graph_launch(port: int, http_port: int, database: str, say: Callable[[str], None]) -> Launch:
    """How to serve ArcadeDB's data over Bolt on a loopback port, damaged ones set aside; an EngineError without it."""
    spec = importlib.util.find_spec("arcadedb_embedded")
    if spec is None or spec.origin is None:
        raise EngineError(
            "The embedded graph needs the package arcadedb-embedded: run `make setup`, or set NEO4J_URI."
        )
    package, config = Path(spec.origin).parent, GRAPH_FOLDER / "config"
    config.mkdir(parents=True, exist_ok=True)
    groups = {
        group: {
            "access": access,
            "resultSetLimit": -1,
            "readTimeout": -1,
            "types": {"*": {"access": records}},
        }
        for group, (access, records) in RIGHTS.items()
    }
    (config / "server-groups.json").write_text(
        json.dumps({"databases": {"*": {"groups": groups}}, "version": 1})
    )
    # new passwords at each start: else the server holds on to the users that it has; the databases do not need them
    (config / "server-users.jsonl").unlink(missing_ok=True)
    root, reader = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    if aside := set_aside():
        say(f"The graph's databases are damaged; they were set aside as {aside}.")
    say("Starting the embedded graph server ...")
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
        # milliseconds; the driver's own timeouts are not obeyed, and what a client gives up on runs on until then
        "command.timeout": 15_000,
        "opencypher.loadCsv.allowFileUrls": "false",
        "opencypher.loadCsv.allowRemoteUrls": "false",
    }
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
    # an argument file keeps the passwords off the command line
    arguments_file = GRAPH_FOLDER / "java.args"
    write_secret(
        arguments_file,
        "\n".join('"' + a.replace("\\", "\\\\").replace('"', '\\"') + '"' for a in arguments),
    )
    return Launch(
        name="graph",
        command=[str(package / "jre" / "bin" / "java"), f"@{arguments_file}"],
        environment={},
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


def mark_damaged() -> None:
    """Have the next start set the databases aside; what they held is loaded again when it is needed."""
    (GRAPH_FOLDER / "damaged").touch()


def set_aside() -> str:
    """Move databases that are marked as damaged aside, and return their new name; empty if there are none."""
    mark, databases = GRAPH_FOLDER / "damaged", GRAPH_FOLDER / "databases"
    if not mark.exists() or not databases.exists():
        return ""
    mark.unlink()
    return databases.replace(databases.with_name(f"databases.bad-{secrets.token_hex(4)}")).name
