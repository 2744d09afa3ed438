"""The store of requests: a key that holds what decides a reply, rows that show damage, files that travel."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sqlite3
import stat
import threading
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from helpers import requests
from helpers.requests import COLUMNS, Row, Store, StoreError, plain, read, request_key, write
from resources.settings import run_command_line

WEIGHTS = "ab" * 32 + ":bf16"


def columns_of(request: Row) -> dict[str, Any]:
    return dict(zip(COLUMNS, dataclasses.astuple(request), strict=True))


def sql(store: Store, statement: str, values: Sequence[Any] = ()) -> None:
    store._db.execute(statement, values)


def row(prompt: str, reply: str = "YES", weights: str = WEIGHTS) -> Row:
    messages = [{"role": "user", "content": prompt}]
    return Row(
        key=request_key("chat", weights, {"max_tokens": 5}, messages),
        kind="chat",
        weights=weights,
        parameters=plain({"max_tokens": 5}),
        prompt=plain(messages),
        reply=plain({"text": reply, "status": "complete"}),
        prompt_tokens=3,
        generated_tokens=1,
        seconds=0.1,
        engine="vllm 1",
        asked_at="2026-11-23T00:00:00+00:00",
    ).sealed()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(values)
def test_canonical_json_is_json_and_stable(value):
    text = plain(value)
    assert text.isascii()
    assert plain(json.loads(text)) == text


@given(st.text(), st.text())
def test_two_requests_share_a_key_only_if_they_are_the_same(a, b):
    keys = [
        request_key("chat", WEIGHTS, {}, [{"role": "user", "content": text}]) for text in (a, b)
    ]
    assert (keys[0] == keys[1]) == (a == b)


def test_all_that_decides_a_reply_decides_its_key():
    """The stored replies are found by keys that an earlier version made: this one's."""
    messages = [{"role": "user", "content": "Is rash an effect?"}]
    key = request_key("chat", WEIGHTS, {"max_tokens": 5}, messages)
    others = [
        request_key("choose", WEIGHTS, {"max_tokens": 5}, messages),
        request_key("chat", "declared:other", {"max_tokens": 5}, messages),
        request_key("chat", WEIGHTS, {"max_tokens": 6}, messages),
        request_key("chat", WEIGHTS, {"max_tokens": 5}, [*messages, *messages]),
    ]
    assert len({key, *others}) == 5
    assert request_key("chat", "declared:m", {"max_tokens": 5}, messages) == (
        "13ba332ca5c8bb6ad66f0203"
    )


def test_what_is_put_is_found_again_by_another_process_of_the_store(tmp_path):
    rows = [row(str(i)) for i in range(1200)]
    Store(tmp_path).add(rows)
    by_key = Store(tmp_path).get(r.key for r in rows)
    assert by_key == {r.key: r for r in rows}
    assert len(Store(tmp_path).rows()) == 1200


def test_a_reply_that_is_replaced_is_no_longer_checked(tmp_path):
    store = Store(tmp_path)
    store.add([row("a"), row("b")])
    store.add_checks({row("a").key: True, row("b").key: False}, "vllm 1")
    store.add([row("b", "NO")])
    keys = [row("a").key, row("b").key]
    assert store.checks(keys, "vllm 1") == {row("a").key: True}
    assert not store.checks(keys, "vllm 2")


def test_no_flipped_byte_makes_one_request_return_another_reply(tmp_path):
    rows = [row(f"question {i}", f"answer {i}") for i in range(40)]
    Store(tmp_path).add(rows)
    Store(tmp_path).close()
    db = tmp_path / "requests.sqlite"
    with sqlite3.connect(db) as open_db:
        open_db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, rng = db.read_bytes(), random.Random(1)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(5):
            damaged[rng.randrange(100, len(damaged))] ^= 1 << rng.randrange(8)
        folder = tmp_path / "damaged"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        (folder / db.name).write_bytes(bytes(damaged))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = Store(folder)
            by_key = store.get(r.key for r in rows)
            store.add([row("another")])
            store.close()
        assert all(by_key[r.key] == r for r in rows if r.key in by_key)


def test_a_row_under_another_key_is_asked_again_with_a_warning(tmp_path):
    store = Store(tmp_path)
    store.add([row("a"), row("b")])
    sql(store, "DELETE FROM requests WHERE key = ?", (row("a").key,))
    sql(store, "UPDATE requests SET key = ? WHERE key = ?", (row("a").key, row("b").key))
    with pytest.warns(UserWarning, match=str(tmp_path)):
        assert store.get([row("a").key]) == {}


def test_a_store_from_elsewhere_is_data_and_is_never_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    import pickle

    store = Store(tmp_path / "store")
    store.add([row("a")])
    sql(store, "UPDATE requests SET reply = ?", (pickle.dumps(Bomb()),))
    with pytest.warns(UserWarning, match="damaged"):
        assert store.get([row("a").key]) == {}
    assert not (tmp_path / "executed").exists()


def test_what_is_no_database_is_set_aside(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "requests.sqlite").write_bytes(b"not a database" * 100)
    write(tmp_path / "released" / "nb" / "step.parquet", [row("b")])
    with pytest.warns(
        UserWarning, match=r"Set aside as .*The reference's .* again.* medrerun requests import"
    ):
        store = Store(folder, tmp_path / "released")
    store.add([row("a")])
    assert {row("a").key, row("b").key} == store.get().keys()
    assert list(tmp_path.glob("store.corrupt-*"))


def test_where_the_references_requests_are_missing_a_warning_says_how_to_restore_them(tmp_path):
    released = tmp_path / "data" / "requests"
    with pytest.warns(UserWarning, match=f"git checkout -- {released}"):
        assert Store(tmp_path / "store", released).rows() == []
    write(released / "nb" / "step.parquet", [row("a")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(tmp_path / "store", released).rows() == [row("a")]


def test_a_store_that_cannot_be_opened_stops_no_run(tmp_path):
    folder = tmp_path / "store"
    (folder / "requests.sqlite").mkdir(
        parents=True
    )  # as on a full disk or with a lock: an error of a whole store
    with pytest.warns(UserWarning, match=str(folder)):
        store = Store(folder)
    store.add([row("a")])
    assert row("a").key in store.get([row("a").key])  # as long as the process lives
    assert [path.name for path in folder.iterdir()] == ["requests.sqlite"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_a_read_only_store_can_be_read(tmp_path):
    Store(tmp_path).add([row("a")])
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert row("a").key in Store(tmp_path).get([row("a").key])


def test_a_full_disk_warns_once_and_the_run_goes_on(tmp_path):
    store = Store(tmp_path)
    sql(store, "PRAGMA max_page_count = 12")
    big = [row(str(i), "x" * 5000) for i in range(30)]
    with pytest.warns(UserWarning, match=str(tmp_path)) as caught:
        for request in big:
            store.add([request])
    assert len(caught) == 1
    assert 0 < len(store.get(r.key for r in big)) < 30


def test_many_threads_write_at_once(tmp_path):
    stores = [Store(tmp_path), Store(tmp_path)]

    def work(number: int) -> None:
        for i in range(25):
            stores[number % 2].add([row(f"{number} {i}")])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores[0].rows()) == 150


def test_a_store_of_an_older_version_is_read_and_written_on(tmp_path):
    old = [name for name in COLUMNS if name not in ("served_sha256", "precision")]
    with sqlite3.connect(tmp_path / "requests.sqlite") as db:
        db.execute(f"CREATE TABLE requests ({', '.join(old)}, PRIMARY KEY (key)) WITHOUT ROWID")
        values = [columns_of(row("a"))[name] for name in old]
        db.execute(f"INSERT INTO requests VALUES ({', '.join('?' * len(old))})", values)
    db.close()
    new = dataclasses.replace(row("b"), served_sha256="cd" * 32, precision="gguf").sealed()
    Store(tmp_path).add([new])
    by_key = Store(tmp_path).get()
    assert by_key == {r.key: r for r in (row("a"), new)}
    assert [by_key[r.key].source for r in (row("a"), new)] == ["vllm 1 (bf16)", "vllm 1 (gguf)"]


def test_a_file_of_an_older_version_is_read_and_every_later_column_is_checked(tmp_path):
    old = [name for name in COLUMNS if name not in ("served_sha256", "precision")]
    table = pa.table({name: [columns_of(row("a"))[name]] for name in old})
    pq.write_table(table, tmp_path / "old.parquet")
    assert read(tmp_path / "old.parquet") == [row("a")]
    sealed = dataclasses.replace(row("a"), precision="gguf").sealed()
    assert sealed.intact
    assert not dataclasses.replace(sealed, precision="int8").intact
    assert not dataclasses.replace(row("a"), precision="int8").intact


# --------------------------------------------------------------------------------------------------- files that travel


def test_the_same_rows_give_the_same_bytes_in_any_order(tmp_path):
    rows = [row(str(i)) for i in range(50)]
    write(tmp_path / "a.parquet", rows)
    write(tmp_path / "b.parquet", rows[::-1])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert [r.reply for r in read(tmp_path / "a.parquet")] == [
        r.reply for r in sorted(rows, key=lambda r: r.key)
    ]


def test_prompts_can_be_left_out_and_the_rows_are_still_found_by_who_has_them(tmp_path):
    write(tmp_path / "released" / "nb" / "step.parquet", [row("a licensed text")], prompts=False)
    assert b"licensed" not in (tmp_path / "released" / "nb" / "step.parquet").read_bytes()
    by_key = Store(tmp_path / "store", tmp_path / "released").get([row("a licensed text").key])
    assert by_key[row("a licensed text").key].reply == row("a licensed text").reply


def test_declared_weights_stay_on_their_machine(tmp_path):
    write(tmp_path / "a.parquet", [row("a"), row("b", weights="declared:my-model")])
    assert [r.prompt for r in read(tmp_path / "a.parquet")] == [row("a").prompt]


def test_a_store_takes_in_released_rows_once_and_again_when_they_change(tmp_path):
    released = tmp_path / "released" / "nb"
    write(released / "step.parquet", [row("a")])
    store = Store(tmp_path / "store", tmp_path / "released")
    assert list(store.get([row("a").key, row("b").key])) == [row("a").key]
    write(released / "step.parquet", [row("a"), row("b")])
    again = Store(tmp_path / "store", tmp_path / "released")
    assert len(again.get([row("a").key, row("b").key])) == 2


def test_stores_merge_and_refuse_another_reply_to_the_same_request(tmp_path):
    own, others = Store(tmp_path / "mine"), Store(tmp_path / "yours")
    own.add([row("a")])
    others.add([row("a"), row("b")])
    assert own.merge(tmp_path / "yours") == 1
    write(tmp_path / "other.parquet", [row("b", "NO")])
    with pytest.raises(StoreError, match=r"other\.parquet answers 1 stored requests differently"):
        own.merge(tmp_path / "other.parquet")


def test_requests_travel_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(requests, "STORE", tmp_path / "mine")
    Store(tmp_path / "mine").add([row("a"), row("b", weights="declared:my-model")])
    assert requests.main(["export", str(tmp_path / "out.parquet")]) == 0
    assert "1 of models without a digest stay" in capsys.readouterr().out
    monkeypatch.setattr(requests, "STORE", tmp_path / "yours")
    assert requests.main(["import", str(tmp_path / "out.parquet")]) == 0
    assert Store(tmp_path / "yours").rows() == [row("a")]
    assert (
        run_command_line(lambda: requests.main(["import", str(tmp_path / "missing.parquet")])) == 1
    )
    assert "missing.parquet" in capsys.readouterr().err
    for no_file in (["export", ""], ["export", str(tmp_path)], ["import"]):
        assert run_command_line(partial(requests.main, no_file)) == 1
        assert f"medrerun requests {no_file[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + b"x" * 50])
def test_a_damaged_file_names_itself_and_what_restores_it(tmp_path, content):
    path = tmp_path / "nb" / "step.parquet"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"step\.parquet.*git checkout"):
        read(path)


def test_a_foreign_table_or_an_edited_row_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(StoreError, match="foreign"):
        read(tmp_path / "foreign.parquet")
    edited = dataclasses.replace(row("a"), reply=plain({"text": "NO", "status": "complete"}))
    table = pa.table({name: [value] for name, value in columns_of(edited).items()})
    pq.write_table(table, tmp_path / "edited.parquet")
    with pytest.raises(StoreError, match="1 damaged"):
        read(tmp_path / "edited.parquet")
