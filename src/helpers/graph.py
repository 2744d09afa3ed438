"""Connect to the graph over Bolt, load and read it, and run Cypher that someone else wrote.

The module uses the official Neo4j driver, and only Cypher that both a Neo4j 5 server and the
embedded server accept. Values are always sent as parameters. Labels, relationship types and
property names cannot be parameters, so they are checked and quoted.
"""

from typing import Any

from helpers.graph_driver import GraphError, Row
from helpers.graph_guard import CypherRejected, Untrusted, check_statement
from helpers.graph_load import Loader
from helpers.graph_reader import Limits, UntrustedReader
from helpers.graph_schema import describe_schema
from resources import services
from resources.services import GraphEndpoint

__all__ = ["CypherRejected", "Graph", "GraphError", "Row", "Untrusted", "connect"]


class Graph(Loader):
    """A connection that loads and reads the graph, and runs Cypher that someone else wrote."""

    def __init__(self, endpoint: GraphEndpoint, prefix: str = "") -> None:
        """Connect; see `connect` for the errors, and `Catalogue` for the prefix."""
        super().__init__(endpoint, prefix)
        self._reader = UntrustedReader(endpoint)

    def close(self) -> None:
        """Close the connection; the server keeps running."""
        self._reader.close()
        super().close()

    def read_untrusted(
        self,
        cypher: str,
        /,
        *,
        max_rows: int = 100,
        max_bytes: int = 1_000_000,
        timeout: float = 5.0,
        **parameters: Any,  # noqa: ANN401  # whatever Bolt can carry
    ) -> Untrusted:
        """Run Cypher that a model or a user wrote, without harm to the graph or to the caller.

        1. The text must be one reading statement of at most 10 kB. Among other things, it may not
           contain procedures, extension functions, LOAD CSV, regular expressions, reduce(), or
           paths that may have more than 10 relationships.
        2. On a Neo4j server, the statement's plan (EXPLAIN, which runs nothing) may contain only
           operators that read the graph. On the embedded server, the statement runs as a user who
           may only read records, and files and URLs are switched off.
        3. The statement runs in a READ transaction, which is always rolled back. If a read-only
           account is set (NEO4J_READER_USER), the statement runs under this account.
        4. If the statement reaches a limit, the connection is closed. After the limit of time or of
           size, the server is also told to end the transaction. A server ends a transaction between
           rows, so one expression over a long list can run a little longer.

        Statements run one at a time over one connection.

        Args:
            cypher: One statement, with or without a final semicolon.
            max_rows: Largest number of rows that are returned. `truncated` says whether there were
                more.
            max_bytes: Largest number of bytes that the server may send. A statement with a larger
                result is stopped.
            timeout: Time limit in seconds.
            **parameters: Values of the statement's parameters.

        Returns:
            The rows, as plain JSON values.

        Raises:
            CypherRejected: If the query was not run, was refused by the server, or was stopped.
                The message says why.
            GraphError: If the server cannot be used.
            ValueError: If `max_rows` is below 1.
        """
        statement = check_statement(cypher)
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}.")
        limits = Limits(max_rows, max_bytes, timeout)
        try:
            return self._reader.read(statement, parameters, limits)
        except GraphError:
            if self.endpoint.embedded:
                self.read("RETURN 1")  # waits for a server that restarts
            return self._reader.read(statement, parameters, limits)

    def schema(self, sample: int = 100_000) -> str:
        """Describe what is in the graph, as text for a prompt.

        Args:
            sample: Largest number of nodes of each label, and of relationships of each type, whose
                properties are read.
        """
        return describe_schema(self, sample)


def connect(endpoint: GraphEndpoint | None = None) -> Graph:
    """Connect to a graph. If the embedded server is restarting, wait for it.

    Args:
        endpoint: The server. The default is the server that `NEO4J_URI` names, or else the
            embedded server, which is started if necessary.

    Raises:
        GraphError: If the server cannot be used. The message says why.
    """
    return Graph(endpoint or services.graph_endpoint())
