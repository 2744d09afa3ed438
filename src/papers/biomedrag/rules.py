"""Rules of claims in `data/published/biomedrag.yml` that the grammar does not express: rows in, a Decision out."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part
from evaluation.outcomes import Comparison, Outcomes
from evaluation.published import WORTHWHILE, Published, Rule
from evaluation.rules import evaluate
from papers.biomedrag import ablation, printed_tests
from papers.biomedrag.released import Choice, agreement, by_chance

TUNED: Final = ("Llama-2-13B", "LLaMA2-13B", "MedLLaMA")
PROMPTED: Final = ("GPT-4",)
"""The language models that the paper fine-tunes, and the one that it prompts (section 4.3)."""
ADDED: Final = {TUNED: ("lora_rag", "lora"), PROMPTED: ("biomedrag", "zero_shot")}
"""The arms with and without BiomedRAG, by the models that the paper uses for them."""
NAMED: Final = "fine-tuned LLaMA2 and MedLLaMA, and prompted GPT-4 models"
ENCODERS: Final = "fine-tuned encoders (BERT, BioBERT, GatorTron)"
VARIED: Final = "models fine-tuned for each variant"
MANY: Final = 20
"""The least n that RA-KNN-n must be tried with to say what many sentences do; the paper goes to 30."""
SEVERAL: Final = 5  # the least n of several sentences
SLIGHT: Final = 0.2  # up to this kappa an agreement is slight (Landis and Koch 1977)


def beats_llm(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG improves the language model that it is added to (section 2.1).

    The fine-tuned arms decide where they were run with a model that the claim is about, else the prompted arms.
    """
    (first, *others), unlike = _nearest(outcomes, ADDED)
    return decisions.require_own_models(_better(first, others, outcomes), NAMED, unlike)


def _nearest(
    outcomes: Outcomes, ways: Mapping[tuple[str, ...], tuple[str, ...]]
) -> tuple[tuple[str, ...], list[str]]:
    """The first of these arms that a model named in the paper has answered, or the last, and their other models."""
    for named, arms in ways.items():
        frame = outcomes.where(arm=list(arms)).frame
        unlike = [m for m in frame.model.unique() if not decisions.is_model_of(m, named)]
        if frame.arm.nunique() == len(arms) and not unlike:
            break
    return arms, unlike


def _whole_better(outcomes: Outcomes, *, variants: Sequence[str], **_: object) -> Decision:
    """Whether the whole method is better than its variants, if all are fine-tuned (sections 2.3 and 2.4)."""
    arms, unlike = _variants(outcomes, "biomedrag", *variants)
    return decisions.require_own_models(_better(arms[0], arms[1:], outcomes), VARIED, unlike)


def _variants(outcomes: Outcomes, *prompted: str) -> tuple[tuple[str, ...], list[str]]:
    """The fine-tuned arms of variants, if a model named in the paper has answered in all, else the prompted ones."""
    arms, unlike = _nearest(outcomes, {TUNED: tuple(map(ablation.tuned, prompted)), (): prompted})
    return arms, [f"{model}, prompted" for model in unlike]


scorer_beats_cosine = partial(_whole_better, variants=["cosine"])
diversity_helps = partial(_whole_better, variants=["plain"])
longest_chunks_best = partial(_whole_better, variants=["m3", "m4"])


def small_on_par(outcomes: Outcomes, **_: object) -> Decision:
    """Whether a small encoder does as well as BiomedRAG with the model that `beats_llm` takes (section 3)."""
    arms, unlike = _nearest(outcomes, ADDED)
    rule = Rule(on_par=("encoded",), than=arms[:1], measure="right", each="task")
    found = decisions.require_own_models(
        evaluate(rule, outcomes, "rerun", paper="biomedrag"), NAMED, unlike
    )
    # a weaker small model on a par speaks for the claim, but a weaker one behind does not speak against it
    weaker = ["a logistic regression on a frozen encoder"] if found.verdict == "differs" else []
    return decisions.require_own_models(found, ENCODERS, weaker)


def one_chunk_beats_many(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG is better than RA-KNN-n for every n that was tried (sections 2.2 and 3)."""
    tried = [ablation.knn(n) for n in _tried(outcomes, "lora_knn_") or _tried(outcomes) if n]
    if not tried:
        return Decision("not run", "No n nearest sentences were tried.", reason="no answers")
    return _whole_better(outcomes, variants=tried)


def more_documents_do_not_help(outcomes: Outcomes, **_: object) -> Decision:
    """Whether the largest n leaves no room for a gain of 2 points over one sentence (section 2.2, Figure 2)."""
    tried = _tried(outcomes, "lora_knn_") or _tried(outcomes)
    if 1 not in tried or max(tried) < MANY:
        why = f"n = {', '.join(map(str, tried))}; the claim needs n = 1 and one of {MANY} or more."
        return Decision("not run", why, reason="no answers")
    (most, one), unlike = _variants(outcomes, ablation.knn(max(tried)), ablation.knn(1))
    found = outcomes.compare([(most, one)], "right", within="task")
    told = "; ".join(f"{c.model} {figures.points(c.test)} points, n = {c.test.n}" for c in found)
    criterion = partial(decisions.below, bound=WORTHWHILE)
    parts = [Part(comparison.test, criterion) for comparison in found]
    why = f"n = {max(tried)} minus n = 1: {told}."
    decision = decisions.decide_by_intervals(parts, (WORTHWHILE,), why=why)
    return decisions.require_own_models(decision, VARIED, unlike)


def shorter_input(outcomes: Outcomes, **_: object) -> Decision:
    """Whether BiomedRAG's prompts have fewer tokens than those of RA-KNN-n with several sentences (section 2.2)."""
    longer = [(f"knn_{n}", "biomedrag") for n in _tried(outcomes) if n >= SEVERAL]
    if not longer:
        return Decision("not run", f"No n of {SEVERAL} or more was tried.", reason="no answers")
    found = outcomes.compare(longer, "prompt_tokens", within="task")
    told = "; ".join(f"{c.model}, {outcomes.label(c.first)}: {_tokens(c)}" for c in found)
    why = f"Prompt tokens of RA-KNN-n minus those of BiomedRAG: {told}."
    criterion = partial(decisions.above, bound=0)
    parts = [Part(comparison.test, criterion) for comparison in found]
    return decisions.decide_by_intervals(parts, (0.0,), why=why)


def _printed(_: Outcomes, *, printed: Published, claim: str, **__: object) -> Decision:
    """What the printed numbers say about a claim, see `printed_tests.COMPARED`."""
    return printed_tests.decision(printed, claim)


significant_on_git = partial(_printed, claim="significant_on_git")
significant_on_git_re = partial(_printed, claim="significant_on_git_re")
better_on_chemprot = partial(_printed, claim="better_on_chemprot")
better_on_ddi = partial(_printed, claim="better_on_ddi")
better_on_ade = partial(_printed, claim="better_on_ade")
knn_below_none_on_ddi = partial(_printed, claim="knn_below_none_on_ddi")
best_parts = partial(_printed, claim="best_parts")


def scorer_fits_the_sentence(
    outcomes: Outcomes, *, released: Mapping[str, Sequence[Choice]], **__: object
) -> Decision:
    """Whether the relations of the trained scorer's released documents agree with those of their sentences.

    `released` are the chosen documents by retriever, see `papers.biomedrag.released`; empty for the bundled sample.
    """
    if not released:
        return Decision(
            "not run",
            "The released choices are not part of the bundled sample.",
            reason="no answers",
        )
    kappas = {name: agreement(released[name], outcomes.draws) for name in ("scorer", "knn")}
    told = {
        name: f"{sum(c.hit for c in released[name])} of {kappa.n} ({by_chance(released[name]):.1f} by chance, Cohen's "
        f"kappa {figures.score_text(kappa, 'ratio')})"
        for name, kappa in kappas.items()
    }
    why = (
        f"The document of the trained scorer shows the sentence's relation in {told['scorer']}; that of the nearest "
        f"neighbour (KNN) in {told['knn']}."
    )
    part = Part(kappas["scorer"], partial(decisions.above, bound=SLIGHT))
    return decisions.decide_by_intervals([part], (SLIGHT,), why=why)


def _better(first: str, others: Sequence[str], outcomes: Outcomes) -> Decision:
    rule = Rule(better=(first,), than=tuple(others), measure="right", each="task")
    return evaluate(rule, outcomes, "rerun", paper="biomedrag")


def _tried(outcomes: Outcomes, arm: str = "knn_") -> list[int]:
    """The n of RA-KNN-n that have rows."""
    return sorted(
        int(name.removeprefix(arm)) for name in outcomes.arms if re.fullmatch(rf"{arm}\d+", name)
    )


def _tokens(c: Comparison) -> str:
    return figures.number(c.test.difference, "count") + figures.interval(
        c.test.low, c.test.high, "count"
    )
