"""Write the bundled samples from the YAML files beside this script, in the files' own formats.

Run as `python data/sample/make_sample.py`. Side effects: each drug gets ten positive pairs (effects
listed for it) and ten negative ones (effects listed for other drugs only), as in the paper's
benchmark (Methods, "Evaluation subset"). BiomedRAG: sentences with names put in, as the files of
its eight data sets, with what is odd about them: entities set off by spaces, every test line of GIT
twice, one row a pair in DDI, the same pair with two relations in UMLS. QA-RAG: pairs of questions
and answers, and the passages that five rankings give for some of them. Drug interactions: sentences
with drugs put in, as the archive of the DDI corpus and as the files of ADE-Corpus-V2, and answered
questions, as the archive of MedQuAD's judged answers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
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
RANKINGS = ("qa_rag", "question", "hypothetical", "ablation_question", "ablation_hypothetical")
TESTED = 2
"""Questions of each topic that the rankings of the QA-RAG sample answer."""
SHOWN = 6
RULE = "-" * 20


def write_sample(folder: Path = HERE / "side_effects") -> None:
    """Write the four files of the side-effect sample to `folder`, the same bytes each time."""
    known: dict[str, list[str]] = yaml.safe_load(
        (HERE / "side_effects.yml").read_text(encoding="utf-8")
    )
    vocabulary = {effect for effects in known.values() for effect in effects}
    pairs: list[tuple[str, str, int]] = []
    for drug, effects in known.items():
        pairs += [(drug, effect, 1) for effect in _drawn(drug, effects)]
        pairs += [(drug, effect, 0) for effect in _drawn(drug, vocabulary.difference(effects))]
    intro = "The drug {} causes the following side effects or adverse reactions: {}"
    texts = [(drug, intro.format(drug, ", ".join(effects)), "A") for drug, effects in known.items()]
    queries = [
        (drug, effect, label, f"Is {effect} an adverse effect of {drug}?")
        for drug, effect, label in pairs
    ]
    asked = dict.fromkeys(effect for _, effect, _ in pairs)

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "data_format_a.csv", ["drug", "text", "format"], texts)
    _write(folder / "evaluation_dataset.csv", ["drug", "side_effect", "label", "query"], queries)
    _write(folder / "drug_names.csv", ["drug_name"], [(drug,) for drug in known])
    _write(folder / "side_effects.csv", ["side_effect_name"], [(effect,) for effect in asked])


def _drawn(drug: str, effects: Iterable[str]) -> list[str]:
    """A draw that depends on `SEED` alone, not on the order, Python's version or its hash seed."""
    return sorted(
        effects, key=lambda effect: hashlib.sha256(f"{SEED}/{drug}/{effect}".encode()).digest()
    )[:PAIRS]


def _write(path: Path, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


# ------------------------------------------------------------------------------- drug interactions


def write_interactions(folder: Path = HERE / "drug_interactions") -> None:
    """Write the five files of the drug-interaction sample to `folder`, the same bytes each time."""
    source = yaml.safe_load((HERE / "drug_interactions.yml").read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    # stored, not deflated: the bytes do not depend on a library's version
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "w", zipfile.ZIP_STORED) as archive:
        for part, documents in PARTS.items():
            for number in range(documents):
                corpus = part.rsplit("/", 1)[1]
                name = f"DDI-{corpus}.d{list(PARTS).index(part)}{number:02d}"
                text = _ddi_document(name, source, marks_pairs="DrugNER" not in part)
                archive.writestr(zipfile.ZipInfo(f"DDICorpus/{part}/{name}.xml"), text)
    effects, doses, negatives = _ade_lines(source)
    for name, lines in (
        ("DRUG-AE.rel", effects),
        ("DRUG-DOSE.rel", doses),
        ("ADE-NEG.txt", negatives),
    ):
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["AnswerID", "Answer"])
    for number, (question, text) in enumerate(source["answers"].items()):
        # of these two addresses MedQuAD has the first for drugs alone
        page = "healthtopics" if question.startswith("What is (are)") else "druginfo/meds"
        url = f"https://medlineplus.example/{page}/s{number}.html"
        writer.writerow(
            [f"Sample_{number}.txt", f"Question: {question}\nURL: {url}\nAnswer: {text}) \n"]
        )
    with zipfile.ZipFile(folder / "medquad_answers.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("answers/All-Answers.csv"), table.getvalue())


def _ddi_document(document_id: str, source: Mapping[str, Any], *, marks_pairs: bool) -> bytes:
    document = ET.Element("document", id=document_id)
    for number, template in enumerate(_few(document_id, source["interactions"], 4)):
        sid = f"{document_id}.s{number}"
        names = dict(zip("abc", _few(sid, list(source["substances"]), 3), strict=True))
        text, places = _filled(template["text"], names)
        sentence = ET.SubElement(document, "sentence", id=sid, text=text)
        letters = sorted(places, key=lambda letter: places[letter])
        for i, letter in enumerate(letters):
            start, end = places[letter]
            kind = source["substances"][names[letter]]
            at = f"{start}-{end - 1}"
            ET.SubElement(
                sentence, "entity", id=f"{sid}.e{i}", charOffset=at, type=kind, text=text[start:end]
            )
        known = {frozenset(pair[:2]): pair[2] for pair in template["pairs"]} if marks_pairs else {}
        pairs = [(i, j) for i in range(len(letters)) for j in range(i + 1, len(letters))]
        for number_of_pair, (i, j) in enumerate(pairs):
            kind = known.get(frozenset((letters[i], letters[j])))
            told = {"ddi": "true", "type": kind} if kind else {"ddi": "false"}
            ET.SubElement(
                sentence,
                "pair",
                id=f"{sid}.p{number_of_pair}",
                e1=f"{sid}.e{i}",
                e2=f"{sid}.e{j}",
                **told,
            )
    return ET.tostring(document, encoding="utf-8")


def _ade_lines(source: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Lines of the three files.

    Offsets count from an abstract's start, which is taken to lie 40 characters before.
    """
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
    return sorted(
        items, key=lambda item: hashlib.sha256(f"{SEED}/{seed}/{item}".encode()).digest()
    )[:n]


# --------------------------------------------------------------------------------------- BiomedRAG


def write_biomedrag(folder: Path = HERE / "biomedrag") -> None:
    """Write the files of the eight BiomedRAG samples to `folder`, the same bytes each time."""
    source = yaml.safe_load((HERE / "biomedrag.yml").read_text(encoding="utf-8"))
    interactions = yaml.safe_load((HERE / "drug_interactions.yml").read_text(encoding="utf-8"))

    for split, rows in _split(_marked(source["GIT"])).items():
        keys = ("PREDICATE", "SUBJECT_TEXT", "OBJECT_TEXT", "SENTENCE")
        lines = [
            dict(zip(keys, (relation, head, tail, text), strict=True))
            for text, head, relation, tail in rows
        ]
        _jsonl(folder / "GIT" / f"{split}.jsonl", lines * 2 if split == "test" else lines)
    for name, found in (("DDI", _pairs(interactions)), ("ChemProt", _marked(source["ChemProt"]))):
        for split, rows in _split(found).items():
            listed = [
                {"text": text, "triple_list": [[head, relation, tail]]}
                for text, head, relation, tail in rows
            ]
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / f"{split}.json").write_text(json.dumps(listed), encoding="utf-8")

    effects, _, negatives = _ade_lines(interactions)
    told = [{"text": line.split("|")[1], "label": 1} for line in effects]
    told += [{"text": line.split(" ", 2)[2], "label": 0} for line in negatives]
    told = _few("ADE", told, len(told))
    _jsonl(folder / "ADE" / "test.json", told[:20])
    _jsonl(
        folder / "ADE" / "train.json", told[15:60]
    )  # some test sentences stand in it, as in the real file
    _jsonl(folder / "ADE" / "pool.json", told[15:])

    reports = [
        {"medical_specialty": specialty, "transcription": text.format(w=word)}
        for specialty, texts in source["MTSamples"]["reports"].items()
        for text, word in itertools.product(texts, source["MTSamples"]["words"])
    ]
    _jsonl(folder / "MTSamples" / "test.json", _few("MTSamples", reports, len(reports)))

    facts = [
        (h, relation, t) for relation, pairs in source["UMLS"]["triples"].items() for h, t in pairs
    ]
    (folder / "UMLS").mkdir(parents=True, exist_ok=True)
    for split, rows in _split(facts).items():
        (folder / "UMLS" / f"{split}.txt").write_text(
            "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8"
        )
    pairs = _few("ADInt", list(itertools.permutations(source["ADInt"]["names"], 2)), 78)
    labels = itertools.cycle(
        [label for label, times in source["ADInt"]["shares"].items() for _ in range(times)]
    )
    asked = [
        {"text": f"what is the relationship between {head} and {tail} ?", "label": label}
        for (head, tail), label in zip(pairs, labels, strict=False)
    ]
    for split, rows in _split(asked).items():
        _jsonl(folder / "ADInt" / f"{split}.jsonl", rows)


def _split(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """A half for training, a quarter each for validation and testing, by a hash of the row."""
    mixed = _few("split", rows, len(rows))
    first, second = len(mixed) // 2, 3 * len(mixed) // 4
    return {"train": mixed[:first], "dev": mixed[first:second], "test": mixed[second:]}


def _marked(source: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Text, head, relation and tail; head and tail are set off by a second space on both sides."""
    return [
        (text.format(h=f" {head} ", t=f" {tail} "), head, relation, tail)
        for relation, texts in source["sentences"].items()
        for text in texts
        for head, tail in zip(
            _few(text, source["heads"], 6), _few(text, source["tails"], 6), strict=True
        )
    ]


def _pairs(source: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Text, head, relation and tail of each pair of a sentence; most have the relation `None`."""
    rows = []
    for template, number in itertools.product(source["interactions"], range(4)):
        names = dict(
            zip(
                "abc",
                _few(f"DDI {template['text']} {number}", list(source["substances"]), 3),
                strict=True,
            )
        )
        known = {frozenset(pair[:2]): pair[2] for pair in template["pairs"]}
        text, places = _filled(template["text"], names)
        for one, other in itertools.combinations(sorted(places), 2):
            rows.append(
                (text, names[one], known.get(frozenset((one, other)), "None"), names[other])
            )
    return rows


def _jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


# ------------------------------------------------------------------------------------------ QA-RAG


def write_qa_rag(folder: Path = HERE / "qa_rag") -> None:
    """Write the pairs and the five rankings of the QA-RAG sample, the same bytes each time."""
    topics = yaml.safe_load((HERE / "qa_rag.yml").read_text(encoding="utf-8"))
    (folder / "contexts").mkdir(parents=True, exist_ok=True)
    pairs, passages, asked = [], [], []
    for topic in topics:
        named = f"As described in {topic['guideline']} , "
        for fact in topic["facts"]:
            told = f"Question: {fact['question']}\n  Answer: {fact['answer']}\n  "
            title = f"{topic['source'].replace(' ', '_')}.mmd"
            pairs.append(
                (title, named + fact["question"], fact["answer"], topic["guideline"], told)
            )
        asked += [
            named + fact["question"] for fact in _few(topic["source"], topic["facts"], TESTED)
        ]
        for title, pieces in (
            (topic["guideline"], [fact["rule"] for fact in topic["facts"]]),
            (
                topic["source"],
                [f"{fact['question']}\n\n{fact['answer']}" for fact in topic["facts"]],
            ),
        ):
            passages += [(title, "\n\n".join(pieces[i : i + 2])) for i in range(0, len(pieces), 2)]
    _write(
        folder / "QnA.csv",
        ["Title", "Question", "Answer", "Relevant_doc", "Question_answer"],
        pairs,
    )
    for number, name in enumerate(RANKINGS):
        shown = {}
        for place, question in enumerate(asked):
            # every passage comes up in some ranking, whatever the lot
            fixed = [passages[(number * len(asked) + place) % len(passages)]]
            drawn = [p for p in _few(name + question, passages, SHOWN) if p not in fixed]
            shown[question] = [
                f"\n{RULE}\nQuestion: {question}\n{RULE}\nContext: {text}\n{RULE}\n"
                f"Context title: {title}\n{RULE}\n"
                f"Relevance with the question: {3 - 0.5 * rank}"
                for rank, (title, text) in enumerate([*fixed, *drawn][:SHOWN])
            ]
        (folder / "contexts" / f"{name}.json").write_text(
            json.dumps(shown, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    write_sample()
    write_interactions()
    write_biomedrag()
    write_qa_rag()
