"""What a Neo4j server plans to do for a statement (EXPLAIN), and whether that only reads the graph.

The embedded server's plans name no such operators; there, the reader's user may only read.
"""

import re
from collections.abc import Iterator
from typing import Any

import neo4j

from helpers.graph_guard import (
    CypherRejected,
    bare_text,
    check_cost,
    check_functions,
    check_hops,
    upper_bound,
)

_READING_OPERATORS = """
    AllNodesScan NodeByLabelScan UnionNodeByLabelsScan IntersectionNodeByLabelsScan
    SubtractionNodeByLabelsScan NodeByIdSeek NodeByElementIdSeek NodeIndexScan
    NodeIndexContainsScan NodeIndexEndsWithScan NodeIndexSeek NodeIndexSeekByRange
    NodeUniqueIndexSeek NodeUniqueIndexSeekByRange MultiNodeIndexSeek NodeCountFromCountStore
    AllRelationshipsScan RelationshipTypeScan UnionRelationshipTypesScan RelationshipByIdSeek
    RelationshipByElementIdSeek RelationshipIndexScan RelationshipIndexContainsScan
    RelationshipIndexEndsWithScan RelationshipIndexSeek RelationshipIndexSeekByRange
    RelationshipUniqueIndexSeek RelationshipUniqueIndexSeekByRange
    RelationshipCountFromCountStore
    Expand OptionalExpand VarLengthExpand ShortestPath StatefulShortestPath Repeat
    BidirectionalRepeat PathPropagatingBFS ProjectEndpoints
    Apply SemiApply AntiSemiApply LetSemiApply LetAntiSemiApply SelectOrSemiApply
    SelectOrAntiSemiApply LetSelectOrSemiApply LetSelectOrAntiSemiApply RollUpApply
    ConditionalApply AntiConditionalApply
    CartesianProduct NodeHashJoin ValueHashJoin NodeLeftOuterHashJoin NodeRightOuterHashJoin
    TriadicSelection TriadicBuild TriadicFilter AssertSameNode AssertSameRelationship
    Argument EmptyRow EmptyResult Optional Anti Filter Projection CacheProperties Unwind Eager
    NullifyMetadata EagerAggregation OrderedAggregation Distinct OrderedDistinct Union
    OrderedUnion Sort PartialSort Top PartialTop Limit ExhaustiveLimit Skip PreserveOrder
    ProduceResults
"""
"""Operators that only read the graph or compute, without the words of `_VARIANT`.

All others are refused: files and URLs, procedures, other databases, transactions, users, settings.
"""
_PATH_OPERATORS = """
    VarLengthExpand ShortestPath StatefulShortestPath Repeat BidirectionalRepeat PathPropagatingBFS
"""

_VARIANT = re.compile(r"^(?:Partitioned)?(?:Directed|Undirected)?|[(@].*")
_SUBQUERY = re.compile(r"\b(COLLECT|COUNT|EXISTS)\s*\{", re.IGNORECASE)
"""A subquery left in an expression, as in `[x IN xs | COLLECT { ... }]`: no plan shows it."""
_PLANNED_PATH = re.compile(
    r"\*(?P<first>\d*)(?P<dots>\.\.)?(?P<last>\d*)\]|\{\d+, ?(?P<repeats>\d*) ?\}"
)
"""Bounds in the details of a path operator: `[r*1..3]`, or `{1, 3}` of a repeated pattern."""


def check_plan(explained: neo4j.ResultSummary) -> None:
    """Check what the server says that a statement would do.

    Raises:
        CypherRejected: It would do more than read the graph, or search paths without a bound.
    """
    if explained.query_type != "r" or explained.plan is None:
        raise CypherRejected(
            "It would change the graph, or ask for something else than the graph "
            f"(query type {explained.query_type!r}). Only reading is allowed."
        )
    for step in _steps(explained.plan):
        _check_step(step)


def _steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending = [plan]  # a plan can be deeper than Python's stack
    while pending:
        step = pending.pop()
        yield step
        pending += step.get("children", [])


def _check_step(step: dict[str, Any]) -> None:
    operator = _VARIANT.sub("", step["operatorType"])
    if operator not in _READING_OPERATORS.split():
        raise CypherRejected(
            f"Only reading the graph is allowed. The server plans the operator {operator}."
        )
    details = str(step.get("args", {}).get("Details", ""))
    # also within quotes, for names are written without theirs
    if subquery := _SUBQUERY.search(details):
        raise CypherRejected(
            f"{subquery[1].upper()} {{...}} is allowed in no list, map or CASE: no plan shows it."
        )
    bare = bare_text(details)
    check_functions(bare)
    check_cost(bare)
    if operator in _PATH_OPERATORS.split():
        _check_paths(details)


def _check_paths(details: str) -> None:
    for path in _PLANNED_PATH.finditer(details):
        repeats = path["repeats"]
        if repeats is None:
            check_hops(upper_bound(path))
        else:
            check_hops(int(repeats) if repeats else None)
