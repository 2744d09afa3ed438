"""Chapters 07 to 11, from the rows of a corpus to answers, measures, printed cells and reasons.

An answer that cannot be parsed answers nothing: it lowers recall and not precision. Rows of the
same text share a cluster, for the data sets repeat their texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, NotRunError, PlainUnit
from evaluation.decisions import is_model_of
from evaluation.measures import set_measures, unit
from evaluation.metrics import ALPHA, Score
from evaluation.outcomes import Outcomes, ScoredRow
from evaluation.published import Number, Published
from evaluation.record import Run
from helpers.llm import LLM
from papers.biomedrag.arms import (
    Arm,
    BiomedRag,
    Generator,
    Prediction,
    RaKnn,
    ZeroShot,
    answer_line,
    input_text,
    triple_lines,
)
from papers.biomedrag.corpora import KEYS, Corpus, Example
from papers.biomedrag.floors import known_names
from papers.biomedrag.retriever import Retriever
from papers.biomedrag.scorer import cosine_scorer
from papers.biomedrag.scoring import MEASURES, PARTS, part_items, same_text

ARMS: Final = {
    "majority": ("Commonest label", figures.HUES["grey"]),
    "nearest": ("Nearest neighbour's label", figures.HUES["grey"]),
    "tfidf": ("TF-IDF and logistic regression", figures.HUES["blue"]),
    "encoded": ("Encoder and logistic regression", figures.HUES["blue"]),
    "pair": ("Head and tail (logistic regression)", figures.HUES["blue"]),
    "pair_new": ("Head and tail (no triple twice)", figures.HUES["blue"]),
    "blanks": ("Blanks and a linear classifier", figures.HUES["blue"]),
    "names": ("Known names and a linear classifier", figures.HUES["blue"]),
    "zero_shot": ("LLM alone", figures.HUES["orange"]),
    "told": ("LLM with the blanks explained", figures.HUES["orange"]),
    "knn": ("LLM, n nearest inputs (RA-KNN-n)", figures.HUES["magenta"]),
    "cosine": ("BiomedRAG without scorer", figures.HUES["magenta"]),
    "plain": ("BiomedRAG without diversity", figures.HUES["magenta"]),
    "biomedrag": ("BiomedRAG", figures.HUES["magenta"]),
    "small": ("Small LLM alone", figures.HUES["orange"]),
    "lora": ("Fine-tuned LLM", figures.HUES["orange"]),
    "lora_rag": ("Fine-tuned LLM with BiomedRAG", figures.HUES["magenta"]),
}
"""Label and colour of each arm, in the order of tables."""
_NEAREST_LABELS: Final = {
    f"lora_knn_{n}": f"Fine-tuned LLM with the {n} nearest (RA-KNN-{n})" for n in (1, 10, 15, 20)
}
LABELS: Final = {arm: label for arm, (label, _) in ARMS.items()} | _NEAREST_LABELS
COLOURS: Final = {arm: colour for arm, (_, colour) in ARMS.items()}
LABELS_WITH_PAIR: Final = {
    arm: f"{LABELS[arm]}, given the pair" for arm in ("majority", "nearest", "tfidf", "encoded")
}
"""Labels of arms that are given the gold pair of a triple, and predict its relation."""
FLOORS: Final = ("nearest", "tfidf", "encoded", "pair", "blanks", "names")
"""Arms without a language model that learn from training and answer as the paper's systems do."""
ROWS: Final = {
    "gpt4": "zero_shot",
    "gpt4_br": "biomedrag",
    "llama2": "lora",
    "llama2_br": "lora_rag",
    "medllama": "lora",
    "medllama_br": "lora_rag",
    "whole": "lora_rag",
    "without_scorer": "lora_cosine",
    "without_diversity": "lora_plain",
    "m3": "lora_m3",
    "m4": "lora_m4",
    "llama2_top20": "lora_knn_20",
    "medllama_top1": "lora_knn_1",
    "top1": "lora_knn_1",
    "top10": "lora_knn_10",
    "top15": "lora_knn_15",
}
"""The arm that is compared with a row of Tables 1 to 4 and of Figures 2 and 3.

It is a prompted model for GPT-4, and a fine-tuned one for LLaMA2 13B and MedLLaMA 13B.
"""
MEDLLAMA: Final = "MedLLaMA"
"""Part of the name of the second model that the paper fine-tunes.

Its answers fill the rows of that name; every other fine-tuned model is compared with LLaMA2 13B.
"""
NO_INTERACTION: Final = "None"
"""The relation of DDI's rows that state no interaction."""
STATED: Final = "an interaction"
"""Value of the stratum "relation" of the other rows of DDI."""
INTERACTING: Final = "that state an interaction"
"""How sentences tell these rows from the others."""
QUESTIONS: Final = {
    "ADE-corpus-v2": "Does the sentence tell of an adverse effect that a drug caused?",
    "MTSamples": "To which medical specialty does the report belong?",
}
"""What a prompt asks of a text, in place of the task's own question."""
MAX_UNPARSED: Final = 0.1
"""The largest share of unparsed answers with which a fine-tuned arm is compared with a printed row.

Above it, formats differ.
"""
_WHOLE: Final = {"te_whole": "git", "re_whole": "git_re"}
"""Rows of Table 4 that repeat those of the whole method in Table 1, and their data sets."""
_KNN_ROWS: Final = ("llama2_top20", "medllama_top1", "top1", "top10", "top15")
_WHY: Final = {
    **dict.fromkeys(ROWS, "This run fine-tuned no model on this data set."),
    "gpt4": "In this run, no prompted model answered the rows of this data set.",
    "gpt4_br": "In this run, no prompted model answered the rows of this data set with BiomedRAG.",
    **dict.fromkeys(
        ("medllama", "medllama_br"), "This run did not fine-tune MedLLaMA 13B on this data set."
    ),
    **dict.fromkeys(
        _KNN_ROWS, "This run fine-tuned no model on prompts with the nearest examples (RA-KNN-n)."
    ),
    **dict.fromkeys(
        ("without_scorer", "without_diversity", "m3", "m4"),
        "This run fine-tuned no model for the variants (without scorer, without diversity, or with "
        "chunks of 3 or 4 words). In the laptop profile, chapters 07 and 08 fine-tune a model with "
        "the whole method.",
    ),
    **dict.fromkeys(
        ("bert", "biobert", "gatortron"),
        "This row reports a fine-tuned encoder. In its place, this run uses a logistic regression "
        "on a small encoder's vectors.",
    ),
}
_N_NOT_READ: Final = (
    "Figure 2 shows n on its axis, but the text of the paper's PDF file gives this value without "
    "its n. We did not read n from the figure."
)
"""Why a value of Figure 2 is compared with no arm."""
_TUNED: Final = "For this book, we fine-tuned the model by LoRA."
_OTHER: Final = (
    "This row reports another system, which has its own code and training. This book does not run "
    "such systems."
)


@dataclass(frozen=True, kw_only=True)
class ExampleUnit(PlainUnit):
    """A row of a corpus as the table of answers names it."""

    example: Example


def units(corpus: Corpus, rows: Sequence[Example]) -> list[ExampleUnit]:
    """Make units of rows, with strata that say what of them training has."""
    known_texts = {same_text(example.text) for example in corpus.train}
    is_known = known_names(corpus, rows) if corpus.task == "links" else []
    made_units = []
    for i, example in enumerate(rows):
        cluster = same_text(example.text)
        in_training = "in training" if cluster in known_texts else "not in training"
        strata = {"data": corpus.name, "text": f"text {in_training}"}
        if NO_INTERACTION in corpus.labels:
            strata["relation"] = "none" if example.label == NO_INTERACTION else STATED
        if is_known:
            strata["names"] = "both names in training" if is_known[i] else "not both"
        unit = ExampleUnit(
            unit=example.id,
            cluster=cluster,
            text=input_text(example, corpus.task),
            gold=answer_line(example, corpus.task),
            strata=strata,
            example=example,
        )
        made_units.append(unit)
    return made_units


def comparable(out: Outcomes) -> Outcomes:
    """Select the rows that are compared with printed numbers.

    Of DDI these are the test rows that state an interaction: more of the printed recalls are whole
    numbers of these than of all rows (`balance.digits_table`).
    """
    if all("relation" in strata for strata in out.frame.strata):
        return out.where(relation=STATED)
    is_compared = [strata.get("relation", STATED) == STATED for strata in out.frame.strata]
    units_compared = out.frame.unit[is_compared]
    return out.where(unit=[*units_compared])


def name_rows(out: Outcomes, name: str) -> str:
    """Name a data set, and the rows of it that are compared if these are not all."""
    rows = out.where(task=name)
    compared = comparable(rows)
    if len(compared.frame) == len(rows.frame):
        return name
    return f"{name}, {compared.frame.unit.nunique():,} rows {INTERACTING}"


@dataclass(frozen=True)
class ScoredArm:
    """An arm whose predictions become rows of the table of answers."""

    arm: Arm
    corpus: Corpus

    @property
    def task(self) -> str:
        """The task of the rows, also where the arm is not run."""
        return self.corpus.name

    def __call__(self, asked_units: Sequence[ExampleUnit]) -> list[Answer]:
        """Answer each unit."""
        examples = [unit.example for unit in asked_units]
        predictions = self.arm(examples)
        pairs = zip(examples, predictions, strict=True)
        return [to_answer(self.corpus, example, prediction) for example, prediction in pairs]


def answer(
    run: Run, corpus: Corpus, arms: Mapping[str, Arm], rows: Sequence[Example], model: str = ""
) -> list[Answer]:
    """Let each arm answer rows of a corpus.

    Args:
        run: The run.
        corpus: The data set, whose name is the task.
        arms: The arms, by name.
        rows: The rows to answer.
        model: Name of the model of the arms that ask one.
    """
    scored = {name: ScoredArm(arm, corpus) for name, arm in arms.items()}
    return run.answer(scored, units(corpus, rows), model=model)


def to_answer(corpus: Corpus, example: Example, prediction: Prediction) -> Answer:
    """Make an answer of a prediction, with its measures (section 4.4).

    They are whether it is right, and numerator and denominator of precision, recall and F1. For
    triples there are those of their parts, too (Table 3), such as `head_f1`. If a prompt was sent,
    its tokens are counted.
    """
    if corpus.task == "triples":
        predicted: str | None = triple_lines(prediction.triples)
        parsed = bool(prediction.triples)
        measures = _triple_measures(example, prediction)
    else:
        predicted = prediction.label
        parsed = prediction.label is not None
        gold = {example.label}
        found = {prediction.label} if prediction.label else set()
        measures = {"right": (float(gold == found), 1.0), **set_measures(gold, found)}
    if prediction.prompt_tokens:
        measures["prompt_tokens"] = (float(prediction.prompt_tokens), 1.0)
    return Answer(
        task=corpus.name,
        answer=prediction.reply or None,
        predicted=predicted,
        parsed=parsed,
        overflow=prediction.overflow,
        measures=measures,
        requests=[prediction.request] if prediction.request else [],
    )


def _triple_measures(example: Example, prediction: Prediction) -> dict[str, tuple[float, float]]:
    gold = part_items(example.triples, "triple")
    found = part_items(prediction.triples, "triple")
    measures = {"right": (float(gold == found), 1.0), **set_measures(gold, found)}
    for part in PARTS:
        gold_part = part_items(example.triples, part)
        found_part = part_items(prediction.triples, part)
        for name, value in set_measures(gold_part, found_part).items():
            measures[f"{part}_{name}"] = value
    return measures


def generator_for(llm: LLM | None, corpus: Corpus, *, lists_labels: bool = True) -> Generator:
    """Make the generator of a corpus, with the definitions of relations (section 4.3.1).

    Args:
        llm: The LLM to ask; None if only prompts are made.
        corpus: The data set.
        lists_labels: Whether the prompt lists the labels; a fine-tuned model knows them.
    """
    is_defined = lists_labels and corpus.task in ("triples", "relations")
    return Generator(
        llm,
        corpus.task,
        tuple(corpus.labels),
        question=QUESTIONS.get(corpus.name, ""),
        lists_labels=lists_labels,
        definitions=corpus.labels if is_defined else {},
    )


def prompted_arms(generator: Generator, retriever: Retriever, n: int) -> dict[str, Arm]:
    """Make the arms with a prompted model.

    It answers alone, with the n nearest inputs, and with the document that the cosine or the
    trained scorer chooses. The last is left out if nothing taught the scorer.
    """
    cosine = cosine_scorer(retriever.memory.encoder.dimension, retriever.scorer.eta)
    arms: dict[str, Arm] = {
        "zero_shot": ZeroShot(generator),
        "knn": RaKnn(generator, retriever.memory, n),
        "cosine": BiomedRag(generator, replace(retriever, scorer=cosine), "without scorer"),
    }
    if retriever.taught:
        arms["biomedrag"] = BiomedRag(generator, retriever)
    return arms


@dataclass(frozen=True)
class Cell:
    """A printed number as the rerun of an arm answers it.

    Attributes:
        number: Id of the printed number.
        data: Name of the data set.
        row: Row of the paper's table, a key of `ROWS` if an arm is compared with it.
        measure: The measure, such as f1.
        note: A remark about prompted models.
    """

    number: str
    data: str
    row: str
    measure: str
    note: str = ""


def report(run: Run, out: Outcomes, notes: Mapping[str, str]) -> None:
    """Report the reruns of Tables 1 to 3, Figure 2 and the gains in the text; of all else, why not.

    The whole method of Table 4 repeats Table 1, so it is reported with it.

    Args:
        run: The run.
        out: The answers.
        notes: A remark to each rerun of a data set. Its names are the data sets to report.
    """
    names = {KEYS[name]: name for name in notes}
    for number in run.printed.numbers:
        if number.why_no_rerun:
            continue
        cell = _table_cell(number.id, names)
        if cell:
            report_cell(run, out, replace(cell, note=notes[cell.data]))
        else:
            _report_text(run, out, number.id, names, notes)


def _table_cell(number: str, names: Mapping[str, str]) -> Cell | None:
    """Return the cell of Tables 1 to 4 that a printed number is, if it is of these data sets."""
    _, table, row, column = number.split(".", 3)
    if table in ("table1", "table2"):
        key, _, measure = column.rpartition("_")
    elif table == "table3":
        row, _, key = row.rpartition("_")
        measure = column
    elif table == "table4" and row in _WHOLE:
        key, row, measure = _WHOLE[row], "whole", column
    else:
        return None
    return Cell(number, names[key], row, measure) if key in names else None


def _report_text(
    run: Run, out: Outcomes, number: str, names: Mapping[str, str], notes: Mapping[str, str]
) -> None:
    """Report a number of the text or of Figure 2, if it is of these data sets."""
    _, table, row, column = number.split(".", 3)
    key, _, model = column.rpartition("_")
    if (table, row) == ("text", "gain") and key in names:
        name = names[key]
        _report_gain(run, out, Cell(number, name, model, "f1", notes[name]))
    elif row not in names:
        return
    elif table == "figure2" and not row.startswith("git"):
        report_cell(run, out, Cell(number, names[row], column, "f1"))
    elif table == "text":
        run.not_run(number, _OTHER)


def report_cell(run: Run, out: Outcomes, cell: Cell) -> None:
    """Report a measure of the arm that is compared with a printed row, or why there is none."""
    rows = rerun_of_row(out, cell.data, cell.row)
    if isinstance(rows, str):
        run.not_run(cell.number, rows)
        return
    compared = comparable(rows)
    note = _note(cell, compared, rows)
    model = rows.frame.model.iloc[0]
    if len(compared.frame) < len(rows.frame):
        note += _on_all_rows(rows, cell.measure)
    run.rerun_of(cell.number, compared, cell.measure, model=model, note=note)


def _note(cell: Cell, compared: Outcomes, rows: Outcomes) -> str:
    """Say how the model was used, and on which rows if they are not all that it answered."""
    note = _TUNED if _is_tuned(cell.row) else cell.note
    if len(compared.frame) == len(rows.frame):
        return note
    n_rows, n_all = compared.frame.unit.nunique(), rows.frame.unit.nunique()
    return f"{note} The value covers only the {n_rows:,} of {n_all:,} test rows {INTERACTING}."


def _on_all_rows(rows: Outcomes, measure: str) -> str:
    (arm,) = rows.arms
    if arm not in rows.arms_with(measure):
        return ""
    score = rows.score(measure, arm)
    text = figures.score_text(replace(score, unparsed=0), unit(measure))
    if score.unparsed:
        noun = "answer" if score.unparsed == 1 else "answers"
        text += f"; {score.unparsed:,} {noun} could not be parsed"
    return f" On all {rows.frame.unit.nunique():,} rows, the value is {text}."


def _unparsed_note(compared: Outcomes) -> str:
    """Say why a gain in F1 may differ from the gain in accuracy that a claim compares."""
    n_unparsed = int((~compared.frame.parsed.astype(bool)).sum())
    if not n_unparsed:
        return ""
    if n_unparsed == 1:
        answers, pronoun = "one unparsed answer", "it"
    else:
        answers, pronoun = f"{n_unparsed:,} unparsed answers", "them"
    return f" Precision, a part of F1, leaves out {answers}. Accuracy counts {pronoun} as wrong."


def _borderline_note(compared: Outcomes, pair: tuple[str, str], score: Score) -> str:
    """Say that F1 and the accuracy that a claim compares lie on two sides of significance."""
    test = compared.compare([pair], "right")[0].test
    is_clear = score.low > 0 or score.high < 0
    if is_clear == (test.p < ALPHA):
        return ""
    found = "excludes 0, but the difference in accuracy is not significant"
    if not is_clear:
        found = "contains 0, but the difference in accuracy is significant"
    return (
        f" In accuracy, which the claim compares, the difference is {figures.points(test)} points "
        f"({figures.p_words(test.p)}). The interval of the difference in F1 {found}. "
        "Whether an interval that ends near 0 contains 0 also depends on the "
        f"{compared.draws:,} random draws of the bootstrap."
    )


def _is_tuned(row: str) -> bool:
    return ROWS[row].startswith("lora")


def _report_gain(run: Run, out: Outcomes, cell: Cell) -> None:
    """Report what BiomedRAG adds to the model that is the cell's row, in points."""
    row_with = f"{cell.row}_br"
    alone = rerun_of_row(out, cell.data, cell.row)
    with_document = rerun_of_row(out, cell.data, row_with)
    if isinstance(alone, str):
        run.not_run(cell.number, alone)
        return
    if isinstance(with_document, str):
        run.not_run(cell.number, with_document)
        return
    both = alone.concat(with_document)
    compared = comparable(both)
    pair = (ROWS[row_with], ROWS[cell.row])
    try:
        score = gain(compared, *pair)
    except NotRunError as error:
        run.not_run(cell.number, str(error))
        return
    points = Score(100 * score.value, score.n, 100 * score.low, 100 * score.high)
    note = _note(cell, compared, both) + _unparsed_note(compared)
    note += _borderline_note(compared, pair, score)
    run.rerun(cell.number, points, model=alone.frame.model.iloc[0], note=note)


def rerun_of_row(out: Outcomes, name: str, row: str) -> Outcomes | str:
    """Return the rerun compared with a printed row on a data set, or why there is none."""
    rows = out.where(source="rerun", task=name, arm=ROWS.get(row, ""))
    if rows.frame.empty:
        return _N_NOT_READ if row.startswith("other") else _WHY.get(row, _OTHER)
    if not _is_tuned(row):
        return rows
    is_medllama = rows.frame.model.map(lambda model: is_model_of(model, [MEDLLAMA]))
    own_rows = rows.select(is_medllama == row.startswith("medllama"))
    if own_rows.frame.empty:
        model = rows.frame.model.iloc[0]
        other = "LLaMA2 13B" if row.startswith("medllama") else "MedLLaMA 13B"
        return f"This run fine-tuned only {model}. We compare its answers with the rows of {other}."
    unparsed = 1 - float(own_rows.frame.parsed.mean())
    if unparsed > MAX_UNPARSED:
        share = figures.number(unparsed)
        return f"This run fine-tuned a model, but {share} of its answers cannot be parsed."
    return own_rows


def gain(out: Outcomes, first: str, second: str) -> Score:
    """Return F1 of one arm minus that of another on the same rows, as a fraction."""
    test = out.compare([(first, second)], "f1")[0].test
    return Score(test.difference, test.n, test.low, test.high)


def printed_f1(printed: Published, name: str) -> list[Number]:
    """Return the F1 that Table 1 or 2 prints on a data set, one for each system."""
    ending = f".{KEYS[name]}_f1"
    numbers = [number for number in printed.numbers if number.id.endswith(ending)]
    return [number for number in numbers if number.table in ("Table 1", "Table 2")]


def reproduction_table(run: Run, out: Outcomes, name: str, caption: str) -> figures.Html:
    """Show all systems of Table 1 or 2 on a data set with their printed F1, and every arm.

    Of DDI, a further column has F1 on the rows that are compared with the printed ones.
    """
    reruns = out.where(task=name, source="rerun")
    rows: list[dict[str, object]] = []
    arms: list[str] = []
    for number in printed_f1(run.printed, name):
        row = number.id.split(".")[2]
        is_missing = isinstance(rerun_of_row(out, name, row), str)
        arm = "" if is_missing else ROWS[row]
        arms.append(arm)
        name_in_table = f"{number.row} (see caption)" if row == "onerel" else number.row
        rows.append({"system": name_in_table, "printed F1": number.printed, **_scores(reruns, arm)})
    for arm in reruns.arms:
        if arm not in arms:
            arms.append(arm)
            rows.append({"system": "", "printed F1": None, **_scores(reruns, arm)})
    caption += _onerel_note(run.printed, name)
    return reruns.scored_table(rows, [ScoredRow(arm, "f1") for arm in arms], caption)


def _onerel_note(printed: Published, name: str) -> str:
    """Say which printed F1 of OneRel the claims use; empty if it has none on a data set."""
    first_column = f"biomedrag.table1.onerel.{KEYS[name]}_precision"
    numerals = [number.printed for number in printed.numbers if number.id == first_column]
    if not numerals:
        return ""
    return (
        " The columns of OneRel are out of order in the paper. For OneRel, this table shows the "
        "value that the paper prints under the heading F1. The claims instead use the value in the "
        f"paper's first column, {numerals[0]}, because arithmetic shows that it is the F1."
    )


def _scores(out: Outcomes, arm: str) -> dict[str, object]:
    """Return the columns of one arm; empty ones if there is no arm."""
    compared = comparable(out)
    columns: dict[str, object] = {"arm in this run": out.label(arm) if arm else None}
    if len(compared.frame) < len(out.frame):
        n_compared = compared.frame.unit.nunique()
        score = compared.format_score("f1", arm) if arm else None
        columns[f"F1, {n_compared} rows with an interaction"] = score
    columns["rows"] = None
    for measure in MEASURES:
        column = "F1" if measure == "f1" else measure
        columns[column] = out.format_score(measure, arm) if arm else None
    columns["mean prompt tokens"] = None
    if arm in out.arms_with("f1"):
        columns["rows"] = out.score("f1", arm).n
    if arm in out.arms_with("prompt_tokens"):
        tokens = out.score("prompt_tokens", arm)
        columns["mean prompt tokens"] = figures.number(tokens.value, "count")
    return columns


def second_table(
    run: Run, out: Outcomes, second: Sequence[Answer], names: Sequence[str], how: str
) -> figures.Html | str | None:
    """Show a second fine-tuned model, with MedLLaMA's printed F1.

    Args:
        run: The run.
        out: The other answers, which have labels and settings.
        second: The answers of the second model.
        names: The data sets.
        how: How it was fine-tuned, or why it was not.

    Returns:
        The table; without answers `how`, or nothing if there is nothing to say.
    """
    if not second:
        return how or None
    answers = Outcomes(second, labels=out.labels, draws=out.draws, sample=out.sample)
    rows = []
    for name in names:
        printed = {ROWS.get(n.id.split(".")[2]): n.printed for n in _of_medllama(run, name)}
        of_data = answers.where(task=name)
        for arm in of_data.arms:
            row = {"data": name, "printed F1": printed.get(arm), **_scores(of_data, arm)}
            rows.append(row)
    caption = f"The second fine-tuned model, with the numbers printed for MedLLaMA 13B. {how}."
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def _of_medllama(run: Run, name: str) -> list[Number]:
    """Return the F1 that the tables print for MedLLaMA 13B on a data set."""
    numbers = printed_f1(run.printed, name)
    return [number for number in numbers if number.id.split(".")[2].startswith("medllama")]


def no_interaction_table(out: Outcomes) -> figures.Html:
    """Show how often each arm answers that DDI's row states no interaction, by what is true."""
    rows = []
    answered = f'answered "{NO_INTERACTION}"'
    ddi = out.where(task="DDI", source="rerun")
    for arm in ddi.arms:
        frame = ddi.where(arm=arm).frame
        answered_none = frame.predicted.map(_is_no_interaction)
        is_stated = frame.strata.map(lambda strata: strata["relation"] == STATED)
        n_wrong = (answered_none & is_stated).sum()
        row = {
            "arm": out.label(arm),
            "rows": len(frame),
            answered: int(answered_none.sum()),
            f"{answered}, rows with an interaction": f"{n_wrong} of {is_stated.sum()}",
        }
        rows.append(row)
    caption = (
        f'How often each arm answers "{NO_INTERACTION}" (no interaction) on DDI. '
        f'"{NO_INTERACTION}" is the true relation of most test rows.'
    )
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def _is_no_interaction(predicted: str | None) -> bool:
    """Whether an answer in lines head|relation|tail has this relation alone."""
    relations = {line.split("|")[1] for line in (predicted or "").splitlines()}
    return relations == {NO_INTERACTION}


def split_note(released: Corpus, parts: Corpus, words: int) -> str:
    """Say how MTSamples differs here from the paper.

    Args:
        released: The data set as it is released.
        parts: The data set in its splits.
        words: Where a report was cut; 0 for not at all.
    """
    cut = f"only the first {words} words of each report" if words else "whole reports"
    if released.train:
        source = (
            f"This run uses {len(parts.train):,} of the released training reports for training and "
            f"{len(parts.validation)} others for validation"
        )
    else:
        n = len(released.test)
        names = {"train": "training"}
        shares = [
            f"{names.get(split, split)} ({100 * len(rows) / n:.0f} %)"
            for split, rows in parts.splits.items()
        ]
        source = f"We split the released test file into three parts: {figures.listed(shares)}"
    return f"The language model reads {cut}. {source}."
