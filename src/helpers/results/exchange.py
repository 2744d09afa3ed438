"""Carries stored requests between machines.

python -m helpers.results.exchange export FILE          write this machine's requests as Parquet
python -m helpers.results.exchange import FILE ...      take in files, or the folders of other stores
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from helpers.results.requests import DECLARED, STORE, Store, StoreError, write
from helpers.settings import told


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.results.exchange", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export").add_argument("file", type=Path)
    commands.add_parser("import").add_argument("files", type=Path, nargs="*")
    options = parser.parse_args(arguments)
    store = Store(STORE)
    if options.command == "export":
        if options.file.is_dir():  # so is no name at all
            raise StoreError(f"{options.file} is a folder. Name a file: make export-requests FILE=requests.parquet")
        rows = store.rows()
        write(options.file, rows)
        own = sum(DECLARED in row.weights for row in rows)
        left = f"; {own} of models without a digest stay on this machine" if own else ""
        sys.stdout.write(f"{len(rows) - own} requests are in {options.file}{left}.\n")
    else:
        if not options.files:
            raise StoreError("Name what to take in: make import-requests FILES=requests.parquet")
        for path in options.files:
            sys.stdout.write(f"{store.merge(path)} new requests from {path}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
