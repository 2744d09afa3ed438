"""Write the bundled sample from `side_effects.yml`, in the format of the real files.

Run as `python data/sample/make_sample.py`. Each drug gets ten positive pairs (effects listed for it) and ten
negative ones (effects listed for other drugs only), as in the paper's benchmark (Methods, "Evaluation subset").
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

HERE = Path(__file__).parent
SEED = "sample 1"
PAIRS = 10


def write_sample(folder: Path = HERE / "side_effects") -> None:
    """Write the four files of the side-effect sample to `folder`, the same bytes each time."""
    known: dict[str, list[str]] = yaml.safe_load((HERE / "side_effects.yml").read_text(encoding="utf-8"))
    vocabulary = {effect for effects in known.values() for effect in effects}
    pairs: list[tuple[str, str, int]] = []
    for drug, effects in known.items():
        pairs += [(drug, effect, 1) for effect in _drawn(drug, effects)]
        pairs += [(drug, effect, 0) for effect in _drawn(drug, vocabulary.difference(effects))]
    intro = "The drug {} causes the following side effects or adverse reactions: {}"
    texts = [(drug, intro.format(drug, ", ".join(effects)), "A") for drug, effects in known.items()]
    queries = [(drug, effect, label, f"Is {effect} an adverse effect of {drug}?") for drug, effect, label in pairs]
    asked = dict.fromkeys(effect for _, effect, _ in pairs)

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "data_format_a.csv", ["drug", "text", "format"], texts)
    _write(folder / "evaluation_dataset.csv", ["drug", "side_effect", "label", "query"], queries)
    _write(folder / "drug_names.csv", ["drug_name"], [(drug,) for drug in known])
    _write(folder / "side_effects.csv", ["side_effect_name"], [(effect,) for effect in asked])


def _drawn(drug: str, effects: Iterable[str]) -> list[str]:
    """A draw that depends on `SEED` alone: neither on the order given nor on Python's version or hash seed."""
    return sorted(effects, key=lambda effect: hashlib.sha256(f"{SEED}/{drug}/{effect}".encode()).digest())[:PAIRS]


def _write(path: Path, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    write_sample()
