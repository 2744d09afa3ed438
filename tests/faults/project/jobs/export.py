"""Four hundred requests, stored and written to a file."""

import sys
from pathlib import Path

from helpers import requests
from resources.settings import run_command_line

stored = [
    requests.Row(
        requests.request_key("chat", "w", {}, [i]),
        "chat",
        "w",
        "{}",
        f"[{i}]",
        "{}",
        1,
        1,
        0.5,
        "e",
        "2026",
    )
    for i in range(400)
]
requests.Store(requests.STORE).add([row.sealed() for row in stored])
if code := run_command_line(lambda: requests.main(["export", "out.parquet"])):
    sys.exit(code)
rows = requests.read(Path("out.parquet"))
print(len(rows), rows[0].key, rows[-1].key)
