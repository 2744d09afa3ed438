"""The schema of a graph as text for a prompt."""

from collections.abc import Sequence

from helpers.graph_driver import quoted
from helpers.graph_load import Loader

TYPES = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", str: "STRING", list: "LIST", dict: "MAP"}
"""Python's types of a plain value, and Cypher's; any other is ANY."""


def describe_schema(graph: Loader, sample: int) -> str:
    """Describe labels, properties, relationship patterns, and how many of each there are.

    Args:
        graph: A connection that reads.
        sample: Number of nodes of a label, and of relationships of a type, from which all but the
            counts is read. A count is marked "about" if it is estimated from them.

    Returns:
        A line for each label and each pattern.
    """
    lines = ["Nodes:"]
    for name in graph.kinds("labels"):
        lines += _node_lines(graph, name, sample)
    lines.append("Relationships:")
    for name in graph.kinds("relationshipTypes"):
        lines += _relationship_lines(graph, name, sample)
    return "\n".join(lines)


def _node_lines(graph: Loader, label: str, sample: int) -> list[str]:
    pattern = f"(n:{quoted(label)})"
    count = graph.count(pattern)
    if not count:
        return []
    return [f"  (:{label}{_properties(graph, pattern, 'n', sample)})  {count} nodes"]


def _relationship_lines(graph: Loader, type_name: str, sample: int) -> list[str]:
    pattern = f"(a)-[r:{quoted(type_name)}]->(b)"
    sampled = graph.read(
        f"MATCH {pattern} WITH a, b LIMIT $sample "
        "RETURN labels(a) AS start, labels(b) AS end, count(*) AS count",
        sample=sample,
    )
    properties = _properties(graph, pattern, "r", sample)
    total = graph.count(f"()-[n:{quoted(type_name)}]->()")
    seen = sum(row["count"] for row in sampled)
    about = "about " if seen < total and len(sampled) > 1 else ""
    lines = []
    for row in sorted(sampled, key=_ends):
        start, end = _ends(row)
        count = round(row["count"] * total / seen)
        lines.append(
            f"  ({start})-[:{type_name}{properties}]->({end})  {about}{count} relationships"
        )
    return lines


def _ends(row: dict[str, Sequence[str]]) -> tuple[str, str]:
    return _label_text(row["start"]), _label_text(row["end"])


def _label_text(labels: Sequence[str]) -> str:
    return "".join(f":{name}" for name in sorted(labels))


def _properties(graph: Loader, pattern: str, variable: str, sample: int) -> str:
    """The properties of a pattern's variable as in ` {name: STRING}`; empty if it has none."""
    examples = graph.read(
        f"MATCH {pattern} WITH {variable} LIMIT $sample UNWIND keys({variable}) AS key "
        f"RETURN key, min({variable}[key]) AS example",
        sample=sample,
    )
    typed = []
    for row in examples:
        type_name = TYPES.get(type(row["example"]), "ANY")
        typed.append(f"{row['key']}: {type_name}")
    if not typed:
        return ""
    return f" {{{', '.join(sorted(typed))}}}"
