"""Chapters 07 to 11, from the rows of a corpus to answers, measures, printed cells and reasons.

An answer that cannot be read answers nothing: it lowers recall and not precision. Rows of the same text share a
cluster, for the data sets repeat their texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evaluation import figures
from evaluation.answers import Answer, PlainUnit
from evaluation.measures import set_measures
from evaluation.metrics import ALPHA, Score
from evaluation.outcomes import Outcomes, ScoredRow, adjust_by_holm
from evaluation.published import Number, Published
from evaluation.record import Run
from helpers.llm import LLM
from papers.biomedrag.arms import (
    Arm,
    Asking,
    Prediction,
    answer_line,
    biomed_rag,
    given,
    ra_knn,
    triple_line,
    zero_shot,
)
from papers.biomedrag.corpora import KEYS, Corpus, Example
from papers.biomedrag.floors import known_names
from papers.biomedrag.retriever import UNTAUGHT, Retriever
from papers.biomedrag.scorer import cosine_scorer
from papers.biomedrag.scoring import MEASURES, PARTS, part_items, same_text
from rag.prompts import each

ARMS: Final = {
    "majority": ("Commonest label", "#808080"),
    "nearest": ("Nearest neighbour's label", "#808080"),
    "tfidf": ("TF-IDF and logistic regression", "#125ee0"),
    "encoded": ("Encoder and logistic regression", "#125ee0"),
    "pair": ("Head and tail, logistic regression", "#079c6b"),
    "pair_new": ("Head and tail, no triple twice", "#079c6b"),
    "blanks": ("Blanks and a linear classifier", "#079c6b"),
    "names": ("Known names and a linear classifier", "#079c6b"),
    "zero_shot": ("LLM alone", "#c35410"),
    "told": ("LLM with the blanks explained", "#c35410"),
    "knn": ("LLM, n nearest inputs (RA-KNN-n)", "#c35410"),
    "cosine": ("BiomedRAG without scorer", "#af219d"),
    "plain": ("BiomedRAG without diversity", "#af219d"),
    "biomedrag": ("BiomedRAG", "#af219d"),
    "small": ("Small LLM alone", "#c35410"),
    "lora": ("Fine-tuned LLM", "#c35410"),
    "lora_rag": ("Fine-tuned LLM with BiomedRAG", "#af219d"),
}
"""Label and colour of each arm, in the order of tables."""
LABELS: Final = {arm: label for arm, (label, _) in ARMS.items()}
COLOURS: Final = {arm: colour for arm, (_, colour) in ARMS.items()}
GIVEN: Final = {
    arm: f"{LABELS[arm]}, given the pair" for arm in ("majority", "nearest", "tfidf", "encoded")
}
"""Labels of arms that are given the gold pair of a triple, and predict its relation."""
FLOORS: Final = ("nearest", "tfidf", "encoded", "pair", "blanks", "names")
"""Arms that learn from the training split without a language model, and answer as the paper's systems do."""
ROWS: Final = {
    "gpt4": "zero_shot",
    "gpt4_br": "biomedrag",
    "llama2": "lora",
    "llama2_br": "lora_rag",
    "whole": "lora_rag",
    "without_scorer": "lora_cosine",
    "without_diversity": "lora_plain",
    "m3": "lora_m3",
    "m4": "lora_m4",
    "llama2_top20": "lora_knn_20",
}
"""The arm beside a row of Tables 1 to 4 and Figure 3: prompted models for GPT-4, fine-tuned ones for LLaMA2 13B."""
QUESTIONS: Final = {
    "ADE-corpus-v2": "Does the sentence tell of an adverse effect that a drug caused?",
    "MTSamples": "To which medical specialty does the report belong?",
}
"""What a prompt asks of a text, in place of the task's own question."""
READABLE: Final = 0.1
"""The largest share of unparsed answers with which an arm is compared with a printed row; above, formats differ."""
_WHY: Final = {
    **dict.fromkeys(ROWS, "No model was fine-tuned on this data set in this run."),
    **dict.fromkeys(
        ("medllama", "medllama_br"),
        "MedLLaMA 13B, fine-tuned; one fine-tuned model is rerun, beside LLaMA2 13B.",
    ),
    **dict.fromkeys(
        ("bert", "biobert", "gatortron"),
        "A fine-tuned encoder; here a logistic regression on a small encoder's vectors is shown in its place.",
    ),
}
_TUNED: Final = "Fine-tuned by LoRA for this book."
_OTHER: Final = (
    "Another system with code and training of its own; this notebook reruns the paper's method."
)


@dataclass(frozen=True, kw_only=True)
class Asked(PlainUnit):
    """A row of a corpus as the table of answers names it."""

    example: Example


def units(corpus: Corpus, rows: Sequence[Example]) -> list[Asked]:
    """Rows of a corpus, with strata that say what of them training has."""
    texts = {same_text(e.text) for e in corpus.train}
    names = known_names(corpus, rows) if corpus.task == "links" else None
    asked = []
    for i, e in enumerate(rows):
        cluster = same_text(e.text)
        strata = {
            "data": corpus.name,
            "text": f"text {'' if cluster in texts else 'not '}in training",
        }
        if names:
            strata["names"] = "both names in training" if names[i] else "not both"
        asked.append(
            Asked(
                e.id, cluster, given(e, corpus.task), answer_line(e, corpus.task), strata, example=e
            )
        )
    return asked


def answer(
    run: Run, corpus: Corpus, arms: Mapping[str, Arm], rows: Sequence[Example], model: str = ""
) -> list[Answer]:
    """Let each arm answer these rows of a corpus, whose name is the task; `model` answers for arms that ask one."""
    scored = {
        name: each(arm, lambda a: a.example, lambda a, p: row_of(corpus, a.example, p))
        for name, arm in arms.items()
    }
    return run.answer(scored, units(corpus, rows), model=model)


def row_of(corpus: Corpus, example: Example, said: Prediction) -> Answer:
    """One prediction with its measures: right, and top and bottom of precision, recall and F1 (section 4.4).

    Triples have the same of their parts (Table 3), as `head_f1`. Every asked prompt counts its tokens.
    """
    triples = corpus.task == "triples"
    if triples:
        gold, told = part_items(example.triples, "triple"), part_items(said.triples, "triple")
    else:
        gold, told = {example.label}, {said.label} if said.label else set()
    measures = {"right": (float(gold == told), 1.0)} | set_measures(gold, told)
    for part in PARTS if triples else ():
        of_part = set_measures(part_items(example.triples, part), part_items(said.triples, part))
        measures |= {f"{part}_{name}": pair for name, pair in of_part.items()}
    if said.prompt_tokens:
        measures["prompt_tokens"] = (float(said.prompt_tokens), 1.0)
    return Answer(
        task=corpus.name,
        answer=said.reply or None,
        predicted=triple_line(said.triples) if triples else said.label,
        parsed=bool(said.triples) if triples else said.label is not None,
        overflow=said.overflow,
        measures=measures,
        requests=[said.request] if said.request else [],
    )


def asking_of(llm: LLM | None, corpus: Corpus, *, offered: bool = True) -> Asking:
    """How a language model is asked about a corpus; relations are listed with their definitions (section 4.3.1).

    A prompt that is not `offered` lists no labels, for a fine-tuned model knows them. None: only prompts are made.
    """
    defined = offered and corpus.task in ("triples", "relations")
    question = QUESTIONS.get(corpus.name, "")
    definitions = corpus.labels if defined else {}
    return Asking(
        llm,
        corpus.task,
        tuple(corpus.labels),
        question=question,
        offered=offered,
        definitions=definitions,
    )


def prompted_arms(asking: Asking, retriever: Retriever, n: int) -> dict[str, Arm]:
    """The arms with a prompted model: alone, with the n nearest inputs, with a document by cosine or taught scorer."""
    cosine = cosine_scorer(retriever.memory.encoder.dimension, retriever.scorer.eta)
    return {
        "zero_shot": zero_shot(asking),
        "knn": ra_knn(asking, retriever.memory, n),
        "cosine": biomed_rag(asking, replace(retriever, scorer=cosine), "without scorer"),
        **({"biomedrag": biomed_rag(asking, retriever)} if retriever.taught else {}),
    }


def report(run: Run, out: Outcomes, notes: Mapping[str, str]) -> None:
    """Report the arms beside Tables 1 to 3 and the gains of the text; of every other printed number, why not.

    `notes` has a remark to each rerun of a data set; its names are the data sets that are reported.
    """
    names = {KEYS[name]: name for name in notes}
    for number in run.printed.numbers:
        _, table, row, column = number.id.split(".", 3)
        key, _, last = column.rpartition("_")
        if number.why_no_rerun:
            continue
        if table in ("table1", "table2") and key in names:
            cell(run, number.id, out, names[key], row, last, notes[names[key]])
        elif table == "table3" and (of := row.rpartition("_"))[2] in names:
            cell(run, number.id, out, names[of[2]], of[0], column, notes[names[of[2]]])
        elif (table, row) == ("text", "gain") and key in names:
            _gain(run, number.id, out, names[key], last, notes[names[key]])
        elif table == "figure2" and row in names and not row.startswith("git"):
            run.not_run(number.id, "No model is fine-tuned here with the sentences of RA-KNN.")
        elif table == "text" and row in names:
            run.not_run(number.id, _OTHER)


def cell(
    run: Run, id: str, out: Outcomes, name: str, row: str, measure: str, note: str = ""
) -> None:
    """Report a measure of the arm beside a printed row, or why there is none; a `note` is about prompted models."""
    rows = beside_row(out, name, row)
    if isinstance(rows, str):
        run.not_run(id, rows)
    else:
        run.rerun_of(
            id,
            rows,
            measure,
            model=rows.frame.model.iloc[0],
            note=_TUNED if _is_tuned(row) else note,
        )


def _is_tuned(row: str) -> bool:
    return ROWS[row].startswith("lora")


def _gain(run: Run, id: str, out: Outcomes, name: str, model: str, note: str) -> None:
    alone, with_it = beside_row(out, name, model), beside_row(out, name, f"{model}_br")
    if isinstance(alone, str) or isinstance(with_it, str):
        run.not_run(id, alone if isinstance(alone, str) else str(with_it))
    else:
        score = gain(alone.concat(with_it), ROWS[f"{model}_br"], ROWS[model])
        points = Score(100 * score.value, score.n, 100 * score.low, 100 * score.high)
        run.rerun(
            id, points, model=alone.frame.model.iloc[0], note=_TUNED if _is_tuned(model) else note
        )


def beside_row(out: Outcomes, name: str, row: str) -> Outcomes | str:
    """The rerun compared with a printed row on a data set, or why there is none."""
    rows = out.where(source="rerun", task=name, arm=ROWS.get(row, ""))
    if rows.frame.empty:
        return _WHY.get(row, _OTHER)
    unread = 1 - float(rows.frame.parsed.mean())
    if _is_tuned(row) and unread > READABLE:
        return f"A model was fine-tuned; {figures.number(unread)} of its answers cannot be parsed."
    return rows


def gain(out: Outcomes, first: str, second: str) -> Score:
    """F1 of one arm less that of another on the same rows, as a fraction."""
    test = out.compare([(first, second)], "f1")[0].test
    return Score(test.difference, test.n, test.low, test.high)


def printed_of(printed: Published, name: str) -> list[Number]:
    """The F1 that Table 1 or 2 prints on a data set, by system."""
    return [
        n
        for n in printed.numbers
        if n.table in ("Table 1", "Table 2") and n.id.endswith(f".{KEYS[name]}_f1")
    ]


def beside(run: Run, out: Outcomes, name: str, caption: str) -> figures.Html:
    """All systems of Table 1 or 2 on a data set with their printed F1, and every arm of this run."""
    mine = out.where(task=name, source="rerun")
    rows: list[dict[str, object]] = []
    arms: list[str] = []
    for number in printed_of(run.printed, name):
        row = number.id.split(".")[2]
        arms.append("" if isinstance(beside_row(out, name, row), str) else ROWS[row])
        rows.append({"system": number.row, "printed F1": number.printed})
    more = [arm for arm in mine.arms if arm not in arms]
    rows += [{"system": "", "printed F1": None} for _ in more]
    told = [row | _scores(mine, arm) for row, arm in zip(rows, arms + more, strict=True)]
    return mine.scored_table(told, [ScoredRow(arm, "f1") for arm in arms + more], caption)


def _scores(out: Outcomes, arm: str) -> dict[str, object]:
    if not arm:
        return dict.fromkeys(("here", "n", *MEASURES, "prompt tokens"))
    n = out.score("f1", arm).n if arm in out.arms_with("f1") else 0
    tokens = out.score("prompt_tokens", arm) if arm in out.arms_with("prompt_tokens") else None
    told = {measure: out.format_score(measure, arm) for measure in MEASURES}
    return {
        "here": out.label(arm),
        "n": n,
        **told,
        "prompt tokens": tokens and figures.number(tokens.value, "count"),
    }


def split_note(whole: Corpus, parts: Corpus, words: int) -> str:
    """How MTSamples differs here from the paper: where its training rows are from, and where a report was cut."""
    shares = [f"{100 * len(rows) / len(whole.test):.0f}" for rows in parts.splits.values()]
    cut = f"cut to {words} words" if words else "not cut"
    own = f"Own split of the test file ({'/'.join(shares)} per cent)"
    released = f"{len(parts.train):,} released training reports, and {len(parts.validation)} others as validation"
    return f"{released if whole.train else own}; the reports that the model reads are {cut}."


def summary(run: Run, out: Outcomes, names: Sequence[str], floors: Sequence[str] = FLOORS) -> str:
    """The page's answer, on the rows that BiomedRAG answered: whether it helps the LLM, and the best of `floors`."""
    if "biomedrag" not in out.arms:
        return UNTAUGHT
    same = out.where(source="rerun", unit=[*out.where(arm="biomedrag").frame.unit])
    tops = {}
    for name in names:
        of = same.where(task=name)
        reached = {arm: of.score("f1", arm).value for arm in of.arms if arm in floors}
        tops[name] = max(reached, key=reached.__getitem__)
    gains = {
        test.model: test for test in same.compare([("biomedrag", "zero_shot")], "f1", within="task")
    }
    leads = [
        same.where(task=name).compare([(top, "biomedrag")], "f1")[0] for name, top in tops.items()
    ]
    told, most, prints, tuned = list[str](), [], [], list[str]()
    for (name, top), lead in zip(tops.items(), leads, strict=True):
        on = f" on **{name}**" * (len(names) > 1)
        told.append(f"{figures.points(gains[name].test)}{' points' * (not told)}{on}")
        new = same.where(task=name, arm="pair_new")
        once = (
            f"; {new.format_score('f1', 'pair_new')} without the relations that the pair has in training"
            if new.arms
            else ""
        )
        most.append(f"{figures.number(lead.scores[0].value)} ({out.label(top)}{once})")
        prints.append(
            next(n.printed for n in printed_of(run.printed, name) if ".llama2_br." in n.id).replace(
                "%", " %"
            )
        )
        of = same.where(task=name, arm=["lora", "lora_rag"])
        unread = [(~of.where(arm=arm).frame.parsed.astype(bool)).mean() for arm in of.arms]
        if len(unread) == 2 and max(unread) <= READABLE:
            tuned.append(
                f"{figures.listed([figures.number(of.score('f1', arm).value) for arm in of.arms])}{on}"
            )
    helped = sum(gains[name].p < ALPHA and gains[name].test.difference > 0 for name in names)
    beaten = sum(lead.p < ALPHA and lead.test.difference > 0 for lead in adjust_by_holm(leads))
    helps = "significantly raises" if helped else "does not significantly change"
    return (
        f"**BiomedRAG's document {helps} the prompted model's F1{_on(helped, names)}; {'the best' if beaten else 'no'} "
        "method without a language model is significantly better than the prompted model with it"
        f"{_on(beaten, names)}.** The document changes F1 by {figures.listed(told)}. Without a language model, F1 "
        f"reaches {figures.listed(most)} on the same rows. "
        f"Printed for LLaMA2 13B with BiomedRAG: {figures.listed(prints)}."
        + (
            f" Without and with the document, a fine-tuned small model reaches {'; '.join(tuned)}."
            if tuned
            else ""
        )
    )


def _on(n: int, names: Sequence[str]) -> str:
    if not n or len(names) == 1:
        return ""
    every = "both" if len(names) == 2 else f"all {figures.in_words(len(names))}"
    return f" on {every if n == len(names) else f'{figures.in_words(n)} of {figures.in_words(len(names))}'} data sets"
