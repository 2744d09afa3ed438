"""Write the bundled samples from `side_effects.yml` and `drug_interactions.yml`, in the format of the real files.

Run as `python data/sample/make_sample.py`. Side effects: each drug gets ten positive pairs (effects listed for it) and
ten negative ones (effects listed for other drugs only), as in the paper's benchmark (Methods, "Evaluation subset").
Drug interactions: sentences with drugs put in, as the archive of the DDI corpus and as the files of ADE-Corpus-V2, and
answered questions, as the archive of MedQuAD's judged answers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SEED = "sample 1"
PAIRS = 10
PARTS = {
    "Train/DrugBank": 24,
    "Train/MedLine": 8,
    "Test/Test for DDI Extraction task/DrugBank": 8,
    "Test/Test for DDI Extraction task/MedLine": 4,
    "Test/Test for DrugNER task/DrugBank": 3,
    "Test/Test for DrugNER task/MedLine": 3,
}
"""Documents of each part of the DDI archive."""
ARTICLES = 30


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


# ------------------------------------------------------------------------------------------------- drug interactions


def write_interactions(folder: Path = HERE / "drug_interactions") -> None:
    """Write the five files of the drug-interaction sample to `folder`, the same bytes each time."""
    source = yaml.safe_load((HERE / "drug_interactions.yml").read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    # stored, not deflated: the bytes do not depend on a library's version
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "w", zipfile.ZIP_STORED) as archive:
        for part, documents in PARTS.items():
            for number in range(documents):
                corpus = part.rsplit("/", 1)[1]
                id = f"DDI-{corpus}.d{list(PARTS).index(part)}{number:02d}"
                text = _ddi_document(id, source, marks_pairs="DrugNER" not in part)
                archive.writestr(zipfile.ZipInfo(f"DDICorpus/{part}/{id}.xml"), text)
    effects, doses, negatives = _ade_lines(source)
    for name, lines in (("DRUG-AE.rel", effects), ("DRUG-DOSE.rel", doses), ("ADE-NEG.txt", negatives)):
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["AnswerID", "Answer"])
    for number, (question, text) in enumerate(source["answers"].items()):
        # of these two addresses MedQuAD has the first for drugs alone
        page = "healthtopics" if question.startswith("What is (are)") else "druginfo/meds"
        url = f"https://medlineplus.example/{page}/s{number}.html"
        writer.writerow([f"Sample_{number}.txt", f"Question: {question}\nURL: {url}\nAnswer: {text}) \n"])
    with zipfile.ZipFile(folder / "medquad_answers.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("answers/All-Answers.csv"), table.getvalue())


def _ddi_document(id: str, source: Mapping[str, Any], *, marks_pairs: bool) -> bytes:
    document = ET.Element("document", id=id)
    for number, template in enumerate(_few(id, source["interactions"], 4)):
        sid = f"{id}.s{number}"
        names = dict(zip("abc", _few(sid, list(source["substances"]), 3), strict=True))
        text, places = _filled(template["text"], names)
        sentence = ET.SubElement(document, "sentence", id=sid, text=text)
        letters = sorted(places, key=lambda letter: places[letter])
        for i, letter in enumerate(letters):
            start, end = places[letter]
            kind = source["substances"][names[letter]]
            at = f"{start}-{end - 1}"
            ET.SubElement(sentence, "entity", id=f"{sid}.e{i}", charOffset=at, type=kind, text=text[start:end])
        known = {frozenset(pair[:2]): pair[2] for pair in template["pairs"]} if marks_pairs else {}
        pairs = [(i, j) for i in range(len(letters)) for j in range(i + 1, len(letters))]
        for number_of_pair, (i, j) in enumerate(pairs):
            kind = known.get(frozenset((letters[i], letters[j])))
            told = {"ddi": "true", "type": kind} if kind else {"ddi": "false"}
            ET.SubElement(sentence, "pair", id=f"{sid}.p{number_of_pair}", e1=f"{sid}.e{i}", e2=f"{sid}.e{j}", **told)
    return ET.tostring(document, encoding="utf-8")


def _ade_lines(source: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Lines of the three files. Offsets count from an abstract's start, which is taken to lie 40 characters before."""
    drugs = [name for name, kind in source["substances"].items() if kind == "drug"]
    effects, doses, negatives = [], [], []
    for number in range(ARTICLES):
        article = str(9_000_000 + number)
        for template in _few(article, source["reports"], 3):
            e, f = _few(article + template["text"], source["effects"], 2)
            names = {"d": _few(article, drugs, 1)[0], "e": e, "f": f}
            text, places = _filled(template["text"], names)
            if not template["pairs"]:
                negatives.append(f"{article} NEG {text}")
            for drug, effect in template["pairs"]:
                fields = [
                    str(field)
                    for letter in (effect, drug)
                    for field in (text[slice(*places[letter])], *(40 + at for at in places[letter]))
                ]
                effects.append("|".join([article, text, *fields]))
            if "two tablets" in text:
                at = text.index("two tablets")
                start, end = places["d"]
                dose = ["two tablets", 40 + at, 51 + at, text[start:end], 40 + start, 40 + end]
                doses.append("|".join([article, text, *map(str, dose)]))
    return effects, doses, negatives


def _filled(template: str, names: Mapping[str, str]) -> tuple[str, dict[str, tuple[int, int]]]:
    """The sentence with names put in, and where each letter's name stands."""
    text, places = "", {}
    for part in re.split(r"(\{\w\})", template):
        name = names[part[1]] if re.fullmatch(r"\{\w\}", part) else None
        if name is not None:
            places[part[1]] = (len(text), len(text) + len(name))
        text += part if name is None else name
    return text, places


def _few(seed: str, items: Sequence[Any], n: int) -> list[Any]:
    """So many of the items, in an order that depends on the seed alone."""
    return sorted(items, key=lambda item: hashlib.sha256(f"{SEED}/{seed}/{item}".encode()).digest())[:n]


if __name__ == "__main__":
    write_sample()
    write_interactions()
