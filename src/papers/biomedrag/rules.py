"""Rules of claims in `data/published/biomedrag.yml` that the grammar does not express.

A rule takes the answers and returns a decision.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part
from evaluation.outcomes import Comparison, Outcomes
from evaluation.published import Published, Rule
from evaluation.rules import evaluate
from papers.biomedrag import gains, lengths, printed_tests
from papers.biomedrag.study import INTERACTING, comparable

ENCODERS: Final = "fine-tuned encoders (BERT, BioBERT, GatorTron)"
TUNED_KNN: Final = "lora_knn_"
PROMPTED_KNN: Final = "knn_"
"""Beginnings of the names of the arms RA-KNN-n, fine-tuned and prompted."""
_NEAREST_LABEL: Final = re.compile(r"\d+ nearest \((RA-KNN-\d+)\)")
SMALL_GAIN: Final = 0.02
"""A gain that more sentences would have to exceed; the paper gives none."""
MANY: Final = 20
"""The least n of RA-KNN-n that says what many sentences do; the paper goes to 30."""
ONE_TRAINING: Final = (
    " Each fine-tuned model was trained once, with one seed, so the intervals and p-values account "
    "for chance in the test texts but not in training."
)
"""What the interval of a difference between fine-tuned models leaves out."""
_PROMPTED_IN_WORDS: Final = {
    "biomedrag": "the prompted LLM with BiomedRAG",
    "zero_shot": "the prompted LLM alone",
}
"""Names of the prompted arms in sentences that stand beside those about fine-tuned ones."""


def _better(
    outcomes: Outcomes,
    *,
    first: str,
    others: Sequence[str],
    **_: object,
) -> Decision:
    """Decide whether an arm is better than others on each data set.

    Args:
        outcomes: The answers; of DDI, `comparable` selects the rows.
        first: The arm.
        others: The other arms.

    Returns:
        "agrees" if every difference is positive and significant; "differs" if one is a significant
        loss, also by its whole interval at Bonferroni's level.
    """
    rows = comparable(outcomes)
    arms = [first, *others]
    missing = [arm for arm in arms if arm not in rows.arms_with("right")]
    if missing:
        names = [_arm_in_words(rows.label(arm)) for arm in missing]
        why = f"This run has no answers by {figures.listed(names)}."
        return Decision("not tested", why, reason="no answers")
    comparisons = rows.compare([(first, other) for other in others], "right", within="task")
    described = [_described(comparison, rows, outcomes) for comparison in comparisons]
    parts = []
    for comparison in comparisons:
        criterion = partial(decisions.better, p=comparison.p)
        label = (
            f"{comparison.model}, {rows.label(comparison.first)} minus "
            f"{rows.label(comparison.second)}, accuracy"
        )
        words = (
            f"on {comparison.model}, the accuracy of {_arm_in_words(rows.label(comparison.first))} "
            f"minus that of {_arm_in_words(rows.label(comparison.second))}"
        )
        part = Part(
            comparison.test,
            criterion,
            label,
            bound=0.0,
            words=words,
            measure=comparison.measure,
            where=comparison.conditions,
        )
        parts.append(part)
    why = f"{' '.join(described)}{_training_note(arms)}"
    p = max(comparison.p for comparison in comparisons)
    n_clusters = int(rows.frame.groupby("task").cluster.nunique().min())
    if not decisions.enough_clusters(n_clusters, len(comparisons)):
        return decisions.too_few_clusters(n_clusters, why)
    decision = decisions.decide_by_intervals(parts, (0.0,), why=why, p=p)
    return decisions.with_models(decision, rows.where(arm=arms).frame.model)


def _training_note(arms: Sequence[str]) -> str:
    """Say what an interval leaves out, if models were fine-tuned."""
    is_tuned = [arm.startswith("lora") for arm in arms]
    return ONE_TRAINING if any(is_tuned) else ""


def beats_llm_tuned(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG improves the model that is fine-tuned with its examples (section 2.1)."""
    decision = _better(outcomes, first="lora_rag", others=("lora",))
    return replace(decision, why=decision.why + _prompted_gains(outcomes))


beats_llm_prompted = partial(_better, first="biomedrag", others=("zero_shot",))
"""Whether BiomedRAG improves the model that is prompted (section 2.1)."""


def _prompted_gains(outcomes: Outcomes) -> str:
    """Say what the example adds to the prompted model, beside a decision by the fine-tuned one."""
    rows = comparable(outcomes).where(arm=["biomedrag", "zero_shot"])
    if not rows.arms_with("right").issuperset({"biomedrag", "zero_shot"}):
        return ""
    comparisons = rows.compare([("biomedrag", "zero_shot")], "right", within="task")
    described = [
        _described(comparison, rows, outcomes, _PROMPTED_IN_WORDS) for comparison in comparisons
    ]
    described += gains.commonest_texts(outcomes, list(dict.fromkeys(outcomes.frame.task)))
    return f" The gain of the prompted model does not decide the claim. {' '.join(described)}"


def small_on_par(outcomes: Outcomes, *, arms: tuple[str, str], **_: object) -> Decision:
    """Whether a small encoder is on a par with the language model (section 3).

    Args:
        outcomes: The answers.
        arms: The language model with BiomedRAG, and alone; fine-tuned or prompted. The paper
            compares with no row of Table 2 in particular, so the better one has to be matched.
    """
    rule = Rule(on_par=("encoded",), than=arms, measure="right", each="task")
    decision = evaluate(rule, outcomes, "rerun", paper="biomedrag")
    decision = replace(decision, why=decision.why + _training_note(arms))
    if decision.verdict != "differs":
        return decision
    # a weaker small model on a par speaks for the claim, but a weaker one behind does not speak
    # against it
    why = f"A logistic regression on a frozen encoder replaces {ENCODERS}. {decision.why}"
    return Decision("not tested", why, reason="another system")


small_on_par_tuned = partial(small_on_par, arms=("lora_rag", "lora"))
small_on_par_prompted = partial(small_on_par, arms=("biomedrag", "zero_shot"))


def _small_on_par_printed(
    _: Outcomes, *, printed: Published, names: Sequence[str], **__: object
) -> Decision:
    """Whether the best printed encoder is on a par with the best printed language model."""
    return printed_tests.small_on_par(printed, names)


small_on_par_texts = partial(_small_on_par_printed, names=("ADE-corpus-v2", "MTSamples"))
small_on_par_links = partial(_small_on_par_printed, names=("UMLS", "ADInt"))


def _one_chunk_beats_many(outcomes: Outcomes, *, prefix: str, **_: object) -> Decision:
    """Whether BiomedRAG is better than RA-KNN-n for every n that was tried (sections 2.2 and 3)."""
    arms = [f"{prefix}{n}" for n in _arm_counts(outcomes, prefix) if n]
    if not arms:
        return Decision("not tested", _no_sentences(prefix), reason="no answers")
    return _better(outcomes, first=_whole_method(prefix), others=arms)


def _no_sentences(prefix: str) -> str:
    if prefix == TUNED_KNN:
        return "This run fine-tuned no model on prompts with the nearest examples (RA-KNN-n)."
    return "No prompt of this run shows the nearest examples (RA-KNN-n)."


def _whole_method(prefix: str) -> str:
    """Return BiomedRAG's arm beside arms whose names begin so."""
    return "lora_rag" if prefix == TUNED_KNN else "biomedrag"


one_chunk_beats_many_tuned = partial(_one_chunk_beats_many, prefix=TUNED_KNN)
one_chunk_beats_many_prompted = partial(_one_chunk_beats_many, prefix=PROMPTED_KNN)


def _more_documents_do_not_help(outcomes: Outcomes, *, prefix: str, **_: object) -> Decision:
    """Whether the largest n leaves no room for a gain of 2 points over one sentence.

    Source: section 2.2 and Figure 2.
    """
    counts = _arm_counts(outcomes, prefix)
    if not counts:
        return Decision("not tested", _no_sentences(prefix), reason="no answers")
    if 1 not in counts or max(counts) < MANY:
        numbers = figures.listed([str(count) for count in counts])
        why = (
            f"For this claim, the run has answers to prompts with n = {numbers} retrieved "
            "sentences. To test the claim, a run needs prompts that show 1 sentence and prompts "
            f"that show {MANY} or more."
        )
        return Decision("not tested", why, reason="no answers")
    pair = (f"{prefix}{max(counts)}", f"{prefix}1")
    comparisons = outcomes.compare([pair], "right", within="task")
    differences = " ".join(
        f"On {comparison.model}, accuracy changes by {figures.points(comparison.test)} points from "
        f"n = 1 to n = {max(counts)} (n = {comparison.test.n:,} rows)."
        for comparison in comparisons
    )
    criterion = partial(decisions.below, bound=SMALL_GAIN)
    parts = [
        Part(
            comparison.test,
            criterion,
            f"n = {max(counts)} minus n = 1, {comparison.model}",
            words=f"on {comparison.model}, the accuracy at n = {max(counts)} minus that at n = 1",
        )
        for comparison in comparisons
    ]
    why = f"{differences}{_training_note(pair)}"
    return decisions.decide_by_intervals(parts, (SMALL_GAIN,), why=why)


more_documents_do_not_help_tuned = partial(_more_documents_do_not_help, prefix=TUNED_KNN)
more_documents_do_not_help_prompted = partial(_more_documents_do_not_help, prefix=PROMPTED_KNN)


def shorter_input(_: Outcomes, *, prompt_words: Outcomes | None = None, **__: object) -> Decision:
    """Whether BiomedRAG's released documents are shorter than several sentences (section 2.2).

    Args:
        prompt_words: The words of the documents, see `lengths`; None with the sample.
    """
    if prompt_words is None:
        why = "The authors' prompts are read only with the real data."
        return Decision("not tested", why, reason="no answers")
    return lengths.decision(prompt_words)


def _gain_here(outcomes: Outcomes, *, data: str, first: str, other: str, **_: object) -> Decision:
    """Whether BiomedRAG improves this run's model on one data set.

    Args:
        outcomes: The answers.
        data: The data set, the one comparison of the family.
        first: The arm with BiomedRAG.
        other: The same model without it.
    """
    return _better(outcomes.where(task=data), first=first, others=(other,))


def _tuned_on(data: str) -> partial[Decision]:
    return partial(_gain_here, data=data, first="lora_rag", other="lora")


def _prompted_on(data: str) -> partial[Decision]:
    return partial(_gain_here, data=data, first="biomedrag", other="zero_shot")


tuned_on_git = _tuned_on("GIT")
tuned_on_chemprot = _tuned_on("ChemProt")
tuned_on_ddi = _tuned_on("DDI")
tuned_on_git_re = _tuned_on("GIT-RE")
tuned_on_ade = _tuned_on("ADE-corpus-v2")
tuned_on_mtsamples = _tuned_on("MTSamples")
tuned_on_umls = _tuned_on("UMLS")
tuned_on_adint = _tuned_on("ADInt")
prompted_on_ade = _prompted_on("ADE-corpus-v2")
prompted_on_mtsamples = _prompted_on("MTSamples")
prompted_on_umls = _prompted_on("UMLS")
prompted_on_adint = _prompted_on("ADInt")
"""Gains on one data set, which the printed numbers of two or three models answer for the paper."""


def _printed(_: Outcomes, *, printed: Published, claim: str, **__: object) -> Decision:
    """Decide a claim by the printed numbers, see `printed_tests.COMPARED`."""
    return printed_tests.decision(printed, claim)


printed_triples = partial(_printed, claim="beats_llm_triples")
printed_relations = partial(_printed, claim="beats_llm_relations")
printed_classification = partial(_printed, claim="beats_llm_classification")
printed_links = partial(_printed, claim="beats_llm_links")
gain_on_git = partial(_printed, claim="gain_on_git")
gain_on_chemprot = partial(_printed, claim="gain_on_chemprot")
gain_on_ddi = partial(_printed, claim="gain_on_ddi")
retrieval_beats_onerel = partial(_printed, claim="retrieval_beats_onerel")
light_models_lag_on_git = partial(_printed, claim="light_models_lag_on_git")
beyond_best_retrieval = partial(_printed, claim="beyond_best_retrieval")
gpt4_untrained_worse = partial(_printed, claim="gpt4_untrained_worse")
gpt4_above_encoders_on_ade = partial(_printed, claim="gpt4_above_encoders_on_ade")
printed_mtsamples = partial(_printed, claim="prompted_llm_best_on_mtsamples")
printed_scorer = partial(_printed, claim="scorer_beats_cosine")
printed_diversity = partial(_printed, claim="diversity_helps")
printed_chunks = partial(_printed, claim="longest_chunks_best")
printed_more_documents = partial(_printed, claim="more_documents_do_not_help")
printed_one_chunk = partial(_printed, claim="one_chunk_beats_many")
gain_on_git_re = partial(_printed, claim="gain_on_git_re")
significant_on_git = partial(_printed, claim="significant_on_git")
significant_on_git_re = partial(_printed, claim="significant_on_git_re")
better_on_chemprot = partial(_printed, claim="better_on_chemprot")
better_on_ddi = partial(_printed, claim="better_on_ddi")
better_on_ade = partial(_printed, claim="better_on_ade")
knn_below_none_on_ddi = partial(_printed, claim="knn_below_none_on_ddi")
better_on_mtsamples = partial(_printed, claim="better_on_mtsamples")
better_on_umls = partial(_printed, claim="better_on_umls")
better_on_adint = partial(_printed, claim="better_on_adint")
one_sentence_best_on_ade = partial(_printed, claim="one_sentence_best_on_ade")
onerel_beats_unirel = partial(_printed, claim="onerel_beats_unirel")
retrieval_helps_labels = partial(_printed, claim="retrieval_helps_labels")
superior_everywhere = partial(_printed, claim="superior_everywhere")
one_sentence_best_on_git_re = partial(_printed, claim="one_sentence_best_on_git_re")
best_parts = partial(_printed, claim="best_parts")


def significant_everywhere(_: Outcomes, *, printed: Published, **__: object) -> Decision:
    """Whether gains over strong baselines are significant on each data set, or task (section 1)."""
    return printed_tests.decision_by_task(printed, "significant_everywhere")


def significant_on_extraction(_: Outcomes, *, printed: Published, **__: object) -> Decision:
    """Whether gains on triples and relations are significant (sections 2.3 and 2.4).

    The sentences can mean all data sets of both tasks, or GIT and GIT-RE, which the sections use.
    """
    used = ("git", "git_re")
    return printed_tests.decision_by_readings(printed, "significant_on_extraction", used)


def _described(
    comparison: Comparison,
    rows: Outcomes,
    outcomes: Outcomes,
    arms_in_words: Mapping[str, str] | None = None,
) -> str:
    """Describe a difference, of DDI also on all test rows.

    Args:
        comparison: The difference.
        rows: The rows that are compared.
        outcomes: All answers.
        arms_in_words: How the sentences name the arms, if not by their labels.
    """
    words = arms_in_words or {arm: _arm_in_words(rows.label(arm)) for arm in rows.arms}
    test = comparison.test
    name = comparison.model
    first, second = (figures.number(score.value) for score in comparison.scores)
    arms = (comparison.first, comparison.second)
    first_arm, second_arm = (f"for {words[arm]}" for arm in arms)
    all_rows = outcomes.where(task=name).compare([arms], "right")[0].test
    is_of_some = all_rows.n != test.n
    kind = f" {INTERACTING}" if is_of_some else ""
    compared = f"the rows of {name}{kind}" if is_of_some else name
    sentences = [
        f"On {compared}, accuracy is {first} {first_arm} and {second} {second_arm}. The difference "
        f"is {figures.points(test)} points ({figures.p_words(comparison.p)}, n = {test.n:,} "
        f"rows{kind})."
    ]
    near_floor = gains.floor_text(comparison, first_arm, second_arm)
    if near_floor:
        sentences.append(f"Both scores are near zero: {near_floor}.")
    if is_of_some:
        sentences.append(
            f"On all {all_rows.n:,} rows of {name}, the difference is "
            f"{figures.points(all_rows)} points."
        )
    return " ".join(sentences)


def _arm_in_words(label: str) -> str:
    """Name an arm as a sentence does: `the fine-tuned LLM`, `RA-KNN-5`."""
    if match := _NEAREST_LABEL.fullmatch(label):
        return match[1]
    words = label.replace("Fine-tuned", "fine-tuned")
    if words == "fine-tuned LLM":
        words += " alone"
    return f"the {words}" if words.startswith(("fine-tuned", "LLM")) else words


def _arm_counts(outcomes: Outcomes, prefix: str) -> list[int]:
    """Return the numbers n of arms that are called by a prefix and n."""
    numbers = [arm.removeprefix(prefix) for arm in outcomes.arms if arm.startswith(prefix)]
    return sorted(int(number) for number in numbers if number.isdecimal())
