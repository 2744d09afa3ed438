"""The bundled sample: made by its script, in the format of the real files, balanced and consistent."""

from __future__ import annotations

import csv
import runpy
from collections import Counter
from pathlib import Path

import pytest
import yaml

from resources.datasets import locate
from resources.registry import registry
from resources.settings import SAMPLE

FILES = ("data_format_a", "evaluation_dataset", "drug_names", "side_effects")


def rows(name: str) -> list[dict[str, str]]:
    with locate(f"side_effects/{name}.csv", "sample").path.open(
        encoding="utf-8", newline=""
    ) as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def knowledge() -> dict[str, list[str]]:
    return dict(yaml.safe_load((SAMPLE / "side_effects.yml").read_text(encoding="utf-8")))


def test_the_script_reproduces_the_committed_files(tmp_path: Path) -> None:
    runpy.run_path(str(SAMPLE / "make_sample.py"))["write_sample"](tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{name}.csv" for name in FILES)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (SAMPLE / "side_effects" / path.name).read_bytes(), path.name


def test_each_drug_has_ten_positive_and_ten_negative_pairs(knowledge: dict[str, list[str]]) -> None:
    pairs = rows("evaluation_dataset")
    counts = Counter((row["drug"], row["label"]) for row in pairs)
    assert counts == {(drug, label): 10 for drug in knowledge for label in "01"}
    assert len({(row["drug"], row["side_effect"]) for row in pairs}) == len(pairs)


def test_labels_agree_with_the_knowledge(knowledge: dict[str, list[str]]) -> None:
    for row in rows("evaluation_dataset"):
        assert (row["side_effect"] in knowledge[row["drug"]]) == (row["label"] == "1"), row
        assert row["query"] == f"Is {row['side_effect']} an adverse effect of {row['drug']}?"


def test_the_texts_list_the_knowledge(knowledge: dict[str, list[str]]) -> None:
    texts = {row["drug"]: row["text"] for row in rows("data_format_a")}
    assert texts.keys() == knowledge.keys() == {row["drug_name"] for row in rows("drug_names")}
    for drug, effects in knowledge.items():
        assert len(set(effects)) == len(effects) >= 12
        assert texts[drug].endswith(f": {', '.join(effects)}")


def test_one_term_has_a_comma_in_its_name_and_is_asked_about() -> None:
    positive = {row["side_effect"] for row in rows("evaluation_dataset") if row["label"] == "1"}
    assert "hallucination, visual" in positive
    assert {row["side_effect_name"] for row in rows("side_effects")} >= positive


@pytest.mark.parametrize("name", FILES)
def test_the_columns_are_those_of_the_real_file(name: str) -> None:
    real = SAMPLE.parent / "raw" / "side_effects" / f"{name}.csv"
    assert registry()[f"side_effects/{name}.csv"].sample == f"side_effects/{name}.csv"
    if not real.is_file():
        pytest.skip("the real file has not been fetched")
    with real.open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == list(rows(name)[0])
