"""Own documents: what is read in a folder, what is left out, and that nothing else is ever opened."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pypdf
import pytest

from helpers import documents
from helpers.documents import FolderError, read_folder
from helpers.texts import TextError, read

SECRET = "The password of the safe"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside that of the documents, with a file that must never be read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one document that can be read."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.txt").write_text("Records are kept for a year.")
    return folder


def write_pdf(path: Path, pages: list[str]) -> None:
    from matplotlib.backends.backend_pdf import PdfPages

    with mpl.rc_context({"pdf.fonttype": 42}), PdfPages(path) as pdf:
        for text in pages:
            figure = plt.figure()
            figure.text(0.1, 0.5, text)
            pdf.savefig(figure)
            plt.close(figure)


def texts_of(folder: Path) -> dict[str, str]:
    return {document.name: document.text for document in read_folder(folder).documents}


# -------------------------------------------------------------------------------------------------------------- links


def test_links_that_leave_the_folder_are_named_and_not_read(own: Path, outside: Path) -> None:
    secret = outside / "secret.txt"
    (own / "absolute.txt").symlink_to(secret)
    (own / "relative.txt").symlink_to(Path("..", "outside", "secret.txt"))
    (own / "folder").symlink_to(outside)
    (own / "first.txt").symlink_to(own / "second.txt")
    (own / "second.txt").symlink_to(own / "third.txt")
    (own / "third.txt").symlink_to(secret)
    (own / "up.txt").symlink_to(Path("..", "own", "..", "outside", "secret.txt"))
    (own / "passwords.txt").symlink_to("/etc/passwd")
    unpacked = own / "guide.docx" / "word"
    unpacked.mkdir(parents=True)
    (unpacked / "document.md").symlink_to(secret)
    (unpacked / "media").symlink_to(outside)
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert set(found.left_out) == {
        "absolute.txt",
        "relative.txt",
        "folder",
        "first.txt",
        "second.txt",
        "third.txt",
        "up.txt",
        "passwords.txt",
        "guide.docx/word/document.md",
        "guide.docx/word/media",
    }
    assert all("leaves the folder" in reason for reason in found.left_out.values())


def test_a_folder_whose_name_begins_alike_is_outside(own: Path) -> None:
    beside = own.with_name("own-secrets")
    beside.mkdir()
    (beside / "secret.txt").write_text(SECRET)
    (own / "b.txt").symlink_to(beside / "secret.txt")
    assert set(texts_of(own)) == {"a.txt"}


def test_a_link_that_comes_after_the_listing_is_refused(
    own: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "b.txt").write_text("Labels are printed.")
    list_files = documents._list_files

    def list_then_swap(folder: Path) -> documents._Listing:
        listing = list_files(folder)
        (own / "b.txt").unlink()
        (own / "b.txt").symlink_to(outside / "secret.txt")
        return listing

    monkeypatch.setattr(documents, "_list_files", list_then_swap)
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert "b.txt" in found.left_out


def test_the_folder_itself_may_be_a_link(own: Path, outside: Path, tmp_path: Path) -> None:
    (own / "b.txt").symlink_to(outside / "secret.txt")
    link = tmp_path / "link"
    link.symlink_to(own)
    found = read_folder(link)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert set(found.left_out) == {"b.txt"}


def test_links_within_the_folder_are_read_once(own: Path) -> None:
    store = own / ".store"
    store.mkdir()
    (store / "0f3a").write_text("Samples are kept cold.")
    (own / "b.txt").symlink_to(Path(".store", "0f3a"))
    (own / "again.txt").symlink_to("a.txt")
    (own / "sub").mkdir()
    (own / "sub" / "round").symlink_to(own)
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt", "b.txt"]
    assert set(found.left_out) == {".store", "again.txt", "sub/round"}


def test_links_that_lead_nowhere_are_named(own: Path) -> None:
    (own / "gone.txt").symlink_to(own / "nowhere.txt")
    (own / "itself.txt").symlink_to("itself.txt")
    for number in range(2000):
        (own / f"chain{number}.txt").symlink_to(f"chain{number + 1}.txt")
    left_out = read_folder(own).left_out
    assert "broken link" in left_out["gone.txt"]
    assert "cannot be opened" in left_out["itself.txt"]
    assert "cannot be opened" in left_out["chain0.txt"]


# ------------------------------------------------------------------------------------------- what is no ordinary file


def test_pipes_sockets_and_devices_are_named_and_never_opened(own: Path) -> None:
    os.mkfifo(own / "pipe.txt")
    os.mkfifo(own / "pipe.pdf")
    server = socket.socket(socket.AF_UNIX)
    here = os.open(own, os.O_RDONLY)
    server.bind(f"/proc/self/fd/{here}/socket.md")
    (own / "null.txt").symlink_to("/dev/zero")
    found = read_folder(own)
    os.close(here)
    server.close()
    assert [document.name for document in found.documents] == ["a.txt"]
    assert "a device" in found.left_out["pipe.txt"]
    assert set(found.left_out) == {"pipe.txt", "pipe.pdf", "socket.md", "null.txt"}


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(TextError, match="a pipe"):
        read(tmp_path / "pipe.csv")


@pytest.mark.parametrize("name", ["huge.txt", "huge.md", "huge.pdf"])
def test_a_sparse_file_is_left_out(own: Path, name: str) -> None:
    with (own / name).open("wb") as file:
        file.truncate(20 * 2**30)
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert "100 MB" in found.left_out[name]


def test_a_file_system_of_the_kernel_has_no_documents() -> None:
    with pytest.raises(FolderError) as error:
        read_folder(Path("/proc"))
    assert len(str(error.value)) < 20_000
    assert "\n" not in str(error.value)


def test_a_folder_of_too_many_files_is_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_ENTRIES", 10)
    for number in range(10):
        (own / f"{number}.txt").write_text("Labels are printed.")
    with pytest.raises(FolderError, match="At most 10 files"):
        read_folder(own)


def test_text_beyond_the_limit_is_named(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_CHARACTERS", 40)
    (own / "b.txt").write_text("Samples are kept cold.")
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert "more than 40 characters" in found.left_out["b.txt"]


def test_what_may_not_be_opened_is_named(own: Path) -> None:
    closed = own / "closed"
    closed.mkdir()
    (own / "mine.txt").write_text("Labels are printed.")
    closed.chmod(0)
    (own / "mine.txt").chmod(0)
    try:
        found = read_folder(own)
    finally:
        closed.chmod(0o700)
    if os.geteuid() == 0:
        pytest.skip("the superuser opens everything")
    assert set(found.left_out) == {"closed", "mine.txt"}
    assert all("cannot be opened" in reason for reason in found.left_out.values())


# ------------------------------------------------------------------------------------------------------- what is read


def test_text_and_pdf_are_read(own: Path) -> None:
    write_pdf(own / "two.pdf", ["Storage of samples", "Transport of samples"])
    text = texts_of(own)["two.pdf"]
    assert "Storage of samples" in text
    assert "Transport of samples" in text


def test_what_cannot_be_read_is_left_out_with_the_reason_and_the_rest_is_read(own: Path) -> None:
    write_pdf(own / "open.pdf", ["Storage of samples"])
    locked = pypdf.PdfWriter(clone_from=own / "open.pdf")
    locked.encrypt("secret", algorithm="RC4-128")
    locked.write(own / "locked.pdf")
    write_pdf(own / "scan.pdf", [""])
    (own / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    (own / "marked.txt").write_text("5 \u00b5g a day", encoding="utf-16")
    (own / "unmarked.txt").write_text("5 mg a day", encoding="utf-16-le")
    (own / "latin.txt").write_text("5 \u00b5g a day", encoding="latin-1")
    (own / "binary.md").write_bytes(b"a\0b")
    (own / "empty.txt").touch()
    (own / "empty.pdf").touch()
    (own / "image.png").write_bytes(b"no document")
    (own / "README").write_text("no ending")
    (own / "folder.txt").mkdir()
    (own / "folder.txt" / "within.txt").write_text("Samples are kept cold.")
    found = read_folder(own)
    assert [document.name for document in found.documents] == [
        "a.txt",
        "folder.txt/within.txt",
        "marked.txt",
        "open.pdf",
    ]
    assert texts_of(own)["marked.txt"] == "5 \u00b5g a day"
    reasons = {
        "locked.pdf": "encrypted",
        "scan.pdf": "Run OCR",
        "broken.pdf": "cannot be read as PDF",
        "unmarked.txt": "NUL",
        "latin.txt": "UTF-8",
        "binary.md": "NUL",
        "empty.txt": "no text",
        "empty.pdf": "PDF",
        "image.png": ".png are not read",
        "README": "without an ending",
    }
    assert set(found.left_out) == set(reasons)
    for name, reason in reasons.items():
        assert reason in found.left_out[name]
        assert "\n" not in found.left_out[name]


@pytest.mark.parametrize(
    "hidden",
    [".ipynb_checkpoints/guide-checkpoint.md", ".git/description.txt", ".notes.txt", "~$guide.md"],
)
def test_what_is_hidden_is_left_out(own: Path, hidden: str) -> None:
    path = own / hidden
    path.parent.mkdir(exist_ok=True)
    path.write_text("Unnamed repository; edit this file.")
    found = read_folder(own)
    assert [document.name for document in found.documents] == ["a.txt"]
    assert found.left_out == {hidden.partition("/")[0]: "it is hidden."}


def test_a_hidden_folder_is_read_if_it_is_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / ".own").mkdir()
    (tmp_path / ".own" / "a.txt").write_text("Labels are printed.")
    assert set(texts_of(tmp_path / ".own")) == {"a.txt"}


def test_names_are_told_apart_and_can_be_printed(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"caf\xe8.txt", b"two\nlines.txt", b"\x1b[31mred.txt"):
        (tmp_path / os.fsdecode(name)).write_text("Labels are printed.")
    names = set(texts_of(tmp_path))
    assert len(names) == 4
    assert "caf\ufffd.txt" in names
    assert all(name.isprintable() for name in names)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path
    for _ in range(1500):
        folder /= "d"
        folder.mkdir()
    yield folder
    # Python's own way goes less deep.
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


def test_folders_within_folders_are_read_however_deep(deep: Path, tmp_path: Path) -> None:
    (deep / "x.txt").write_text("Records are kept for a year.")
    found = read_folder(tmp_path)
    assert (len(found.documents), found.left_out) == (1, {})


def test_a_folder_without_documents_says_what_it_found(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="There is no folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(FolderError, match="it is empty"):
        read_folder(tmp_path)
    for number in range(20):
        (tmp_path / f"{number}.png").touch()
    with pytest.raises(FolderError, match=r"15 more: files that end in \.png are not read"):
        read_folder(tmp_path)
