"""Claims of BiomedRAG that its printed numbers decide: are the differences chance?

Systems that answered the same rows are compared by McNemar's test, which needs the rows where just
one of them is right. The paper prints no such counts. But two printed shares of n rows bound them,
and so the p-value: it is lowest where the weaker system is right nowhere that the stronger one is
wrong, and highest where that happens as often as the two counts allow. A claim is decided only if
every p-value in this range says the same; otherwise it is inconclusive.

All claims are tested by F1, in which the paper words its gains. The count of rows that is nearest
to an F1 stands for it; where each row has one answer, F1 is the share of right rows.

The test is of two systems as they were trained. The paper names one training of each, so no p-value
says what another training of the same system would score.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final

import pandas as pd
from scipy.stats import binomtest

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part, all_of
from evaluation.metrics import ALPHA, Score
from evaluation.paired import holm
from evaluation.published import ON_PAR, Number, Published
from evaluation.vocabulary import Tested
from helpers.counting import part_in_words
from papers.biomedrag.corpora import KEYS
from papers.biomedrag.study import INTERACTING

_WHICH_VALUE: Final = re.compile(r"n not read \(\d of \d\)")
_RA_KNN: Final = re.compile(r"(.+?), (RA-KNN(?:-\d+)?)(?:, (.+))?")
_CHUNKS: Final = re.compile(r"m = (\d)")
_PART_OF_TRIPLE: Final = re.compile(r"(DDI|ChemProt|GIT), (.+), (head|tail|relation)")
INTERACTIONS: Final = 368
"""Test rows of DDI that state an interaction.

More of the printed recalls are whole numbers of these than of all 1,376 (`balance.digits_table`),
so the claims about DDI are tested on them.
"""
TRIPLES: Final = (
    "gain_on_git",
    "gain_on_chemprot",
    "gain_on_ddi",
    "significant_on_git",
    "better_on_chemprot",
    "better_on_ddi",
    "knn_below_none_on_ddi",
    "best_parts",
    "retrieval_beats_onerel",
    "light_models_lag_on_git",
    "onerel_beats_unirel",
)
"""Claims about triples that the printed numbers decide."""
RELATIONS: Final = (
    "gain_on_git_re",
    "significant_on_git_re",
    "significant_on_extraction",
    "one_sentence_best_on_git_re",
    "beyond_best_retrieval",
)
"""Claims that the printed numbers alone decide once GIT-RE is known."""
TEXTS: Final = (
    "better_on_ade",
    "better_on_mtsamples",
    "gpt4_untrained_worse",
    "gpt4_above_encoders_on_ade",
    "one_sentence_best_on_ade",
)
"""Claims about texts that the printed numbers decide."""
ABLATIONS: Final = (
    "scorer_beats_cosine",
    "diversity_helps",
    "longest_chunks_best",
    "one_chunk_beats_many",
    "more_documents_do_not_help",
)
"""Claims of which the printed numbers are one evidence, and a rerun is another."""

_SYSTEMS: Final = (
    "unirel",
    "uie_base",
    "e2h_large",
    "e2h_base",
    "uie_large",
    "gpt4",
    "medllama",
    "llama2",
)
_CITED: Final = ("jbuim", "spbere")
"""Systems whose F1 section 2.1 cites from their own papers."""
_RELATION_SYSTEMS: Final = (
    "rt_10",
    "rt_5",
    "rt_1",
    "rt_20",
    "bert",
    "biobert",
    "gpt4",
    "medllama",
    "llama2",
    "medllama_br",
)


def _numbers(pattern: str, names: Sequence[str]) -> list[str]:
    return [pattern.format(name) for name in names]


def _best_parts() -> dict[str, list[str]]:
    """Return the parts of triples of BiomedRAG, each against the other system of Table 3."""
    others = {
        "ddi": "uie_large_ddi.{}_f1",
        "chemprot": "e2h_large_chemprot.{}_f1",
        # its F1 is the first of its columns
        "git": "onerel_git.{}_precision",
    }
    compared = {}
    for data, other in others.items():
        for part in ("head", "tail", "relation"):
            compared[f"table3.llama2_br_{data}.{part}_f1"] = [f"table3.{other.format(part)}"]
    return compared


_FINE_TUNED: Final = ("medllama", "llama2")
_ENCODERS: Final = ("bert", "biobert", "gatortron")


def _gains(
    column: str, table: str = "table1", names: Sequence[str] = _FINE_TUNED
) -> dict[str, list[str]]:
    """Return language models with BiomedRAG, each against itself alone."""
    return {f"{table}.{name}_br.{column}": [f"{table}.{name}.{column}"] for name in names}


def _gains_of_three(data: str) -> dict[str, list[str]]:
    """Return the gains of the three language models of Table 2."""
    return _gains(f"{data}_f1", "table2", (*_FINE_TUNED, "gpt4"))


def _gains_on_triples() -> dict[str, list[str]]:
    """Return the gains of both fine-tuned models on the three data sets of triples."""
    return _gains("git_f1") | _gains("chemprot_f1") | _gains("ddi_f1")


def _above_systems(data: str) -> list[str]:
    """Return the F1 of the baselines of Table 1 on a data set; OneRel's is its first column."""
    return [*_numbers(f"table1.{{}}.{data}_f1", _SYSTEMS), f"table1.onerel.{data}_precision"]


def _above_gpt4(*columns: str) -> dict[str, list[str]]:
    """Return the fine-tuned models against GPT-4 alone."""
    compared = {}
    for column in columns:
        table = "table2" if column.startswith("ade") else "table1"
        for name in _FINE_TUNED:
            compared[f"{table}.{name}.{column}"] = [f"{table}.gpt4.{column}"]
    return compared


_SUPERIOR: Final = {
    "table1.llama2_br.git_f1": ["figure2.git.llama2_top20"],
    "table1.llama2_br.ddi_f1": ["table1.llama2.ddi_f1"],
    "table1.llama2_br.chemprot_f1": ["figure2.chemprot.top1"],
    "table1.llama2_br.git_re_f1": ["figure2.git_re.llama2_top20"],
    "table2.medllama_br.ade_f1": ["figure2.ade.top1"],
    "table2.gpt4_br.mtsamples_f1": ["table2.gpt4.mtsamples_f1"],
    "table2.llama2_br.umls_f1": ["figure2.umls.top10"],
    "table2.llama2_br.adint_f1": ["figure2.adint.other1"],
}
"""The best row with BiomedRAG on each data set, and the best other one."""
COMPARED: Final = {
    "beats_llm_triples": _gains_on_triples(),
    "beats_llm_relations": _gains("git_re_f1"),
    "beats_llm_classification": _gains_of_three("ade") | _gains_of_three("mtsamples"),
    "beats_llm_links": _gains_of_three("umls") | _gains_of_three("adint"),
    "gain_on_git": _gains("git_f1"),
    "gain_on_chemprot": _gains("chemprot_f1"),
    "gain_on_ddi": _gains("ddi_f1"),
    "significant_on_git": {"table1.llama2_br.git_f1": _above_systems("git")},
    "better_on_chemprot": {
        "table1.llama2_br.chemprot_f1": [
            *_above_systems("chemprot"),
            *_numbers("text.chemprot.{}", _CITED),
        ]
    },
    "gain_on_git_re": _gains("git_re_f1"),
    "significant_on_git_re": {
        "table1.llama2_br.git_re_f1": _numbers("table1.{}.git_re_f1", _RELATION_SYSTEMS)
    },
    "better_on_ddi": {
        "table1.llama2_br.ddi_f1": [
            *_above_systems("ddi"),
            *_numbers("text.ddi.{}", _CITED),
            "figure2.ddi.*",
        ]
    },
    "better_on_ade": _gains_of_three("ade"),
    "better_on_mtsamples": _gains_of_three("mtsamples"),
    "better_on_umls": _gains_of_three("umls"),
    "better_on_adint": _gains_of_three("adint"),
    "one_sentence_best_on_ade": {"figure2.ade.top1": ["figure2.ade.other*"]},
    "onerel_beats_unirel": {
        f"table1.onerel.{data}_precision": [f"table1.unirel.{data}_f1"]
        for data in ("ddi", "chemprot", "git")
    },
    "retrieval_beats_onerel": {"figure2.git.medllama_top1": ["table1.onerel.git_precision"]},
    "light_models_lag_on_git": {
        "table1.llama2.git_f1": ["table1.unirel.git_f1", "table1.onerel.git_precision"]
    },
    "beyond_best_retrieval": {
        "table1.medllama_br.git_f1": ["figure2.git.medllama_top1"],
        "table1.llama2_br.git_f1": ["figure2.git.llama2_top20"],
        "table1.medllama_br.git_re_f1": ["figure2.git_re.medllama_top1"],
        "table1.llama2_br.git_re_f1": ["figure2.git_re.llama2_top20"],
    },
    "gpt4_untrained_worse": _above_gpt4("ddi_f1", "chemprot_f1", "git_f1", "git_re_f1", "ade_f1"),
    "gpt4_above_encoders_on_ade": {
        "table2.gpt4_br.ade_f1": _numbers("table2.{}.ade_f1", _ENCODERS)
    },
    "prompted_llm_best_on_mtsamples": {
        "table2.gpt4.mtsamples_f1": _numbers("table2.{}.mtsamples_f1", _FINE_TUNED)
    },
    "superior_everywhere": _SUPERIOR,
    "significant_everywhere": _SUPERIOR,
    "significant_on_extraction": _gains_on_triples() | _gains("git_re_f1"),
    "one_sentence_best_on_git_re": {
        "figure2.git_re.medllama_top1": ["figure2.git_re.other_medllama_*"]
    },
    "retrieval_helps_labels": {
        "figure2.git_re.medllama_top1": ["table1.medllama.git_re_f1"],
        "figure2.git_re.llama2_top20": ["table1.llama2.git_re_f1"],
        "figure2.ade.top1": ["table2.llama2.ade_f1"],
        "figure2.mtsamples.other1": ["table2.gpt4.mtsamples_f1"],
        "figure2.umls.top10": ["table2.llama2.umls_f1"],
        "figure2.adint.other1": ["table2.llama2.adint_f1"],
    },
    "knn_below_none_on_ddi": {"table1.llama2.ddi_f1": ["figure2.ddi.*"]},
    "best_parts": _best_parts(),
    "scorer_beats_cosine": {
        "table4.te_whole.f1": ["table4.te_without_scorer.f1"],
        "table4.re_whole.f1": ["table4.re_without_scorer.f1"],
    },
    "diversity_helps": {
        "table4.te_whole.f1": ["table4.te_without_diversity.f1"],
        "table4.re_whole.f1": ["table4.re_without_diversity.f1"],
    },
    "longest_chunks_best": {
        "table4.te_whole.f1": ["figure3.git_triple_f1.m*"],
        "table4.re_whole.f1": ["figure3.git_re_f1.m*"],
    },
    "one_chunk_beats_many": {
        "table1.medllama_br.git_f1": ["figure2.git.medllama_top1"],
        "table1.llama2_br.git_f1": ["figure2.git.*llama2_*"],
        "table1.llama2_br.ddi_f1": ["figure2.ddi.*"],
        "table1.llama2_br.chemprot_f1": ["figure2.chemprot.*"],
        "table1.medllama_br.git_re_f1": ["figure2.git_re.*medllama_*"],
        "table1.llama2_br.git_re_f1": ["figure2.git_re.*llama2_*"],
        "table2.llama2_br.ade_f1": ["figure2.ade.*"],
        "table2.gpt4_br.mtsamples_f1": ["figure2.mtsamples.*"],
        "table2.llama2_br.umls_f1": ["figure2.umls.*"],
        "table2.llama2_br.adint_f1": ["figure2.adint.*"],
    },
    "more_documents_do_not_help": {
        "figure2.chemprot.top1": ["figure2.chemprot.other6"],
        # the lowest value may be that of n = 0, so the second lowest is compared
        "figure2.ade.top1": ["figure2.ade.other6"],
    },
}
"""For each claim that printed numbers decide: the number that it calls higher, and the others."""
_ONEREL: Final = (
    " We take OneRel's F1 from its first column, which is the harmonic mean of the other two "
    "columns."
)
_CITED_F1: Final = (
    " The paper cites the F1 of JBUIM and SPBERE from their own papers, so these systems may have "
    "answered other rows. We assume that they answered the same rows, as McNemar's test requires."
)
_OTHER_MEASURES: Final = (
    " The claim is about every measure. BiomedRAG's printed precision and recall are also higher "
    "than the baselines', but we test only F1, in which the paper states its gains."
)
_ZERO_ON_ADE: Final = (
    " In the text of the paper's PDF file, the eight values of Figure 2 (e), on ADE-corpus-v2, "
    "stand without their n, and we did not read n from the figure. Figure 1 (e) names n for only "
    "one of the eight values, n = 1. One of the seven others must be the value without retrieval "
    "(n = 0), but we do not know which."
)
_ADINT: Final = (
    " On ADInt, the paper prints an F1 of 62.22 for LLaMA2 13B with BiomedRAG. For LLaMA2 13B with "
    "RA-KNN-n, two printed values are higher: 62.77 (n not read) and 62.63 (n = 15). RA-KNN-n "
    "therefore leads by 4 rows and by 3 rows of 720. The paper's Section 2.2 itself calls LLaMA2 "
    "13B with n = 15 superior to LLaMA2 13B with BiomedRAG, which Figure 1 (h) shows on ADInt. As "
    "a statement about the printed scores on every data set, the claim is wrong. However, a "
    "difference of so few rows does not show that one system is better than the other."
)
_PANEL_B: Final = (
    " Figure 2 (b), on ChemProt, is headed LLaMA2 13B, and we read it as such. Its value without "
    "retrieval, however, is 50.52, which Table 1 prints for MedLLaMA 13B (77.48 for LLaMA2 13B). "
    "Figure 1 (b) and the caption of Figure 2 support LLaMA2 13B. Figure 1 (b) labels a bar LLaMA2 "
    "13B-top1, and the "
    "caption says that the model with the highest baseline is used. The slip is therefore more "
    "likely in the value 50.52 than in the heading."
)
_BEST_ROWS: Final = (
    " On each data set, we compare the best row with BiomedRAG to the best other row of a table "
    "or of Figure 2. For RA-KNN-n, which shows the n nearest sentences, the paper prints scores "
    "for several n. We take the best score, which favours the row without BiomedRAG."
    + _ADINT
    + _PANEL_B
    + " The comparison on ChemProt holds under either reading of Figure 2 (b), because it takes "
    "the best row of any model."
)
_DDI_F1: Final = (
    " The printed precision and recall of LLaMA2 13B with BiomedRAG on DDI (80.50 and 79.10) give "
    "an F1 of 79.79, not the printed 80.00. Both F1 values correspond to the same number of "
    "correct answers among the 368 rows."
)
_MORE: Final = {
    "beats_llm_triples": " On GIT and ChemProt, the gains of both models are significant. On DDI, "
    "neither model's gain is significant." + _DDI_F1,
    "beats_llm_classification": " On ADE-corpus-v2, all three gains are significant. On MTSamples, "
    "only the gain of MedLLaMA 13B is significant.",
    "beats_llm_links": " On UMLS, the gains of MedLLaMA 13B and GPT-4 are significant. On ADInt, "
    "only the gain of MedLLaMA 13B is significant.",
    "retrieval_helps_labels": " On each data set, we take the best printed score of RA-KNN-n, "
    "which favours retrieval. On MTSamples, both printed values of RA-KNN-n are below the score of "
    "GPT-4 alone.",
    "gain_on_ddi": " On DDI, the printed recall of LLaMA2 13B with BiomedRAG is 0.51 points lower "
    "than that of LLaMA2 13B alone." + _DDI_F1,
    "significant_on_git": _ONEREL + _OTHER_MEASURES,
    "better_on_ddi": " On DDI, the printed recall of LLaMA2 13B with BiomedRAG is lower than that "
    "of LLaMA2 13B alone." + _DDI_F1 + _CITED_F1 + _ONEREL,
    "better_on_chemprot": _CITED_F1 + _ONEREL,
    "better_on_ade": " The score of 99.89 that the paper prints for MedLLaMA 13B with BiomedRAG "
    "corresponds to no whole number of the 500 rows, so we test the nearest whole number. The "
    "gains tested here are gains over the models without retrieval. LLaMA2 13B with RA-KNN-1 "
    "reaches an F1 of 99.6 % on this data set.",
    "better_on_mtsamples": " As a share of the 500 rows, none of the six printed F1 "
    "values corresponds to a whole number of rows, so we test the nearest whole numbers.",
    "one_sentence_best_on_ade": _ZERO_ON_ADE
    + " All seven are lower than the value of n = 1, so it does not matter which of them is the "
    "value without retrieval.",
    "onerel_beats_unirel": _ONEREL
    + " In the column headed F1, OneRel's value on DDI (22.09) is below UniRel's (27.13). "
    "UniRel's printed precision and recall on DDI (25.59 and 21.92) give an F1 of 23.61, not "
    "27.13, unless 25.59 is a misprint of 35.59. With an F1 of 23.61 for UniRel, the highest p on "
    "DDI would be 0.006, and the printed numbers would agree with the claim.",
    "retrieval_beats_onerel": _ONEREL + " Figure 1 (c) draws OneRel's third column instead.",
    "light_models_lag_on_git": _ONEREL + " OneRel scores higher than MedLLaMA 13B, "
    "but the claim is about LLaMA2 only.",
    "gpt4_untrained_worse": " The paper's Section 3 calls GPT-4 weak on GIT in particular, but "
    "GPT-4 scores higher on GIT than on DDI.",
    "superior_everywhere": _BEST_ROWS,
    "significant_everywhere": _BEST_ROWS,
    "one_sentence_best_on_git_re": " We infer that the three values other than that of RA-KNN-1 "
    "belong to Figure 2 (c). It does not matter which n belongs to which of these values.",
    "best_parts": " Table 3 has no row for LLaMA2 13B alone. In Table 1, LLaMA2 13B alone comes "
    "nearer to BiomedRAG than the other systems of Table 3 do." + _ONEREL,
    "one_chunk_beats_many": " We leave out four values of GIT in Figure 2 (c) and (d), because we "
    "do not know to which model they belong. We infer the panels of some other values, as the "
    "notes on these values explain."
    + _ZERO_ON_ADE
    + _ADINT
    + _PANEL_B
    + " If Figure 2 (b) nevertheless showed MedLLaMA 13B, RA-KNN-1 (85.08) would score "
    "significantly higher on ChemProt than MedLLaMA 13B with BiomedRAG (76.97). The printed "
    "numbers would then contradict the claim.",
    "more_documents_do_not_help": " We test only the two panels whose value at n = 1 we know "
    "for LLaMA2 13B: Figure 2 (b), on ChemProt, and Figure 2 (e), on ADE-corpus-v2. In (b), "
    "we compare this value with the lowest other value. In (e), the lowest value may be that "
    "of n = 0, so we compare the value at n = 1 with the second lowest value. We know the two "
    "values at n = 1 only because Figure 1 repeats the best value of RA-KNN-n on a data set "
    "with its n, and this n is 1 on ChemProt and ADE-corpus-v2. These two panels therefore "
    "say nothing about the other panels."
    + _PANEL_B
    + " Under either reading of Figure 2 (b), the two values that we compare are of the same "
    "model.",
}
_CHOSEN_BY_OUTCOME: Final = ("more_documents_do_not_help",)
"""Claims whose printed values are known because they agree: these can refute, but not support."""
_OF_SOME_PANEL: Final = (
    " As a claim about at least one data set, the claim holds, because a larger n is significantly "
    "worse than n = 1 in both panels. As a claim about every panel that the paper's Section 2.2 "
    "lists, the claim is open. Together, the two readings leave the claim open."
)
"""What the claims of `_CHOSEN_BY_OUTCOME` are where their printed values agree."""
_NEAREST: Final = {
    "significant_on_git": ("table1.llama2_br.git_f1", "figure2.git.llama2_top20"),
    "significant_on_git_re": ("table1.llama2_br.git_re_f1", "figure2.git_re.llama2_top20"),
}
"""The nearest baseline of section 4.3 that is not in Table 1, beside what it is compared with."""
_LANGUAGE_MODELS: Final = (
    *_FINE_TUNED,
    "gpt4",
    *(f"{name}_br" for name in (*_FINE_TUNED, "gpt4")),
)
"""Rows of Table 2 that are language models, without and with BiomedRAG."""
_NORMAL: Final = 1.959964
"""Half the width of a normal 95 % interval, in standard errors."""
ONE_TRAINING: Final = (
    " The paper reports no repeated training. The p-value therefore accounts only for chance in "
    "the test rows, which we treat as independent."
)
"""What the p-value of a printed difference leaves out."""
ONLY_PAIRED: Final = (
    " Only both systems' answers to each row could decide the claim, and the authors did not "
    "release both."
)
"""What an inconclusive claim lacks, if some pairing of the rows is significant."""
_ALL_ROWS_OPEN: Final = ("onerel_beats_unirel",)
"""Claims about systems whose printed recalls on DDI are no counts of `INTERACTIONS`."""
_ONLY_PAIRED_OR_COUNTED: Final = (
    " Both systems' answers to each row could decide the claim, and so could the number of rows "
    "that the authors counted. The authors released neither."
)
_ONE_TRAINING_OF_INTERVALS: Final = (
    " The paper reports no repeated training. The intervals therefore account only for chance in "
    "the test rows, which we treat as independent."
)


def mcnemar_range(first: int, second: int, n: int) -> tuple[float, float]:
    """Bound the p-value of McNemar's exact test of two arms.

    Args:
        first: Number of rows that one arm has right.
        second: Number of rows that the other arm has right.
        n: Number of rows.

    Returns:
        The lowest and the highest p-value.

    Raises:
        ValueError: A count is not within 0 and n.
    """
    if not (0 <= first <= n and 0 <= second <= n):
        raise ValueError(f"Counts within 0 and {n} are needed; found {first} and {second}.")
    difference = abs(first - second)
    # rows that only the weaker arm has right: none, or all that the stronger one leaves
    max_only_weaker = min(first, second, n - max(first, second))
    return _mcnemar_p(difference, 0), _mcnemar_p(difference, max_only_weaker)


def _mcnemar_p(difference: int, only_weaker: int) -> float:
    n_discordant = difference + 2 * only_weaker
    if n_discordant == 0:
        return 1.0
    return float(binomtest(only_weaker, n_discordant).pvalue)


def verdict(difference: float, high: float) -> Tested:
    """Decide whether a printed difference is more than chance, in either direction.

    A slight printed loss refutes no claim of a gain, as a slight printed gain supports none.

    Args:
        difference: The number that the claim calls higher, minus the other.
        high: The highest p-value that the difference may have.
    """
    if high >= ALPHA or difference == 0:
        return "inconclusive"
    return "agrees" if difference > 0 else "differs"


def comparisons(printed: Published, claim: str) -> pd.DataFrame:
    """List the comparisons of a claim, with the range of McNemar's p, adjusted by Holm over them.

    Differences are in points.

    Raises:
        ValueError: The paper does not say how many rows a share was counted on.
    """
    pairs = _pairs(printed, claim)
    ranges = [_p_range(ours, other) for ours, other in pairs]
    lows = holm([low for low, _ in ranges])
    highs = holm([high for _, high in ranges])
    rows = []
    for i, (ours, other) in enumerate(pairs):
        against = other.row.removeprefix("Relation Extraction, ")
        if claim == "best_parts":
            measure = other.id.rpartition(".")[2]
            against += f", {measure.partition('_')[0]}"
        difference = 100 * (ours.value - other.value)
        rows.append(
            {
                "ours": ours.row.removeprefix(f"{_data_of(ours)}, "),
                "data": _data_of(ours),
                "printed": f"{ours.row}, {ours.column}: {ours.printed}",
                "against": against,
                "theirs": other.printed,
                "difference": difference,
                "rows": _n_rows(ours),
                "low": lows[i],
                "high": highs[i],
                "verdict": verdict(difference, highs[i]),
            }
        )
    return pd.DataFrame(rows)


def _data_of(number: Number) -> str:
    """Name the data set of a printed F1 of Tables 1 to 4 or of Figure 2."""
    _, table, row, column = number.id.split(".")
    if table == "figure2":
        return _NAMES[row]
    if table == "table3":
        return _NAMES[row.rpartition("_")[2]]
    if table == "table4":
        return "GIT" if row.startswith("te_") else "GIT-RE"
    return _NAMES[column.rpartition("_")[0]]


def _pairs(printed: Published, claim: str) -> list[tuple[Number, Number]]:
    """Return the pairs of printed numbers that a claim compares."""
    pairs = []
    for ours, patterns in COMPARED[claim].items():
        number = printed.number(f"biomedrag.{ours}")
        for pattern in patterns:
            others = [n for n in printed.numbers if fnmatch(n.id, f"biomedrag.{pattern}")]
            pairs += [(number, other) for other in others]
    return pairs


def _p_range(ours: Number, other: Number) -> tuple[float, float]:
    n = _n_rows(ours)
    return mcnemar_range(round(ours.value * n), round(other.value * n), n)


def _n_rows(number: Number) -> int:
    if number.n is None:
        raise ValueError(
            f"{number.id} has no n, so its share is no count. Give it one in data/published."
        )
    return INTERACTIONS if "ddi" in number.id else number.n


def decision(printed: Published, claim: str) -> Decision:
    """Decide a claim by the printed numbers; it is inconclusive where they leave it open."""
    table = comparisons(printed, claim)
    decided = all_of(table["verdict"])
    why = _reason(table, table["verdict"] == decided)
    if any("ddi" in number for number in COMPARED[claim]):
        why += (
            f" On DDI, we count only the {INTERACTIONS} test rows {INTERACTING}, "
            "because the printed recalls suggest that the paper does so too."
        )
    why += _MORE.get(claim, "") + _nearest_text(printed, claim)
    if claim in _ALL_ROWS_OPEN:
        why += _on_all_rows(printed, claim) + _ONLY_PAIRED_OR_COUNTED
    elif decided == "inconclusive":
        why += _what_would_decide(printed, claim)
    if decided == "agrees" and claim in _CHOSEN_BY_OUTCOME:
        decided = "inconclusive"
        why += _OF_SOME_PANEL
    return Decision(decided, why + ONE_TRAINING)


def decision_by_readings(printed: Published, claim: str, second: Sequence[str]) -> Decision:
    """Decide a claim that can mean all its data sets or a few; it is open where the two disagree.

    Args:
        printed: The paper's numbers.
        claim: A claim of `COMPARED`.
        second: The data sets of the second reading, as `COMPARED` names their columns.
    """
    by_all = decision(printed, claim)
    table = comparisons(printed, claim)
    endings = tuple(f".{key}_f1" for key in second)
    is_in_second = [ours.id.endswith(endings) for ours, _ in _pairs(printed, claim)]
    by_few = all_of(table["verdict"][is_in_second])
    names = figures.listed([name for name, key in KEYS.items() if key in second])
    if by_few == by_all.verdict:
        return by_all
    why = f"{by_all.why} On all data sets of both tasks, the claim {_READING[by_all.verdict]}. "
    why += f"On {names} alone, the claim {_READING[by_few]}. "
    why += "Together, the two readings leave the claim open."
    return Decision("inconclusive", why)


_BY_TASK: Final = {
    "triple extraction": ("git", "chemprot", "ddi"),
    "relation extraction": ("git_re",),
    "text classification": ("ade", "mtsamples"),
    "link prediction": ("umls", "adint"),
}
"""The data sets of each task, as the ids of Tables 1 and 2 name them."""


def decision_by_task(printed: Published, claim: str) -> Decision:
    """Decide a claim of each data set that can also mean each task.

    By the second reading, the best row with BiomedRAG is compared with the best other row of Tables
    1 and 2, and a task needs one data set with a significant gain. The claim is open where the two
    readings disagree.
    """
    by_data = decision(printed, claim)
    pairs = {key: _best_rows(printed, key) for keys in _BY_TASK.values() for key in keys}
    ranges = [_p_range(*pair) for pair in pairs.values()]
    adjusted_lows = holm([low for low, _ in ranges])
    adjusted_highs = holm([high for _, high in ranges])
    lows = dict(zip(pairs, adjusted_lows, strict=True))
    highs = dict(zip(pairs, adjusted_highs, strict=True))
    sentences = []
    by_task: list[Tested] = []
    for task, keys in _BY_TASK.items():
        # the data set that comes nearest to a significant gain stands for its task
        key = min(keys, key=lambda name: (highs[name], lows[name]))
        ours, other = pairs[key]
        tested = verdict(ours.value - other.value, highs[key])
        by_task.append(tested)
        p = _range_text(lows[key], highs[key])
        sentences.append(
            f"For {task}, the claim {_READING[tested]} on {_NAMES[key]}, with an F1 of "
            f"{ours.printed} for {ours.row} and {other.printed} for {other.row} ({p})."
        )
    task_verdict = all_of(by_task)
    why = (
        f"{by_data.why} The paper's Section 1 speaks of tasks, so the claim can also mean a "
        "significant gain over the other systems of Tables 1 and 2 on one data set of each task. "
        f"{' '.join(sentences)} As a claim about each data set, the claim "
        f"{_READING[by_data.verdict]}. As a claim about each task, the claim "
        f"{_READING[task_verdict]}."
    )
    is_same = task_verdict == by_data.verdict
    return Decision(by_data.verdict if is_same else "inconclusive", why)


def _best_rows(printed: Published, key: str) -> tuple[Number, Number]:
    """Return the best F1 of Tables 1 and 2 on a data set with BiomedRAG, and the best without it.

    OneRel's F1 is below that of a language model everywhere, in its first column as in its third.
    """
    pattern = re.compile(rf"biomedrag\.table[12]\.\w+\.{key}_f1")
    numbers = [number for number in printed.numbers if pattern.fullmatch(number.id)]
    with_example = [number for number in numbers if number.id.split(".")[2].endswith("_br")]
    others = [number for number in numbers if number not in with_example]
    best = max(with_example, key=lambda number: number.value)
    return best, max(others, key=lambda number: number.value)


_NAMES: Final = {key: name for name, key in KEYS.items()}
"""The name of a data set by the key in ids."""
_READING: Final[dict[str, str]] = {
    "agrees": "holds",
    "differs": "fails",
    "inconclusive": "is open",
}


def _on_all_rows(printed: Published, claim: str) -> str:
    """Say what the comparison on DDI gives if all rows that the paper states were counted."""
    (pair,) = [pair for pair in _pairs(printed, claim) if "ddi" in pair[0].id]
    ours, other = pair
    n = ours.n or 0
    _, high = mcnemar_range(round(ours.value * n), round(other.value * n), n)
    table = comparisons(printed, claim)
    of_others = all_of(table["verdict"][table["rows"] != INTERACTIONS])
    word = verdict(ours.value - other.value, high)
    is_supported = of_others == word == "agrees"
    agrees = "so the printed numbers would agree with the claim"
    outcome = agrees if is_supported else "which leaves the claim open"
    return (
        " No printed recall of the two systems on DDI corresponds to a whole number of the "
        f"{INTERACTIONS} rows. If the authors counted the {n:,} rows that the paper states, the "
        f"highest possible p on DDI would be {_p_as_number(high)}, {outcome}."
    )


def _p_as_number(p: float) -> str:
    """Write a p-value as the words after `p would be`: `0.012` or `below 0.001`."""
    return figures.p_text(p).replace("< ", "below ")


def _what_would_decide(printed: Published, claim: str) -> str:
    """Say whether paired answers would decide a claim that the printed counts leave open."""
    undecidable = _undecidable(printed, claim)
    if not undecidable:
        return ONLY_PAIRED
    return (
        f"{undecidable}. The claim would therefore stay undecided even if both systems' answers "
        "to every row were known."
    )


def _undecidable(printed: Published, claim: str) -> str:
    """Say in how many comparisons no pairing could be significant; empty if there is none."""
    lows = comparisons(printed, claim)["low"]
    n_undecidable = int((lows >= ALPHA).sum())
    if not n_undecidable:
        return ""
    undecidable = part_in_words(n_undecidable, len(lows), "comparison")
    return (
        f" In {undecidable}, the two scores differ by so few rows that the difference could not be "
        "significant after Holm's adjustment, whichever rows each system answered correctly"
    )


def _nearest_text(printed: Published, claim: str) -> str:
    """Give the range of p against a baseline that the claim's table lacks; empty if there is none.

    The p-values are not adjusted: the baseline is no part of the claim's family.
    """
    if claim not in _NEAREST:
        return ""
    ours, other = (printed.number(f"biomedrag.{name}") for name in _NEAREST[claim])
    low, high = _p_range(ours, other)
    difference = figures.signed(100 * (ours.value - other.value), 2)
    return (
        " The paper's Section 4.3 lists RA-KNN-n as a baseline too, but Table 1 has no row for "
        f"RA-KNN-n. Figure 2 prints {other.printed} for RA-KNN-20. The F1 of BiomedRAG minus this "
        f"value is {difference} points (McNemar's test: {_range_text(low, high)})."
    )


def widest_interval(first: int, second: int, n: int) -> Score:
    """Return the widest 95 % interval of a paired difference in shares that two counts allow.

    It is widest where each system has as many rows right alone as the counts allow.

    Args:
        first: Number of rows that one system has right.
        second: Number of rows that the other system has right.
        n: Number of rows.
    """
    gap = first - second
    n_discordant = abs(gap) + 2 * min(first, second, n - max(first, second))
    return _paired_interval(gap, n_discordant, n)


def _paired_interval(gap: int, n_discordant: int, n: int) -> Score:
    """Return the 95 % interval of a paired difference by the rows where one system is right."""
    half_width = _NORMAL * math.sqrt(max(0.0, n_discordant - gap**2 / n)) / n
    value = gap / n
    return Score(value, n, value - half_width, value + half_width)


def _best_f1(printed: Published, name: str, rows: Sequence[str]) -> Number:
    """Return the highest F1 that Table 2 prints on a data set for some of its rows."""
    numbers = [printed.number(f"biomedrag.table2.{row}.{KEYS[name]}_f1") for row in rows]
    return max(numbers, key=lambda number: number.value)


@dataclass(frozen=True)
class _OnPar:
    """The best small model against the best of some language models on a data set."""

    name: str
    small: Number
    large: Number
    widest: Score
    narrowest: Score

    @property
    def is_decidable(self) -> bool:
        """Whether some pairing of the rows lies on one side of the margin."""
        return decisions.on_par(self.narrowest) != "inconclusive"

    def sentence(self) -> str:
        """State both scores, and the widest interval of their difference."""
        return (
            f"On {self.name}, {self.small.row} has an F1 of {self.small.printed}, and "
            f"{self.large.row} has an F1 of {self.large.printed}. The difference, counted in whole "
            f"rows and with the widest 95 % interval that these scores allow, is "
            f"{_points(self.widest)} points "
            f"(n = {self.widest.n} rows)."
        )


def small_on_par(printed: Published, names: Sequence[str]) -> Decision:
    """Decide by the printed F1 whether small models are on a par with language models (section 3).

    Args:
        printed: The paper's numbers.
        names: The data sets. On each, the best encoder is compared with the best language model.
    """
    compared = [_on_par_comparison(printed, name, _LANGUAGE_MODELS) for name in names]
    parts = [Part(on_par.widest, decisions.on_par) for on_par in compared]
    supported = [part.verdict() for part in parts]
    refuted = [part.verdict(len(parts)) for part in parts]
    decided = all_of(supported, refuted)
    sentences = " ".join(on_par.sentence() for on_par in compared)
    why = (
        "We compare the F1 of the best small model to that of the best language model. The paper "
        "does not say which rows each system answers correctly, so several 95 % intervals of the "
        f"difference are possible. {sentences}"
    )
    if decided == "inconclusive":
        why += _what_would_decide_on_par(printed, compared)
    return Decision(decided, why + _ONE_TRAINING_OF_INTERVALS)


def _what_would_decide_on_par(printed: Published, compared: Sequence[_OnPar]) -> str:
    """Say whether paired answers would decide what the widest intervals leave open."""
    undecidable = [on_par.name for on_par in compared if not on_par.is_decidable]
    if not undecidable:
        return ONLY_PAIRED
    margin = figures.signed(-100 * ON_PAR, 0)
    return (
        f" On {figures.listed(undecidable)}, even the narrowest interval that the scores allow "
        f"contains the margin of {margin} points. The claim would therefore stay undecided even if "
        "both systems' answers to each row were known."
        f"{_against_llama2(printed, undecidable)}"
    )


def _on_par_comparison(printed: Published, name: str, rows: Sequence[str]) -> _OnPar:
    small = _best_f1(printed, name, _ENCODERS)
    large = _best_f1(printed, name, rows)
    n = _n_rows(small)
    n_small, n_large = round(small.value * n), round(large.value * n)
    gap = n_small - n_large
    narrowest = _paired_interval(gap, abs(gap), n)
    return _OnPar(name, small, large, widest_interval(n_small, n_large, n), narrowest)


def _against_llama2(printed: Published, names: Sequence[str]) -> str:
    """Say what the comparison gives with LLaMA2 13B, which section 3 names as a larger model."""
    sentences = [
        " The paper's Section 3 names LLaMA2 13B as an example of a larger model and sets GPT-4 "
        "apart from LLaMA2 13B."
    ]
    for name in names:
        found = _on_par_comparison(printed, name, _LLAMA2_ROWS)
        sentences.append(
            f"Against the better row of LLaMA2 13B on {name} ({found.large.printed}), the "
            f"difference, counted in whole rows, is {_points(found.narrowest)} points with the "
            f"narrowest interval and {_points(found.widest)} points with the widest. "
            f"{_BY_LLAMA2[found.is_decidable]}."
        )
    return " ".join(sentences)


_LLAMA2_ROWS: Final = ("llama2", "llama2_br")
_BY_LLAMA2: Final = {
    True: "By this reading, the claim is open too, but answers to each row could decide it",
    False: "By this reading too, answers to each row could not decide the claim",
}


def _points(score: Score) -> str:
    return figures.points_text(score.value, score.low, score.high)


def _reason(table: pd.DataFrame, is_decisive: pd.Series) -> str:
    """Say how many differences are significant, and which of the decisive ones is the smallest."""
    n_lower = int((table["difference"] < 0).sum())
    weakest = table[is_decisive].sort_values("difference").iloc[0]
    verb = "is" if n_lower == 1 else "are"
    lower = f"{figures.in_words(n_lower)} {verb} negative"
    negative = f" Of all {len(table)} differences, {lower}." if n_lower else ""
    if n_lower == len(table):
        negative = f" {_all_negative(n_lower)}."
    difference = figures.signed(weakest["difference"], 2)
    p = _range_text(weakest["low"], weakest["high"])
    return (
        f"{_n_significant(table)}.{negative} "
        f"{_lowest(table, is_decisive)} is {difference} points for "
        f"{_system_in_words(weakest['ours'])} against {_system_in_words(weakest['against'])}, over "
        f"{weakest['rows']:,} rows of {weakest['data']} (McNemar's test, Holm-adjusted: {p})."
    )


def _all_negative(n: int) -> str:
    """Say that all of so many differences are negative."""
    if n == 1:
        return "The difference is negative"
    return f"{'Both' if n == 2 else 'All'} differences are negative"


def _lowest(table: pd.DataFrame, is_decisive: pd.Series) -> str:
    """Name the lowest of the decisive differences: `The lowest undecided difference`."""
    if len(table) == 1:
        return "The difference"
    is_open = (table["verdict"][is_decisive] == "inconclusive").all()
    kind = "undecided difference" if is_open else "difference"
    is_alone = is_open and len(table[is_decisive]) == 1
    return f"The {kind}" if is_alone else f"The lowest {kind}"


def _system_in_words(row: str) -> str:
    """Name a row of a comparison as a sentence does: `RA-KNN-20 with LLaMA2 13B`."""
    text = row.removeprefix("Triple Extraction, ").removeprefix("Relation Extraction, ")
    # which of the values it is says nothing
    text = _WHICH_VALUE.sub("n not read from the figure", text)
    text = text.replace(" - WTCS", " without the scorer").replace(" - WD", " without diversity")
    if match := _RA_KNN.fullmatch(text):
        remark = f" ({match[3]})" if match[3] else ""
        return f"{match[2] if match[2] != 'RA-KNN' else 'RA-KNN-n'} with {match[1]}{remark}"
    if match := _CHUNKS.fullmatch(text):
        return f"chunks of {match[1]} words"
    if match := _PART_OF_TRIPLE.fullmatch(text):
        return f"{match[2]} ({match[3]})"
    return text


def _range_text(low: float, high: float) -> str:
    """Write a range of p: `lowest possible p = 0.042, highest possible p = 1.000`."""
    lowest, highest = (figures.p_words(bound) for bound in (low, high))
    if lowest == highest:
        return lowest
    return f"lowest possible {lowest}, highest possible {highest}"


def _n_significant(table: pd.DataFrame) -> str:
    """Count the differences that are significantly positive whichever rows are right.

    Returns:
        A sentence without its full stop.
    """
    is_significant = (table["high"] < ALPHA) & (table["difference"] > 0)
    n_significant, n_all = int(is_significant.sum()), len(table)
    always = "significantly positive, whichever rows each system answered correctly"
    not_always = (
        "significantly positive for every choice of the rows that each system answered correctly"
    )
    if n_all == 1:
        verb = f"is {always}" if n_significant else f"is not {not_always}"
        return f"The one printed difference in F1 {verb}"
    if n_significant == n_all:
        subject = "Both" if n_all == 2 else f"All {n_all}"
        return f"{subject} printed differences in F1 are {always}"
    subject = f"Of {n_all} printed differences in F1,"
    if not n_significant:
        subject = "Neither of the 2" if n_all == 2 else f"None of the {n_all}"
        return f"{subject} printed differences in F1 is {not_always}"
    verb = "is" if n_significant == 1 else "are"
    return f"{subject} {n_significant} {verb} {always}"


def comparison_table(printed: Published, claims: Sequence[str]) -> figures.Html:
    """Show the comparisons of some claims, a row each."""
    table = pd.concat([comparisons(printed, claim) for claim in claims], ignore_index=True)
    table["difference"] = [figures.signed(value, 2) for value in table["difference"]]
    for bound in ("low", "high"):
        table[bound] = table[bound].map(figures.p_text)
    names = {
        "printed": "first system, with its printed F1",
        "against": "second system",
        "theirs": "printed F1 of the second",
        "difference": "difference, points",
        "low": "p (Holm), lowest",
        "high": "p (Holm), highest",
    }
    caption = (
        "The range of McNemar's p, adjusted by Holm's method over the comparisons of a claim, that "
        "the printed numbers allow for each comparison. A positive difference favours the first "
        "system."
    )
    if any("OneRel" in system for system in [*table["printed"], *table["against"]]):
        caption += " OneRel's F1 is the value that the paper heads precision."
    if table["against"].str.contains("WTCS").any():
        caption += (
            ' "WTCS" means without the tailored chunk scorer, "WD" without the diversity step, and '
            '"m" is the number of words in a chunk.'
        )
    if table["against"].str.contains("not read").any():
        caption += (
            ' "n not read" marks a value of Figure 2 whose n we did not read from the figure. The '
            "numbers in brackets count such values of the same model and data set, from the "
            "highest to the lowest."
        )
    if table["against"].str.contains("panel inferred").any():
        caption += ' "panel inferred" marks a value whose panel of Figure 2 we inferred.'
    return figures.table(table.drop(columns=["ours", "data"]).rename(columns=names), caption)
