"""How the embedded graph is served: ArcadeDB over Bolt, with a user who loads and one who may only read."""

from __future__ import annotations

import importlib.util
import json
import secrets
from importlib.metadata import version
from pathlib import Path

from helpers.engine_install import EngineError
from helpers.engines import Launch, write_secret
from helpers.settings import DATA, LOGS


def graph_launch(folder: Path, port: int, http_port: int, passwords: dict[str, str], database: str) -> Launch:
    """How to serve an ArcadeDB data folder over Bolt on a loopback port.

    Two users: `root`, who loads, and `reader`, whose group may read records and nothing else. The passwords are kept
    in the data folder by the server, so the caller keeps them beside it.

    Raises:
        EngineError: the package `arcadedb-embedded` is missing.
    """
    spec = importlib.util.find_spec("arcadedb_embedded")
    if spec is None or spec.origin is None:
        raise EngineError("The embedded graph needs the package arcadedb-embedded: run `make setup`, or set NEO4J_URI.")
    package = Path(spec.origin).parent
    config = folder / "config"
    config.mkdir(parents=True, exist_ok=True)
    # `reader` may read records of every type: no schema changes, no writes
    groups = {
        "databases": {
            "*": {
                "groups": {
                    "admin": {
                        "access": ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
                        "resultSetLimit": -1,
                        "readTimeout": -1,
                        "types": {"*": {"access": ["createRecord", "readRecord", "updateRecord", "deleteRecord"]}},
                    },
                    "reader": {
                        "access": [],
                        "resultSetLimit": -1,
                        "readTimeout": -1,
                        "types": {"*": {"access": ["readRecord"]}},
                    },
                }
            }
        },
        "version": 1,
    }
    (config / "server-groups.json").write_text(json.dumps(groups, indent=2))
    properties = {
        "server.rootPath": folder,
        "server.rootPassword": passwords["root"],
        "server.mode": "development",  # production hides the reason of an error from the client
        "server.httpIncomingHost": "127.0.0.1",
        "server.httpIncomingPort": http_port,
        "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "server.logsDirectory": LOGS,
        "bolt.host": "127.0.0.1",
        "bolt.port": port,
        "bolt.defaultDatabase": database,
        "server.defaultDatabases": f"{database}[reader:{passwords['reader']}:reader]",
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
    arguments_file = folder / "java.args"
    write_secret(arguments_file, "\n".join('"' + a.replace("\\", "\\\\").replace('"', '\\"') + '"' for a in arguments))
    return Launch(
        name="graph",
        command=[str(package / "jre" / "bin" / "java"), f"@{arguments_file}"],
        environment={},
        ready_url=f"http://127.0.0.1:{http_port}/api/v1/ready",
        start_timeout=60.0,
        endpoint={
            "uri": f"bolt://127.0.0.1:{port}",
            "user": "root",
            "password": passwords["root"],
            "database": database,
            "reader_user": "reader",
            "reader_password": passwords["reader"],
            "engine": "arcadedb",
            "version": f"arcadedb-embedded {version('arcadedb-embedded')}",
            "embedded": True,
        },
    )


def graph_passwords(folder: Path) -> dict[str, str]:
    """The passwords of `root` and `reader` in an ArcadeDB data folder, made anew where they cannot be read."""
    kept = folder / "passwords.json"
    try:
        passwords = json.loads(kept.read_text())
        return {user: str(passwords[user]) for user in ("root", "reader")}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        passwords = {user: secrets.token_urlsafe(24) for user in ("root", "reader")}
    folder.mkdir(parents=True, exist_ok=True)
    # else the server holds on to the users that it has; the databases do not depend on them
    (folder / "config" / "server-users.jsonl").unlink(missing_ok=True)
    write_secret(kept, json.dumps(passwords))
    return passwords


GRAPH_FOLDER = DATA / "derived" / "graph"
