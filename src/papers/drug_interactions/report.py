"""What a run on the drug-interaction graph (drug_interactions.md, Table I) reports: scores, tables, claims, figures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.results import figures
from helpers.results.metrics import Score, binary_scores, bootstrap, p50, p95
from helpers.results.published import Published
from helpers.results.record import Run
from helpers.results.verdicts import all_of, below, exactly
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Chunk, Corpus, Sentence, facts
from papers.drug_interactions.extraction import Reading, Relater
from papers.drug_interactions.graph import Asked, KnowledgeGraph

PAPER = "drug_interactions"
Scores = dict[str, Score]
"""precision, recall, f1."""
COLUMNS = ("precision", "recall", "f1")

METHODS = {
    "all_pairs": ("All pairs of a sentence", "#808080"),
    "patterns": ("Patterns", "#c35410"),
    "classifier": ("Classifier", "#125ee0"),
    "llm": ("Language model", "#af219d"),
    "dictionary": ("Dictionary", "#c35410"),
    "rules": ("Dictionary and rules", "#125ee0"),
}
"""Label and colour of each method."""
PARTS: dict[str, tuple[Corpus, ...]] = {
    "drugbank": ("DrugBank",),
    "medline": ("MedLine",),
    "ddi": ("DrugBank", "MedLine"),
    "ade": ("ADE",),
}
PART_LABELS = {"drugbank": "DDI, DrugBank", "medline": "DDI, MedLine", "ddi": "DDI, both", "ade": "ADE"}
LABEL_COLOURS = {"Drug": "#125ee0", "Compound": "#079c6b", "SideEffect": "#c35410"}


# ------------------------------------------------------------------------------------------------------------ scores


def score(
    gold: Sequence[AbstractSet[Hashable]],
    found: Sequence[AbstractSet[Hashable]],
    clusters: Sequence[str],
    draws: int,
    *,
    unparsed: int = 0,
) -> Scores:
    """Micro-averaged precision, recall and F1 of sets, with 95 % intervals from a bootstrap over documents.

    Args:
        gold: what each unit (a sentence, a chunk) holds.
        found: what was found in it.
        clusters: the document of each unit.
        draws: of the bootstrap.
        unparsed: units whose answer could not be read, noted with each score.

    Raises:
        ValueError: lengths differ, or there is nothing to find and nothing found.
    """
    rows = [
        (item in truth, item in answer, document)
        for truth, answer, document in zip(gold, found, clusters, strict=True)
        for item in sorted(truth | answer, key=repr)
    ]
    if not rows:
        raise ValueError("There is nothing to score: no unit holds anything, and nothing was found.")
    y_true, y_pred, documents = zip(*rows, strict=True)
    scores = binary_scores(y_true, y_pred, clusters=documents, draws=draws)
    named = {"precision": scores["precision"], "recall": scores["sensitivity"], "f1": scores["f1"]}
    return {name: replace(value, unparsed=unparsed) for name, value in named.items()}


def of_part(sentences: Sequence[Sentence], part: str) -> list[int]:
    """Which sentences belong to a part of the corpora."""
    return [i for i, sentence in enumerate(sentences) if sentence.corpus in PARTS[part]]


def score_entities(
    gold: Sequence[Sentence], found: Sequence[Sentence], draws: int, *, labels: bool = False
) -> dict[str, Scores]:
    """Recognition by part: a mention counts if it begins and ends where the gold one does (and has its label).

    Side effects found in the DDI corpus are left aside, for it marks none. Of ADE only the sentences with a marked
    mention are scored; drugs and effects that no relation joins are not marked there either, so its precision is too
    low by an unknown amount.
    """

    def keys(sentence: Sentence) -> set[Hashable]:
        told = [e for e in sentence.entities if sentence.corpus == "ADE" or e.label != "SideEffect"]
        return {(e.start, e.end, e.label if labels else None) for e in told}

    scores = {}
    for part in PARTS:
        rows = [i for i in of_part(gold, part) if part != "ade" or gold[i].entities]
        if rows and any(gold[i].entities for i in rows):
            documents = [gold[i].document for i in rows]
            scores[part] = score([keys(gold[i]) for i in rows], [keys(found[i]) for i in rows], documents, draws)
    return scores


def score_relations(
    gold: Sequence[Sentence], found: Sequence[Sentence], draws: int, *, kinds: bool = False
) -> dict[str, Scores]:
    """Relations between the gold mentions, by part: detection, or with the kind of interaction (SemEval 2013, 9.2)."""

    def keys(sentence: Sentence) -> set[Hashable]:
        return {(r.first, r.second, r.kind if kinds else None) for r in sentence.relations}

    return _by_part(gold, [keys(s) for s in gold], [keys(s) for s in found], draws)


def score_facts(gold: Sequence[Sentence], found: Sequence[Sentence], draws: int) -> dict[str, Scores]:
    """From text to facts, by part: two names and a relation, in the sentence that states it; errors of both stages."""
    return _by_part(gold, [set(facts(s)) for s in gold], [set(facts(s)) for s in found], draws)


def _by_part(
    gold: Sequence[Sentence],
    truth: Sequence[set[Hashable]] | Sequence[AbstractSet[Hashable]],
    answer: Sequence[set[Hashable]] | Sequence[AbstractSet[Hashable]],
    draws: int,
) -> dict[str, Scores]:
    scores = {}
    for part in PARTS:
        rows = of_part(gold, part)
        if any(truth[i] for i in rows):
            documents = [gold[i].document for i in rows]
            scores[part] = score([truth[i] for i in rows], [answer[i] for i in rows], documents, draws)
    return scores


def without_relations(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with their mentions alone: what a method is given."""
    return [replace(sentence, relations=()) for sentence in sentences]


def score_chunks(
    parts: Sequence[Chunk],
    readings: Sequence[Reading],
    others: Mapping[str, Mapping[str, Sentence]],
    draws: int,
) -> dict[str, Scores]:
    """The language model and the other methods on the same chunks: the distinct facts of a chunk.

    Args:
        parts: the chunks that were read.
        readings: the language model's, one a chunk.
        others: what each other method found, by sentence id.
        draws: of the bootstrap, over chunks.
    """
    gold = [set().union(*(facts(s) for s in chunk.sentences)) for chunk in parts]
    names = [f"chunk {chunk.number} {chunk.sentences[0].corpus}" for chunk in parts]
    unread = sum(reading.status in ("unparsed", "overflow") for reading in readings)
    scores = {
        method: score(gold, [set().union(*(facts(of[s.id]) for s in c.sentences)) for c in parts], names, draws)
        for method, of in others.items()
    }
    scores["llm"] = score(gold, [set(reading.facts) for reading in readings], names, draws, unparsed=unread)
    return scores


def spread(parts: Sequence[Chunk], n: int) -> list[Chunk]:
    """So many chunks with something to find, spread evenly over the text, each corpus in turn."""
    full = [chunk for chunk in parts if any(facts(s) for s in chunk.sentences)]
    at = np.unique(np.linspace(0, len(full) - 1, num=min(n, len(full))).round().astype(int)) if full else []
    return [full[i] for i in at]


def report_scores(run: Run, stage: str, scores: Mapping[str, Mapping[str, Scores]]) -> None:
    """Keep the scores of one stage in the record, as values that the paper does not print."""
    for method, of_method in scores.items():
        for part, of_part_ in of_method.items():
            for name, value in of_part_.items():
                label = f"{stage}, {PART_LABELS[part]}, {METHODS[method][0]}: {name}"
                run.extra(f"interactions.{stage.replace(' ', '_').lower()}.{part}.{method}.{name}", label, value)


def score_table(scores: Mapping[str, Mapping[str, Scores]]) -> pd.DataFrame:
    """One row a part and method."""
    return pd.DataFrame(
        [
            {"text": PART_LABELS[part], "method": METHODS[method][0], "n": of[part]["recall"].n}
            | {name: of[part][name] for name in COLUMNS}
            for part in PARTS
            for method, of in scores.items()
            if part in of
        ]
    )


def llm_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """One row a method, on the sampled chunks."""
    return pd.DataFrame(
        [{"method": METHODS[m][0], "n": s["recall"].n} | {name: s[name] for name in COLUMNS} for m, s in scores.items()]
    )


def run_methods(methods: Mapping[str, Relater], sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    """What each method finds in the same sentences with the same mentions."""
    bare = without_relations(sentences)
    return {name: method(bare) for name, method in methods.items()}


# ------------------------------------------------------------------------------------------------------------ tables


def data_table(sentences: Sequence[Sentence]) -> pd.DataFrame:
    """What there is, by corpus and split."""
    words = {"train": "training", "test": "test", "entities": "test of recognition"}
    rows = []
    for corpus in ("DrugBank", "MedLine", "ADE"):
        for split, label in words.items():
            mine = [s for s in sentences if s.corpus == corpus and s.split == split]
            if mine:
                rows.append(
                    {
                        "text": corpus,
                        "split": label,
                        "documents": len({s.document for s in mine}),
                        "sentences": len(mine),
                        "mentions": sum(len(s.entities) for s in mine),
                        "relations": sum(len(s.relations) for s in mine),
                    }
                )
    return pd.DataFrame(rows)


def repeated(sentences: Sequence[Sentence]) -> tuple[int, int]:
    """How many test sentences of the DDI corpus stand word for word in its training part too, and of how many."""
    ddi = [s for s in sentences if s.corpus != "ADE"]
    known = {s.text.strip() for s in ddi if s.split == "train"}
    test = [s for s in ddi if s.split == "test"]
    return sum(s.text.strip() in known for s in test), len(test)


def table_one(printed: Published, graphs: Mapping[str, tuple[KnowledgeGraph, int, int]]) -> pd.DataFrame:
    """Table I as printed, beside graphs made here of other text.

    Args:
        printed: the paper's numbers.
        graphs: for each column, a graph, and how many corpora and chunks it was made of.
    """
    columns = {name: counts(*made) for name, made in graphs.items()}
    rows = []
    for number in printed.numbers:
        if number.table == "Table I":
            key = number.id.rsplit(".", 1)[1]
            rows.append(
                {"statistic": number.row, "printed": number.printed}
                | {name: _count(of[key], key) for name, of in columns.items()}
            )
    value = {n.id.rsplit(".", 1)[1]: n.value for n in printed.numbers if n.table == "Table I"}
    derived = {
        "Relationships a chunk": ("per_chunk", value["edges"] / value["chunks"]),
        "Nodes a chunk": ("nodes_per_chunk", value["nodes"] / value["chunks"]),
    }
    for row, (key, of_paper) in derived.items():
        rows.append(
            {"statistic": f"{row} (computed)", "printed": _count(of_paper, key)}
            | {name: _count(of[key], key) for name, of in columns.items()}
        )
    return pd.DataFrame(rows)


def counts(graph: KnowledgeGraph, texts: int, chunks: int) -> dict[str, float]:
    """The statistics of Table I for a graph; an interaction counts as two relationships, as it is stored."""
    of_label = pd.Series(list(graph.nodes.values()), dtype=object).value_counts()
    edges = graph.relationships()
    return {
        "textbooks": texts,
        "chunks": chunks,
        "nodes": len(graph.nodes),
        "drugs": int(of_label.get("Drug", 0)),
        "side_effects": int(of_label.get("SideEffect", 0)),
        "compounds": int(of_label.get("Compound", 0)),
        "edges": edges,
        "interacts_with": 2 * len(graph.of_type(INTERACTS)),
        "causes_side_effect": len(graph.of_type(CAUSES)),
        "average_degree": 2 * edges / len(graph.nodes),
        "per_chunk": edges / chunks,
        "nodes_per_chunk": len(graph.nodes) / chunks,
    }


def _count(value: float, key: str) -> str:
    return figures.number(value, "count", digits=2 if key in ("average_degree", "per_chunk", "nodes_per_chunk") else 0)


def shared_table(gold: KnowledgeGraph, found: KnowledgeGraph) -> pd.DataFrame:
    """How much of each of two graphs is in the other."""
    compared: list[tuple[str, set[Hashable], set[Hashable]]] = [("nodes", set(gold.nodes), set(found.nodes))]
    compared += [(type, set(gold.of_type(type)), set(found.of_type(type))) for type in (INTERACTS, CAUSES)]
    rows = []
    for what, one, other in compared:
        both = len(one & other)
        rows.append(
            {
                "what": what,
                "gold": len(one),
                "found": len(other),
                "in both": both,
                "share of gold that is found": both / len(one) if one else None,
                "share of found that is gold": both / len(other) if other else None,
            }
        )
    return pd.DataFrame(rows)


def sums_table(printed: Published) -> pd.DataFrame:
    """What follows from the printed numbers by arithmetic, beside what is printed."""
    return pd.DataFrame(
        [
            {"what": what, "computed as": how, "computed": f"{computed:,.4g}", "printed": f"{stated:,.4g}"}
            for what, how, computed, stated in _sums(printed)
        ]
    )


def sums_words(printed: Published) -> str:
    """Which of the sums come out as printed, to 2 %, and which do not, in Markdown; the gains are decided as claims."""
    near = {
        what: abs(computed - stated) <= 0.02 * stated
        for what, _, computed, stated in _sums(printed)
        if not what.startswith("Gain")
    }
    return "\n".join(
        f"- {words}: {'; '.join(what for what, holds in near.items() if holds is wanted)}."
        for words, wanted in (("As printed, within 2 %", True), ("Not as printed", False))
    )


def _sums(printed: Published) -> list[tuple[str, str, float, float]]:
    value = {n.id.removeprefix("drug_interactions."): n.value for n in printed.numbers}
    t1 = {key.removeprefix("table1."): v for key, v in value.items() if key.startswith("table1.")}
    large = {arm: value[f"table2.{arm}.llama_70b"] for arm in ("no_retrieval", "rag_text", "graphrag", "drugrag")}
    pairs = t1["interacts_with"] / 2
    rating = value["text.rating_of_five"]
    weights = value["text.small_model_parameters"] * value["text.small_model_bits"] / 8
    return [
        ("Drugs, side effects and compounds", "sum", t1["drugs"] + t1["side_effects"] + t1["compounds"], t1["nodes"]),
        ("Edges of both types", "sum", t1["interacts_with"] + t1["causes_side_effect"], t1["edges"]),
        ("Average degree", "2 x edges / nodes", 2 * t1["edges"] / t1["nodes"], t1["average_degree"]),
        (
            "Average degree, each interaction counted once",
            "2 x (pairs + effects) / nodes",
            2 * (pairs + t1["causes_side_effect"]) / t1["nodes"],
            t1["average_degree"],
        ),
        ("4.5 of 5 on a scale from 0", "rating / 5", rating / 5, value["text.normalised.drugrag"]),
        ("4.5 of 5 on a scale from 1", "(rating - 1) / 4", (rating - 1) / 4, value["text.normalised.drugrag"]),
        *(
            (f"Gain over {words}, {how}", formula, gain, value[f"text.gain_{stated}"])
            for arm, words, stated in (
                ("no_retrieval", "no retrieval", "no_retrieval"),
                ("rag_text", "text RAG", "rag_text"),
                ("graphrag", "agentic RAG (the row GraphRAG)", "rag_text"),
            )
            for how, formula, gain in (
                ("in points / 100", "difference", large["drugrag"] - large[arm]),
                ("relative", "difference / baseline", large["drugrag"] / large[arm] - 1),
            )
        ),
        ("GB of the small model's weights", "parameters x bits / 8", weights, value["text.video_memory"]),
    ]


def printed_table(printed: Published) -> pd.DataFrame:
    """Table II as printed."""
    arms = dict.fromkeys(n.row for n in printed.numbers if n.table == "Table II")
    return pd.DataFrame(
        [
            {"setting": arm}
            | {str(n.model): n.printed for n in printed.numbers if n.table == "Table II" and n.row == arm}
            for arm in arms
        ]
    )


# ------------------------------------------------------------------------------------------------------------ claims


def decide_graph_claims(run: Run, asked: Sequence[Asked], draws: int) -> None:
    """Decide what the paper says of queries to the graph."""
    milliseconds = [1000 * a.seconds for a in asked]
    half, most = (bootstrap(milliseconds, of, clusters=[a.drug for a in asked], draws=draws) for of in (p50, p95))
    wrong = sum(not a.right for a in asked)
    two = [a for a in asked if a.hops == 2]
    run.claim(
        "drug_interactions.claim.graph_answers_in_milliseconds",
        below(most, 100),
        f"Of {len(asked)} queries, 95 % took at most {figures.score_text(most, 'count', digits=1)} ms, half at most "
        f"{figures.score_text(half, 'count', digits=1)} ms.",
    )
    run.claim(
        "drug_interactions.claim.one_query_for_two_hops",
        exactly(not wrong),
        f"{len(two) - sum(not a.right for a in two)} of {len(two)} two-hop queries return what plain Python finds, and "
        f"{sum(bool(a.rows) for a in two)} of them return something.",
    )


def decide_gain_claims(run: Run) -> None:
    """Decide the two gains of the abstract on the printed table.

    Table II is normalised from ratings of 1 to 5; the abstract does not say of which scale its gains are.
    """
    best = run.printed.number(f"{PAPER}.table2.drugrag.llama_70b")
    for claim, number, arms in (
        ("gain_over_no_retrieval", "gain_no_retrieval", ["no_retrieval"]),
        ("gain_over_text", "gain_rag_text", ["rag_text", "graphrag"]),
    ):
        stated = run.printed.number(f"{PAPER}.text.{number}").value
        bases = [run.printed.number(f"{PAPER}.table2.{arm}.llama_70b") for arm in arms]
        # each gain three ways: in points, relative to its baseline, and relative to the baseline's rating of 1 to 5
        gains = {
            base.row: (
                best.value - base.value,
                best.value / base.value - 1,
                _rating(best.value) / _rating(base.value) - 1,
            )
            for base in bases
        }
        away = {row: min(abs(gain - stated) for gain in ways) for row, ways in gains.items()}
        told = [
            f"{100 * points:.1f} points or {100 * relative:.1f} % more than {base.row} ({base.printed}), "
            f"{100 * rated:.1f} % by the rating of 1 to 5"
            for base, (points, relative, rated) in zip(bases, gains.values(), strict=True)
        ]
        which = f" All are tested; nearest is that over {min(away, key=lambda row: away[row])}." if told[1:] else ""
        run.claim(
            f"{PAPER}.claim.{claim}",
            all_of(exactly(distance <= 0.025 + 1e-9) for distance in away.values()),
            f"Printed for DrugRAG is {best.printed}: {'; '.join(told)}; stated are about {100 * stated:.0f} %.{which}",
            kind="printed",
        )


def _rating(normalised: float) -> float:
    """A rating of 1 to 5 from its share of that range."""
    return 1 + 4 * normalised


# ------------------------------------------------------------------------------------------------------------ answer


def answer(
    ends: Mapping[str, Mapping[str, Scores]],
    given: Mapping[str, Mapping[str, Scores]],
    read: Mapping[str, Scores],
    found: KnowledgeGraph,
) -> str:
    """The page's answer in Markdown, from the values of the run.

    Args:
        ends: from text to facts, by method and part.
        given: detection between gold mentions, likewise.
        read: methods on the chunks that the language model read.
        found: the graph.
    """
    lines = []
    for part, what in (("ddi", "interactions"), ("ade", "side effects")):
        methods = {m: of[part]["f1"] for m, of in ends.items() if part in of}
        best = max(methods, key=lambda m: methods[m].value)
        of_best = ends[best][part]
        others = "; ".join(f"{METHODS[m][0].lower()}: {figures.score_text(s)}" for m, s in methods.items() if m != best)
        line = (
            f"- **{what.capitalize()}**: the best reader of the text is: {METHODS[best][0].lower()}. "
            f"{figures.score_text(of_best['recall'])} of what is stated is found, and "
            f"{figures.score_text(of_best['precision'])} of what is found is stated: F1 "
            f"{figures.score_text(of_best['f1'])} ({others})."
        )
        # in ADE only related names are marked, so that there the given mentions give the answer away
        if part == "ddi":
            line += f" With all names given it would be {figures.score_text(given[best][part]['f1'])}."
        lines.append(line)
    same = max((m for m in read if m != "llm"), key=lambda m: read[m]["f1"].value)
    lines.append(
        f"- **A small language model** that reads whole chunks reaches F1 {figures.score_text(read['llm']['f1'])}; on "
        f"the same chunks {METHODS[same][0].lower()}: {figures.score_text(read[same]['f1'])}."
    )
    return "\n".join(
        [
            f"**In short.** From {len({s for e in found.edges.values() for s in e.sources}):,} sentences of test text, "
            f"a graph of {len(found.nodes):,} nodes and {found.relationships():,} relationships was made. The paper "
            "counts its graph and does not say how much of it is right. Here it can be said:",
            "",
            *lines,
        ]
    )


# ----------------------------------------------------------------------------------------------------------- figures


def draw_scores(scores: Mapping[str, Mapping[str, Scores]]) -> Figure:
    """Precision, recall and F1 from text to facts, a panel a part."""
    parts = [part for part in PARTS if any(part in of for of in scores.values())]
    methods = list(scores)
    fig, axes = plt.subplots(1, len(parts), figsize=(7.6, 3.2), sharey=True, squeeze=False)
    for ax, part in zip(axes[0], parts, strict=True):
        for i, method in enumerate(methods):
            if part not in scores[method]:
                continue
            for j, name in enumerate(COLUMNS):
                s = scores[method][part][name]
                x = j + 0.22 * (i - (len(methods) - 1) / 2)
                ax.plot([x, x], [100 * s.low, 100 * s.high], color=METHODS[method][1])
                label = METHODS[method][0] if j == 0 and ax is axes[0][0] else None
                ax.plot(x, 100 * s.value, "os^D"[i % 4], color=METHODS[method][1], markersize=6, label=label)
        ax.set_title(PART_LABELS[part])
        ax.set_xticks(range(3), [name[0].upper() + name[1:] for name in COLUMNS], rotation=30)
        ax.set_ylim(0, 102)
        ax.grid(axis="y")
    axes[0][0].set_ylabel("per cent")
    fig.legend(loc="outside lower center", ncols=len(methods))
    return fig


def best_words(scores: Mapping[str, Mapping[str, Scores]]) -> str:
    """Which method has the highest F1 in each part, in words."""
    told = []
    for part in PARTS:
        of = {m: s[part]["f1"].value for m, s in scores.items() if part in s}
        if of:
            best = max(of, key=lambda m: of[m])
            told.append(f"{PART_LABELS[part]}: {METHODS[best][0].lower()} at {figures.number(of[best])}")
    return "; ".join(told)


def neighbourhood(graph: KnowledgeGraph, most: int = 9) -> tuple[str, list[str], list[str]]:
    """The drug with the most of both kinds of edges, and its most mentioned partners and effects."""

    def reach(name: str) -> tuple[int, int, str]:
        both = min(len(graph.partners.get(name, ())), len(graph.effects.get(name, ())))
        return both, len(graph.neighbours[name]), name

    centre = max((name for name, label in graph.nodes.items() if label == "Drug"), key=reach)
    mentions = {f: e.mentions for f, e in graph.edges.items() if centre in (f.start, f.end)}
    order = sorted(mentions, key=lambda f: (-mentions[f], f))
    partners = [f.end if f.start == centre else f.start for f in order if f.type == INTERACTS]
    return centre, partners[:most], [f.end for f in order if f.type == CAUSES][:most]


def draw_neighbourhood(found: KnowledgeGraph, gold: KnowledgeGraph) -> tuple[Figure, str]:
    """A drug of the graph with what it interacts with (left) and what it causes (right); and what is seen, in words.

    A full line is an edge that the gold graph has too, a dashed one is not in it.
    """
    centre, partners, effects = neighbourhood(found)
    fig, ax = plt.subplots(figsize=(7.4, 4.6))
    right = 0
    for names, side in ((partners, -1), (effects, 1)):
        for name, y in zip(names, np.linspace(1, -1, len(names)) if len(names) > 1 else [0.0], strict=True):
            x = side * (0.55 + 0.3 * np.sqrt(max(0.0, 1 - y**2)))
            label = found.nodes[name]
            holds = any(name in (f.start, f.end) and centre in (f.start, f.end) for f in gold.edges)
            right += holds
            ax.plot([0, x], [0, y], "-" if holds else "--", color=LABEL_COLOURS[label], linewidth=1.4, zorder=1)
            ax.plot(x, y, "s" if label == "SideEffect" else "o", color=LABEL_COLOURS[label], markersize=9, zorder=2)
            text = name if len(name) <= 30 else f"{name[:28]}..."
            ax.annotate(
                text, (x, y), (8 * side, 0), textcoords="offset points", va="center", ha="left" if side > 0 else "right"
            )
    ax.plot(0, 0, "o", color=LABEL_COLOURS["Drug"], markersize=14, zorder=3)
    ax.text(0, 1.2, centre, ha="center", weight="bold")
    for x, words in ((-1.2, "INTERACTS_WITH"), (1.2, "CAUSES_SIDE_EFFECT")):
        ax.text(x, -1.3, words, ha="center", fontsize=10)
    ax.set_xlim(-2.5, 2.5)
    ax.set_ylim(-1.4, 1.4)
    ax.axis("off")
    total = len(partners) + len(effects)
    words = (
        f"{centre} with {len(partners)} of the {len(found.partners.get(centre, ()))} names it interacts with, "
        f"{', '.join(partners)}, and {len(effects)} of its {len(found.effects.get(centre, ()))} side effects, "
        f"{', '.join(effects)}. {right} of the {total} edges drawn are also in the gold graph."
    )
    return fig, words


def draw_degrees(graphs: Mapping[str, KnowledgeGraph]) -> Figure:
    """Share of nodes with at least so many neighbours, a panel a label, a line a graph."""
    fig, axes = plt.subplots(1, 3, figsize=(7.6, 3.2), sharey=True)
    styles = ("-", "--", ":")
    for ax, (label, colour) in zip(axes, LABEL_COLOURS.items(), strict=True):
        for (name, graph), style in zip(graphs.items(), styles, strict=False):
            degrees = np.sort([len(graph.neighbours[n]) for n, of in graph.nodes.items() if of == label])
            if not len(degrees) or not degrees[-1]:
                continue
            at = np.arange(1, degrees[-1] + 1)
            ax.step(at, [np.mean(degrees >= d) for d in at], style, color=colour, where="post", label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(label)
        ax.set_xlabel("neighbours, at least")
    axes[0].set_ylabel("share of nodes")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(graphs))
    return fig


def spread_words(graph: KnowledgeGraph) -> str:
    """What an average degree hides: how few nodes have half of all ends of edges."""
    degrees = np.sort([len(of) for of in graph.neighbours.values()])[::-1]
    few = int(np.searchsorted(np.cumsum(degrees), degrees.sum() / 2)) + 1
    return (
        f"The average of {degrees.mean():.2f} neighbours hides this spread: {few:,} of {len(degrees):,} nodes "
        f"({figures.number(few / len(degrees))}) have half of all ends of edges."
    )


def degree_words(graph: KnowledgeGraph) -> str:
    """The distribution in words: how many nodes have no edge or one, and who has most."""
    degrees = {name: len(of) for name, of in graph.neighbours.items()}
    alone, one = (sum(d == k for d in degrees.values()) / len(degrees) for k in (0, 1))
    top = max(degrees, key=lambda name: (degrees[name], name))
    return (
        f"{figures.number(alone)} of the nodes have no neighbour, {figures.number(one)} have one, and {top} has the "
        f"most, {degrees[top]}"
    )
