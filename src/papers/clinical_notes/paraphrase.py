"""Has a language model reword the sentences of the synthetic charts, and keeps what survives strict checks.

The charts' sentences and the rules that read them were written by the same hand. So the served model rewords each
shared sentence of `data/clinical_wording.yml`, names in braces and all. An answer is kept only if `refusal` finds
nothing against it, and a reader takes out by hand what still says something else. The checks know cue words and do not
ask ConText: its score on the paraphrases would then be a matter of selection.

    PYTHONPATH=src python -m papers.clinical_notes.paraphrase
"""

import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from rapidfuzz import fuzz

from helpers.llm import LLM, connect
from papers.clinical_notes.cleaning import TERMS, abbreviations, aliases
from papers.clinical_notes.wording import PARAPHRASES, WORDING, words
from rag.prompts import chat_messages
from resources.services import LlmEndpoint
from resources.settings import DATA, profile_model, run_command_line, settings

SEEDS: Final = (1, 2)
"""One answer a sentence and seed."""
ASKING: Final = DATA / "clinical_paraphrasing.yml"
"""What the model is asked, and the words that the checks know."""
SAMPLING: Final[dict[str, Any]] = {"temperature": 0.8, "top_p": 0.95}
NEAR: Final = 88
"""rapidfuzz's ratio (0 to 100) from which two wordings are too near, a name in braces counting as one character."""
_NO_SENTENCES: Final = ("identifier", "other_kinds", "one_kind", "durations")
"""Lists of the wording file that hold terms, or numbers that should not be there."""


def _sentences(*parts: str, without: Sequence[str] = ()) -> tuple[str, ...]:
    banks = [
        bank
        for name, bank in words(WORDING).items()
        if isinstance(bank, dict) and name not in without
    ]
    return tuple(dict.fromkeys(t for bank in banks for part in parts for t in bank.get(part, ())))


@lru_cache
def templates() -> tuple[str, ...]:
    """The shared sentences, each once, in the order of their file."""
    return _sentences("shared", without=_NO_SENTENCES)


def _names(sentence: str) -> Counter[str] | None:
    """The names in braces and how often each occurs; None if a brace has no partner or holds no plain name."""
    try:
        fields = [field[1:] for field in string.Formatter().parse(sentence) if field[1] is not None]
    except ValueError:
        return None
    plain = all(
        str(name).isidentifier() and not (spec or conversion) for name, spec, conversion in fields
    )
    return Counter(str(name) for name, *_ in fields) if plain else None


def _plain(sentence: str) -> str:
    return re.sub(r"\{[^{}]*\}", "#", sentence)


def _found(patterns: Iterable[str], sentence: str) -> Counter[str]:
    matches = re.finditer(
        rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", _plain(sentence), re.IGNORECASE
    )
    return Counter(match[0].lower() for match in matches)


def cues(sentence: str) -> set[str]:
    """The groups of cues of which the sentence has a word."""
    # "no change" denies nothing, and a family history is the family's
    said = re.sub(r"\bno changes?\b", "unchanged", sentence, flags=re.IGNORECASE)
    said = re.sub(r"\bfamily history\b", "family", said, flags=re.IGNORECASE)
    return {group for group, pattern in words(ASKING)["cues"].items() if _found(pattern, said)}


@lru_cache
def _medical() -> tuple[str, ...]:
    """Words that would be a fact of their own: names of drugs, what belongs to a dose, seizures, symptoms."""
    terms, wording, short = words(TERMS), words(WORDING), abbreviations()
    dosing = [
        pattern for group in ("frequencies", "routes", "forms") for pattern, _ in terms[group]
    ]
    banks = [*wording["kinds"].values(), wording["other_kinds"], wording["one_kind"]]
    kinds = [
        kind for bank in banks for part in ("shared", "held_out") for kind in bank.get(part, ())
    ]
    names = [*(n for n in aliases() if n.upper() not in short), *terms["symptoms"], *kinds]
    # PER is a drug, per is not
    capitals = [f"(?-i:{a})" for a in sorted(short)]
    seizures = [*terms["seizures"]["nouns"], *words(ASKING)["seizures"]]
    return (*dosing, *seizures, *map(re.escape, names), *capitals)


def _ends(sentence: str) -> int:
    return len(re.findall(r"[.!?](?= )", _plain(sentence)))


def _misfits(answer: str, template: str) -> bool:
    """Whether a capitalised name would fall inside the sentence, or words do not agree with the name."""
    pattern = "|".join(words(ASKING)["misfits"])
    inside = re.search(r".\{(?:Pt|Pron|Relative)\}", answer)
    return bool(
        inside
        or set(re.findall(pattern, answer.lower())) - set(re.findall(pattern, template.lower()))
    )


def _near(sentence: str, others: Iterable[str]) -> bool:
    mine = _plain(sentence).lower()
    return any(fuzz.ratio(mine, _plain(other).lower()) >= NEAR for other in others)


def refusal(template: str, answer: str, others: Iterable[str] = ()) -> str | None:
    """Why an answer, after `tidy`, is no paraphrase of a template, as far as a check can tell; None if it is one.

    `others` are paraphrases that are kept already.
    """
    known = words(ASKING)

    def new(patterns: Iterable[str]) -> bool:
        return bool(_found(patterns, answer) - _found(patterns, template))

    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("no single line", lambda: not answer or "\n" in answer),
        ("not plain ASCII", lambda: not answer.isascii()),
        ("other names in braces", lambda: _names(answer) != _names(template)),
        (
            "too short or too long",
            lambda: not 0.5 <= len(answer.split()) / len(template.split()) <= 3,
        ),
        ("more than one sentence", lambda: _ends(answer) > _ends(template)),
        ("does not go with what is filled in", lambda: _misfits(answer, template)),
        ("a person of its own", lambda: new(known["persons"])),
        ("a new number or time", lambda: new(known["numbers"])),
        ("a new drug, dose, seizure or symptom", lambda: new(_medical())),
        ("other cues", lambda: cues(answer) != cues(template)),
        (
            "near to a wording that is there",
            lambda: _near(answer, (*_sentences("shared", "held_out"), *others)),
        ),
    )
    return next((reason for reason, holds in checks if holds()), None)


def prompt(template: str) -> list[dict[str, str]]:
    """The messages that ask for a paraphrase."""
    asking = words(ASKING)
    return chat_messages(
        asking["instruction"], _renamed(template, asking["shown"]), asking["shots"]
    )


def _renamed(sentence: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: f"{{{names.get(m[1], m[1])}}}", sentence)


def tidy(answer: str, template: str) -> str:
    """An answer with the template's own names and end, and without quotes around it."""
    text = _renamed(
        answer.strip().strip('"').strip(),
        {shown: name for name, shown in words(ASKING)["shown"].items()},
    )
    return text.rstrip(".") + (template[-1] if template[-1] in ".!?" else "")


def ask(model: LLM) -> Iterator[tuple[str, str]]:
    """Each template with each answer to it; one that was cut off is empty."""
    prompts = [prompt(template) for template in templates()]
    for seed in SEEDS:
        replies = model.chat_many(
            prompts, max_tokens=60, **SAMPLING, seed=seed, label=f"paraphrases, seed {seed}"
        )
        for template, reply in zip(templates(), replies, strict=True):
            yield (
                template,
                tidy(reply.text, template)
                if reply.status == "complete" and reply.text.strip()
                else "",
            )


def sift(
    answers: Iterable[tuple[str, str]], removed: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """What came of the answers (template and answer of each), as the file has it; what was taken out stays out."""
    asked, refused = 0, Counter[str]()
    out: list[dict[str, str]] = []
    kept: dict[str, list[str]] = {}
    for template, answer in answers:
        asked += 1
        # what is near to one that was taken out is not wanted either
        there = [p for of in kept.values() for p in of] + [entry["paraphrase"] for entry in out]
        if reason := refusal(template, answer, there):
            refused[reason] += 1
        elif (template, answer) in removed:
            out.append(
                {"template": template, "paraphrase": answer, "reason": removed[template, answer]}
            )
        else:
            kept.setdefault(template, []).append(answer)
    return {
        "asked": asked,
        "refused": dict(refused.most_common()),
        "removed": out,
        "paraphrases": kept,
    }


def write(sifted: Mapping[str, Any], endpoint: LlmEndpoint, path: Path = PARAPHRASES) -> None:
    """Write the file of paraphrases, in the order of their templates, with how it was made."""
    made = {
        "model": endpoint.model,
        "sha256": endpoint.model_sha256,
        "engine": endpoint.version or endpoint.engine,
    }
    kept = dict(sorted(sifted["paraphrases"].items(), key=lambda item: templates().index(item[0])))
    content = {"made": {**made, **SAMPLING, "seeds": list(SEEDS)}, **sifted, "paraphrases": kept}
    text = yaml.safe_dump(content, sort_keys=False, width=1000)
    path.write_text(f"{words(ASKING)['head']}\n{text}", encoding="utf-8")


def main() -> int:
    """The command: ask, sift, write, and say what is new and has to be read."""
    before = yaml.safe_load(PARAPHRASES.read_text("utf-8")) if PARAPHRASES.exists() else {}
    removed = {
        (entry["template"], entry["paraphrase"]): entry["reason"]
        for entry in before.get("removed", [])
    }
    model = connect(profile_model(settings().profile))
    sifted = sift(ask(model), removed)
    write(sifted, model.endpoint)
    kept = [
        (template, paraphrase)
        for template, of in sifted["paraphrases"].items()
        for paraphrase in of
    ]
    sys.stdout.write(
        f"{sifted['asked']} answers of {model.endpoint.model}: {sum(sifted['refused'].values())} refused by the "
        f"checks, {len(sifted['removed'])} taken out on reading before, {len(kept)} kept in {PARAPHRASES.name}.\n"
    )
    known = {paraphrase for of in before.get("paraphrases", {}).values() for paraphrase in of}
    if new := [pair for pair in kept if pair[1] not in known]:
        sys.stdout.write(
            f"Read these {len(new)} new ones; move what says something else to `removed` in that file:\n"
        )
        sys.stdout.write(
            "".join(f"  {template}\n    {paraphrase}\n" for template, paraphrase in new)
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
