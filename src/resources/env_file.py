"""Read `.env`, and say what make must know of the settings, with the standard library alone.

python3 src/resources/env_file.py PROFILE|RUN...

prints a line for each name. `RUN` is the folder of the profile's runs under `_build`. A value that
is printed has letters, digits and `.@_-` only, so that a shell can take it.
"""

import os
import re
import stat
import sys
from pathlib import Path

ROOT = Path(os.environ.get("MEDRAG_ROOT", Path(__file__).resolve().parents[2]))
"""The project's folder. `MEDRAG_ROOT` moves it, so that a test can work in a folder of its own."""
DEFAULT_PROFILE = "laptop"
MAX_BYTES = 1_000_000
"""Bytes that `.env` may have; it needs a few hundred."""

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_SINGLE_QUOTED = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPED = re.compile(r'\\([\\"$n])')
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_MODEL = re.compile(r"^  llm_model:[ \t]*[\"']?([^\"'\s#]*)", re.MULTILINE)


class EnvFileError(ValueError):
    """`.env` cannot be used; the message says why, in one line without a value of it."""


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of an environment file; none if there is no such file.

    A line is `NAME=value`, with `export` before it or not. A value may stand in single quotes, as
    it is, or in double quotes, with backslashes. Elsewhere than in single quotes `${NAME}` stands
    for a variable of the environment or of an earlier line. The last line of a name counts.

    Raises:
        EnvFileError: It is no regular file, too large, no text or has a line of another form.
    """
    text = _read_text(path)
    values: dict[str, str] = {}
    for number, raw_line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw_line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = _parse_value(match[2], values) if match else None
        if match is None or value is None:
            raise EnvFileError(
                f"Line {number} of {path} is not NAME=value. Correct it, or begin it with #."
            )
        values[match[1]] = value
    return values


def _read_text(path: Path) -> str:
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # a pipe would be waited for
            raise EnvFileError(f"{path} is no regular file. Remove it, or write the lines in one.")
        if state.st_size > MAX_BYTES:
            raise EnvFileError(
                f"{path} has {state.st_size:,} bytes; at most {MAX_BYTES:,} are read. Shorten it."
            )
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise EnvFileError(
            f"{path} cannot be read ({error.strerror}). Make it readable, or remove it."
        ) from None
    return _decode(content, path)


def _decode(content: bytes, path: Path) -> str:
    """Decode UTF-8, with a mark or without, and UTF-16 with a mark."""
    is_utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise EnvFileError(f"Line {number} of {path} is not UTF-8. Save it as UTF-8.") from None
    if "\0" in text:
        raise EnvFileError(f"{path} is no text, or UTF-16 without its mark. Save it as UTF-8.")
    return text


def _parse_value(text: str, values: dict[str, str]) -> str | None:
    """Return the value of a line, or None if its quotes do not end where it does."""
    if text.startswith("'"):
        match = _SINGLE_QUOTED.fullmatch(text)
        return match[1] if match else None
    if not text.startswith('"'):
        return _expand(re.split(r"(?:^|\s)#", text)[0].strip(), values)
    match = _DOUBLE_QUOTED.fullmatch(text)
    if match is None:
        return None
    expanded = _expand(match[1], values)
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], expanded)


def _expand(text: str, values: dict[str, str]) -> str:
    def look_up(match: re.Match[str]) -> str:
        return os.environ.get(match[1], values.get(match[1], ""))

    return _REFERENCE.sub(look_up, text)


def run_name(profile: str, model: str, own_model: str) -> str:
    """Return the folder of a profile's runs; another one for a model that is not the profile's."""
    return model_run_name(profile, model) if model and model != own_model else profile


def model_run_name(profile: str, model: str) -> str:
    """Return the folder of a profile's runs with a model that is not its own."""
    return f"{profile}@{re.sub(r'[^A-Za-z0-9.-]+', '_', model)}"


def _own_model(profile: str) -> str:
    """Return the profile's own model; make asks for it before there is a reader of YAML."""
    path = ROOT / "notebooks" / "profiles" / f"{profile}.yml"
    try:
        match = _OWN_MODEL.search(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):  # whatever reads the profile says so
        return ""
    return match[1] if match else ""


def main(names: list[str]) -> int:
    """Print the profile or the folder of its runs, a line for each name that is asked for."""
    try:
        from_file = read_env_file(ROOT / ".env")
    except EnvFileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    profile = os.environ.get("PROFILE") or from_file.get("PROFILE") or DEFAULT_PROFILE
    if not re.fullmatch(r"[A-Za-z0-9_-]+", profile):
        sys.stderr.write("PROFILE must have letters, digits, _ and - only. Set it to smoke.\n")
        return 1
    model = os.environ.get("LLM_MODEL") or from_file.get("LLM_MODEL") or ""
    known = {"PROFILE": profile, "RUN": run_name(profile, model, _own_model(profile))}
    for name in names:
        sys.stdout.write(f"{known[name]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
