"""Rules of claims in `data/published/biomedrag.yml` that the grammar does not express.

A rule takes the answers and returns a decision.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part
from evaluation.metrics import Score
from evaluation.outcomes import Comparison, Outcomes
from evaluation.published import WORTHWHILE, Published, Rule
from evaluation.rules import evaluate
from papers.biomedrag import ablation, printed_tests
from papers.biomedrag.released import Choice, agreement, by_chance, commonest_share
from papers.biomedrag.study import comparable

TUNED: Final = ("Llama-2-13B", "LLaMA2-13B", "MedLLaMA")
PROMPTED: Final = ("GPT-4",)
"""The language models that the paper fine-tunes, and the one that it prompts (section 4.3)."""
ADDED: Final = {TUNED: ("lora_rag", "lora"), PROMPTED: ("biomedrag", "zero_shot")}
"""The arms with and without BiomedRAG, by the models that the paper uses for them."""
NAMED: Final = "fine-tuned LLaMA2 and MedLLaMA, and prompted GPT-4 models"
ENCODERS: Final = "fine-tuned encoders (BERT, BioBERT, GatorTron)"
VARIED: Final = "models fine-tuned for each variant"
MANY: Final = 20
"""The least n of RA-KNN-n that says what many sentences do; the paper goes to 30."""
SEVERAL: Final = 5
"""The least n of several sentences."""
SLIGHT_LOSS: Final = 0.01
"""A loss up to this share does not refute a gain.

On DDI the printed recall with BiomedRAG is 0.51 points below that without, and the paper speaks of
a gain; a rerun with exactly these recalls must not refute it.
"""
SLIGHT: Final = 0.2
"""Up to this kappa an agreement is slight (Landis and Koch 1977)."""
MAX_COMMONEST: Final = 0.5
"""The largest share of sentences that two documents may serve if documents are diverse."""


def beats_llm(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG improves the language model that it is added to (section 2.1).

    The fine-tuned arms decide if they were run with a model that the claim is about, else the
    prompted arms.
    """
    (first, *others), unlike = _nearest(outcomes, ADDED)
    decision = _better(first, others, outcomes, max_loss=SLIGHT_LOSS)
    return decisions.require_own_models(decision, NAMED, unlike)


def _nearest(
    outcomes: Outcomes, arms_by_models: Mapping[tuple[str, ...], tuple[str, ...]]
) -> tuple[tuple[str, ...], list[str]]:
    """Find the first arms that a model of the paper has answered.

    Args:
        outcomes: The answers.
        arms_by_models: The arms to try, by the names of the models that the paper uses for them.

    Returns:
        The first arms that only these models have answered, else the last, and their other models.
    """
    for names, arms in arms_by_models.items():
        frame = outcomes.where(arm=list(arms)).frame
        models = frame.model.unique()
        others = [model for model in models if not decisions.is_model_of(model, names)]
        if frame.arm.nunique() == len(arms) and not others:
            break
    return arms, others


def _whole_better(outcomes: Outcomes, *, variants: Sequence[str], **_: object) -> Decision:
    """Whether the whole method is better than its variants, if all are fine-tuned.

    Source: sections 2.3 and 2.4.
    """
    arms, unlike = _variants(outcomes, "biomedrag", *variants)
    return decisions.require_own_models(_better(arms[0], arms[1:], outcomes), VARIED, unlike)


def _variants(outcomes: Outcomes, *prompted: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the fine-tuned arms of variants, if a model of the paper has answered all of them.

    Else the prompted arms are returned.
    """
    fine_tuned = tuple(map(ablation.tuned, prompted))
    arms, unlike = _nearest(outcomes, {TUNED: fine_tuned, (): prompted})
    return arms, [f"{model}, prompted" for model in unlike]


scorer_beats_cosine = partial(_whole_better, variants=["cosine"])
diversity_helps = partial(_whole_better, variants=["plain"])
longest_chunks_best = partial(_whole_better, variants=["m3", "m4"])


def small_on_par(outcomes: Outcomes, **_: object) -> Decision:
    """Whether a small encoder is on a par with BiomedRAG as in `beats_llm` (section 3)."""
    arms, unlike = _nearest(outcomes, ADDED)
    rule = Rule(on_par=("encoded",), than=arms[:1], measure="right", each="task")
    evaluated = evaluate(rule, outcomes, "rerun", paper="biomedrag")
    decision = decisions.require_own_models(evaluated, NAMED, unlike)
    # a weaker small model on a par speaks for the claim, but a weaker one behind does not speak
    # against it
    weaker = ["a logistic regression on a frozen encoder"] if decision.verdict == "differs" else []
    return decisions.require_own_models(decision, ENCODERS, weaker)


def one_chunk_beats_many(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG is better than RA-KNN-n for every n that was tried (sections 2.2 and 3)."""
    arms = [ablation.knn(n) for n in _counts(outcomes) if n]
    if not arms:
        return Decision("not run", "No n nearest sentences were tried.", reason="no answers")
    return _whole_better(outcomes, variants=arms)


def more_documents_do_not_help(outcomes: Outcomes, **_: object) -> Decision:
    """Whether the largest n leaves no room for a gain of 2 points over one sentence.

    Source: section 2.2 and Figure 2.
    """
    counts = _counts(outcomes)
    if 1 not in counts or max(counts) < MANY:
        numbers = ", ".join(map(str, counts))
        why = f"n = {numbers}; the claim needs n = 1 and one of {MANY} or more."
        return Decision("not run", why, reason="no answers")
    (many, single), unlike = _variants(outcomes, ablation.knn(max(counts)), ablation.knn(1))
    comparisons = outcomes.compare([(many, single)], "right", within="task")
    differences = "; ".join(
        f"{comparison.model} {figures.points(comparison.test)} points, n = {comparison.test.n}"
        for comparison in comparisons
    )
    criterion = partial(decisions.below, bound=WORTHWHILE)
    parts = [Part(comparison.test, criterion) for comparison in comparisons]
    why = f"n = {max(counts)} minus n = 1: {differences}."
    decision = decisions.decide_by_intervals(parts, (WORTHWHILE,), why=why)
    return decisions.require_own_models(decision, VARIED, unlike)


def shorter_input(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG's prompts are shorter than those of RA-KNN-n with several sentences.

    Source: section 2.2. Prompts are compared in tokens.
    """
    counts = [n for n in _arm_counts(outcomes, "knn_") if n >= SEVERAL]
    if not counts:
        return Decision("not run", f"No n of {SEVERAL} or more was tried.", reason="no answers")
    pairs = [(ablation.knn(n), "biomedrag") for n in counts]
    comparisons = outcomes.compare(pairs, "prompt_tokens", within="task")
    differences = "; ".join(
        f"{comparison.model}, {outcomes.label(comparison.first)}: {_tokens(comparison)}"
        for comparison in comparisons
    )
    why = f"Prompt tokens of RA-KNN-n minus those of BiomedRAG: {differences}."
    criterion = partial(decisions.above, bound=0)
    parts = [Part(comparison.test, criterion) for comparison in comparisons]
    return decisions.decide_by_intervals(parts, (0.0,), why=why)


def _printed(_: Outcomes, *, printed: Published, claim: str, **__: object) -> Decision:
    """Decide a claim by the printed numbers, see `printed_tests.COMPARED`."""
    return printed_tests.decision(printed, claim)


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
superior_everywhere = partial(_printed, claim="superior_everywhere")
best_parts = partial(_printed, claim="best_parts")


def scorer_fits_the_sentence(
    outcomes: Outcomes, *, released: Mapping[str, Sequence[Choice]], **__: object
) -> Decision:
    """Whether the relations of the trained scorer's documents agree with those of the sentences.

    Args:
        outcomes: The answers.
        released: The released choices of each retriever, see `papers.biomedrag.released`; empty for
            the bundled sample.
    """
    if not released:
        return _not_in_sample()
    scorer = agreement(released["scorer"], outcomes.draws)
    nearest = agreement(released["knn"], outcomes.draws)
    why = (
        "The document of the trained scorer shows the sentence's relation in "
        f"{_agreement_text(released['scorer'], scorer)}; that of the nearest neighbour (KNN) in "
        f"{_agreement_text(released['knn'], nearest)}."
    )
    part = Part(scorer, partial(decisions.above, bound=SLIGHT))
    return decisions.decide_by_intervals([part], (SLIGHT,), why=why)


def documents_are_diverse(
    _: Outcomes, *, released: Mapping[str, Sequence[Choice]], **__: object
) -> Decision:
    """Whether the released documents differ from sentence to sentence (section 3).

    Args:
        released: As in `scorer_fits_the_sentence`.
    """
    if not released:
        return _not_in_sample()
    share = commonest_share(released["scorer"])
    n_documents = len({choice.document for choice in released["scorer"]})
    why = (
        f"Two documents serve {figures.score_text(share)} of the {share.n} test sentences of GIT; "
        f"{n_documents} different documents serve all of them."
    )
    part = Part(share, partial(decisions.below, bound=MAX_COMMONEST))
    return decisions.decide_by_intervals([part], (MAX_COMMONEST,), why=why)


def _not_in_sample() -> Decision:
    why = "The released choices are not part of the bundled sample."
    return Decision("not run", why, reason="no answers")


def _agreement_text(choices: Sequence[Choice], kappa: Score) -> str:
    n_hits = sum(choice.hit for choice in choices)
    return (
        f"{n_hits} of {kappa.n} ({by_chance(choices):.1f} by chance, Cohen's kappa "
        f"{figures.score_text(kappa, 'ratio')})"
    )


def _better(
    first: str, others: Sequence[str], outcomes: Outcomes, max_loss: float = 0.0
) -> Decision:
    """Decide whether an arm is better than others on each data set.

    Args:
        first: The arm.
        others: The other arms.
        outcomes: The answers; of DDI, `comparable` selects the rows.
        max_loss: The claim is refuted where the whole interval is below minus this share.

    Returns:
        "agrees" if every difference is positive and significant; "differs" if one is a loss of more
        than `max_loss`, by its whole interval at Bonferroni's level.
    """
    rows = comparable(outcomes.where(source="rerun"))
    arms = [first, *others]
    missing = [rows.label(arm) for arm in arms if arm not in rows.arms_with("right")]
    if missing:
        why = f"{', '.join(missing)}: no answers in this run."
        return Decision("not run", why, reason="no answers")
    comparisons = rows.compare([(first, other) for other in others], "right", within="task")
    described = [_described(comparison, rows, outcomes) for comparison in comparisons]
    parts = [
        Part(comparison.test, partial(decisions.better, p=comparison.p, worthwhile=-max_loss))
        for comparison in comparisons
    ]
    why = f"{'; '.join(described)}."
    p = max(comparison.p for comparison in comparisons)
    n_clusters = int(rows.frame.groupby("task").cluster.nunique().min())
    if not decisions.enough_clusters(n_clusters, len(comparisons)):
        return decisions.too_few_clusters(n_clusters, why)
    return decisions.decide_by_intervals(parts, (0.0, -max_loss), why=why, p=p)


def _described(comparison: Comparison, rows: Outcomes, outcomes: Outcomes) -> str:
    """Describe a difference, of DDI also on all test rows."""
    test = comparison.test
    name = comparison.model
    text = (
        f"{name}, {rows.label(comparison.first)} minus {rows.label(comparison.second)}: "
        f"{figures.points(test)} points right, {figures.p_words(comparison.p)}, n = {test.n:,}"
    )
    arms = (comparison.first, comparison.second)
    all_rows = outcomes.where(source="rerun", task=name).compare([arms], "right")[0].test
    if all_rows.n == test.n:
        return text
    return f"{text} that state an interaction ({figures.points(all_rows)} on all {all_rows.n:,})"


def _counts(outcomes: Outcomes) -> list[int]:
    """Return the n of RA-KNN-n of the fine-tuned arms; if there are none, of the prompted ones."""
    return _arm_counts(outcomes, "lora_knn_") or _arm_counts(outcomes, "knn_")


def _arm_counts(outcomes: Outcomes, prefix: str) -> list[int]:
    """Return the numbers n of arms that are called by a prefix and n."""
    numbers = [arm.removeprefix(prefix) for arm in outcomes.arms if arm.startswith(prefix)]
    return sorted(int(number) for number in numbers if number.isdecimal())


def _tokens(comparison: Comparison) -> str:
    test = comparison.test
    interval = figures.interval(test.low, test.high, "count")
    return figures.number(test.difference, "count") + interval
