"""The built book as one PDF (make pdf): Chromium prints each page; they are joined in order."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pypdf import PdfReader, PdfWriter
from tqdm import tqdm

from publish.book import SITE, STAGED
from publish.doctor import GET_CHROMIUM, browser
from resources.settings import BUILD, PublicError, run_command_line

PDF = BUILD / "book.pdf"
SECONDS = 120  # that Chromium may take for one page


class PdfError(PublicError, RuntimeError):
    """The book cannot be printed; the message says what is missing and what to do."""


def pages(contents: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(part, page) of a table of contents, in reading order; the first page is of no part."""
    yield "", str(contents["root"])
    for part in contents["parts"]:
        for chapter in part["chapters"]:
            for page in (chapter, *chapter.get("sections", ())):
                yield str(part["caption"]), str(page["file"])


def print_page(chromium: str, page: Path, out: Path) -> None:
    """Have Chromium print a local page, without a network; a PdfError if it does not."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
        ]
        command += [
            "--no-pdf-header-footer",
            "--virtual-time-budget=5000",
            f"--print-to-pdf={out}",
            page.as_uri(),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PdfError(f"{chromium} did not print {page}: {error}") from error
    if done.returncode or not out.is_file():
        raise PdfError(f"{chromium} did not print {page}:\n{done.stderr[-800:]}")


def join(printed: Sequence[tuple[str, str, Path]], out: Path) -> None:
    """Join (part, title, file) to one PDF with an outline, whole or not at all."""
    partial = out.with_name(f"{out.name}.part")
    with PdfWriter() as writer:
        parts: dict[str, Any] = {}
        for part, title, file in printed:
            first = len(writer.pages)
            writer.append(PdfReader(file), import_outline=False)
            if part and part not in parts:
                parts[part] = writer.add_outline_item(title=part, page_number=first)
            writer.add_outline_item(title=title, page_number=first, parent=parts.get(part))
        writer.write(partial)
    partial.replace(out)


def main() -> int:
    """Print the book that is built, and say where the PDF is."""
    if (chromium := browser()) is None:
        raise PdfError(f"A PDF needs Chromium, and there is none. {GET_CHROMIUM}")
    contents = STAGED / "_toc.yml"
    if not contents.is_file() or not SITE.is_dir():
        raise PdfError(f"There is no built book in {SITE}: run `make book` first.")
    table_of_contents = yaml.safe_load(contents.read_text("utf-8"))
    printed: list[tuple[str, str, Path]] = []
    with tempfile.TemporaryDirectory() as folder:
        for part, page in tqdm([*pages(table_of_contents)], unit="page", desc="printed"):
            file = Path(folder) / f"{len(printed):03}.pdf"
            print_page(chromium, SITE / f"{page}.html", file)
            about = PdfReader(file).metadata
            printed.append((part, (about and about.title) or page, file))
        join(printed, PDF)
    sys.stdout.write(f"The book is in {PDF}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
