"""Has a language model reword the sentences of the synthetic charts, and keeps what survives strict checks.

The charts' sentences were written by hand, and the rules that read them by the same hand. So the served model rewords
each shared sentence of `data/clinical_wording.yml`, names in braces and all. An answer is kept only if `refusal` finds
nothing against it. All that passed is then read, and what says something else is taken out by hand. The charts use the
rest in test notes only (`papers.clinical_notes.wording`).

    python -m papers.clinical_notes.paraphrase     # or: make paraphrases

The checks know cue words of negation, history, family, hypothesis and of what is done with a drug. They do not ask
ConText: its score on the paraphrases would then be a matter of selection.
"""

from __future__ import annotations

import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from rapidfuzz import fuzz

from helpers.completions import LlmError
from helpers.engine_install import EngineError
from helpers.llm import LLM, connect
from helpers.services import LlmEndpoint, ServiceError
from helpers.settings import DATA, SettingsError, profile_model, settings
from papers.clinical_notes.cleaning import TERMS, abbreviations, aliases
from papers.clinical_notes.wording import PARAPHRASES, WORDING, words

SEEDS: Final = (1, 2)
"""One answer a sentence and seed."""
ASKING: Final = DATA / "clinical_paraphrasing.yml"
"""What the model is asked, and the words that the checks know."""
TEMPERATURE, TOP_P, MAX_TOKENS = 0.8, 0.95, 60
NEAR: Final = 88
"""rapidfuzz's ratio (0 to 100) from which two wordings are too near, a name in braces counting as one character."""
_NO_SENTENCES: Final = ("identifier", "other_kinds", "one_kind", "durations")
"""Lists of the wording file that hold terms, or numbers that should not be there."""


@lru_cache
def templates() -> tuple[str, ...]:
    """The shared sentences, each once, in the order of their file."""
    banks = {name: bank for name, bank in words(WORDING).items() if name not in _NO_SENTENCES}
    return tuple(dict.fromkeys(t for bank in banks.values() if isinstance(bank, dict) for t in bank.get("shared", ())))


@lru_cache
def _written() -> tuple[str, ...]:
    banks = [bank for bank in words(WORDING).values() if isinstance(bank, dict)]
    return tuple(t for bank in banks for part in ("shared", "held_out") for t in bank.get(part, ()))


# ---------------------------------------------------------------------------------------------------------- checks


def names_in(sentence: str) -> Counter[str]:
    """The names in braces, and how often each stands there.

    Raises:
        ValueError: a brace has no partner, or what stands in one is not a plain name.
    """
    fields = list(string.Formatter().parse(sentence))
    names = Counter(name for _, name, _, _ in fields if name is not None)
    if any(spec or conversion for _, _, spec, conversion in fields) or not all(map(str.isidentifier, names)):
        raise ValueError(f"Plain names in braces are needed; found {sentence!r}.")
    return names


def _plain(sentence: str) -> str:
    return re.sub(r"\{[^{}]*\}", "#", sentence)


def _found(patterns: Iterable[str], sentence: str) -> Counter[str]:
    matches = re.finditer(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", _plain(sentence), re.IGNORECASE)
    return Counter(match[0].lower() for match in matches)


def cues(sentence: str) -> set[str]:
    """The groups of cues of which the sentence has a word; "no change" denies nothing, "family history" is the
    family's.
    """
    said = re.sub(r"\bno changes?\b", "unchanged", sentence, flags=re.IGNORECASE)
    said = re.sub(r"\bfamily history\b", "family", said, flags=re.IGNORECASE)
    return {group for group, pattern in words(ASKING)["cues"].items() if _found(pattern, said)}


@lru_cache
def _medical() -> tuple[str, ...]:
    """Words that would be a fact of their own: names of drugs, what belongs to a dose, seizures, symptoms."""
    terms, wording = words(TERMS), words(WORDING)
    dosing = [pattern for group in ("frequencies", "routes", "forms") for pattern, _ in terms[group]]
    kinds = [kind for of in wording["kinds"].values() for part in ("shared", "held_out") for kind in of[part]]
    others = [kind for bank in ("other_kinds", "one_kind") for of in wording[bank].values() for kind in of]
    short = abbreviations()
    names = [*(n for n in aliases() if n.upper() not in short), *terms["symptoms"], *kinds, *others]
    # PER is a drug, per is not
    capitals = [f"(?-i:{a})" for a in sorted(short)]
    seizures = [*terms["seizures"]["nouns"], *words(ASKING)["seizures"]]
    return (*dosing, *seizures, *map(re.escape, names), *capitals)


def _same_names(answer: str, template: str) -> bool:
    try:
        return names_in(answer) == names_in(template)
    except ValueError:
        return False


def _ends(sentence: str) -> int:
    return len(re.findall(r"[.!?](?= )", _plain(sentence)))


def _misfits(answer: str, template: str) -> bool:
    """Whether a name filled in with a capital letter stands inside, or words do not go with what is filled in."""
    pattern = "|".join(words(ASKING)["misfits"])
    inside = re.search(r".\{(?:Pt|Pron|Relative)\}", answer)
    return bool(inside or set(re.findall(pattern, answer.lower())) - set(re.findall(pattern, template.lower())))


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
        ("other names in braces", lambda: not _same_names(answer, template)),
        ("too short or too long", lambda: not 0.5 <= len(answer.split()) / len(template.split()) <= 3),
        ("more than one sentence", lambda: _ends(answer) > _ends(template)),
        ("does not go with what is filled in", lambda: _misfits(answer, template)),
        ("a person of its own", lambda: new(known["persons"])),
        ("a new number or time", lambda: new(known["numbers"])),
        ("a new drug, dose, seizure or symptom", lambda: new(_medical())),
        ("other cues", lambda: cues(answer) != cues(template)),
        ("near to a wording that is there", lambda: _near(answer, (*_written(), *others))),
    )
    return next((reason for reason, holds in checks if holds()), None)


# ------------------------------------------------------------------------------------------------------------ asking


def prompt(template: str) -> list[dict[str, str]]:
    """The messages that ask for a paraphrase."""
    asking = words(ASKING)
    turns = [turn for shot in asking["shots"] for turn in zip(("user", "assistant"), shot, strict=True)]
    asked = _renamed(template, asking["shown"])
    messages = [("system", asking["instruction"]), *turns, ("user", asked)]
    return [{"role": role, "content": content} for role, content in messages]


def _renamed(sentence: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: f"{{{names.get(m[1], m[1])}}}", sentence)


def tidy(answer: str, template: str) -> str:
    """An answer with the template's own names and end, and without quotes around it."""
    text = _renamed(answer.strip().strip('"').strip(), {shown: name for name, shown in words(ASKING)["shown"].items()})
    stop = template[-1] if template[-1] in ".!?" else ""
    return text.rstrip(".") + stop


def ask(model: LLM, sentences: Sequence[str], seeds: Sequence[int] = SEEDS) -> Iterator[tuple[str, str]]:
    """Each sentence with each answer to it; one that was cut off is empty."""
    for seed in seeds:
        replies = model.chat_many(
            [prompt(sentence) for sentence in sentences],
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            seed=seed,
            label=f"paraphrases, seed {seed}",
        )
        for sentence, reply in zip(sentences, replies, strict=True):
            yield sentence, tidy(reply.text, sentence) if reply.status == "complete" and reply.text.strip() else ""


@dataclass
class Sifted:
    """What came of the answers: how many were refused by reason, removed on reading, and kept by template."""

    asked: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    removed: list[dict[str, str]] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)

    @property
    def all_kept(self) -> list[str]:
        """All paraphrases that are kept."""
        return [paraphrase for of in self.kept.values() for paraphrase in of]


def sift(answers: Iterable[tuple[str, str]], removed: Mapping[tuple[str, str], str]) -> Sifted:
    """Keep the answers (template and answer of each) that nothing is against; what was taken out stays out."""
    out = Sifted()
    for template, answer in answers:
        out.asked += 1
        # what is near to one that was taken out is not wanted either
        if reason := refusal(template, answer, [*out.all_kept, *(r["paraphrase"] for r in out.removed)]):
            out.refused[reason] += 1
        elif (template, answer) in removed:
            out.removed.append({"template": template, "paraphrase": answer, "reason": removed[template, answer]})
        else:
            out.kept.setdefault(template, []).append(answer)
    return out


# -------------------------------------------------------------------------------------------------------------- file


def taken_out(path: Path = PARAPHRASES) -> dict[tuple[str, str], str]:
    """Why a paraphrase was taken out on reading, by template and paraphrase."""
    if not path.exists():
        return {}
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))["removed"]
    return {(entry["template"], entry["paraphrase"]): entry["reason"] for entry in listed}


def write(sifted: Sifted, endpoint: LlmEndpoint, path: Path = PARAPHRASES) -> None:
    """Write the file of paraphrases, with how it was made."""
    order = {template: i for i, template in enumerate(templates())}
    content: dict[str, Any] = {
        "made": {
            "model": endpoint.model,
            "sha256": endpoint.model_sha256,
            "engine": endpoint.version or endpoint.engine,
            "temperature": TEMPERATURE,
            "top_p": TOP_P,
            "seeds": list(SEEDS),
        },
        "asked": sifted.asked,
        "refused": dict(sifted.refused.most_common()),
        "removed": sifted.removed,
        "paraphrases": dict(sorted(sifted.kept.items(), key=lambda item: order[item[0]])),
    }
    path.write_text(
        words(ASKING)["head"] + "\n" + yaml.safe_dump(content, sort_keys=False, width=1000), encoding="utf-8"
    )


def main() -> int:
    """The command: ask, sift, write, and say what is new and has to be read."""
    before = words(PARAPHRASES)["paraphrases"] if PARAPHRASES.exists() else {}
    known = {paraphrase for of in before.values() for paraphrase in of}
    try:
        model = connect(profile_model(settings().profile))
        sifted = sift(ask(model, templates()), taken_out())
    except (ServiceError, EngineError, SettingsError, LlmError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    write(sifted, model.endpoint)
    sys.stdout.write(
        f"{sifted.asked} answers of {model.endpoint.model}: {sum(sifted.refused.values())} refused by the checks, "
        f"{len(sifted.removed)} taken out on reading before, {len(sifted.all_kept)} kept in {PARAPHRASES.name}.\n"
    )
    new = [(t, p) for t, of in sifted.kept.items() for p in of if p not in known]
    if new:
        sys.stdout.write(f"Read these {len(new)} new ones; move what says something else to `removed` in that file:\n")
        sys.stdout.write("".join(f"  {template}\n    {paraphrase}\n" for template, paraphrase in new))
    return 0


if __name__ == "__main__":
    sys.exit(main())
