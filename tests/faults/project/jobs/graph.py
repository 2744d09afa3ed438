"""A graph that is loaded once, read, and asked by a statement of somebody else.

With KEEP in the environment its server runs on; DRUGS says how many there are.
"""

import os
import sys

from helpers import graph
from resources import services, supervisor
from resources.services import ServiceError

ASKED = (
    "MATCH (d:Drug)-[:CAUSES]->(e:Effect {name: 'effect 7'}) RETURN d.name AS name ORDER BY name"
)

DRUGS = int(os.environ.get("DRUGS", "400"))

try:
    with graph.connect() as db:
        if os.environ.get("KEEP"):
            supervisor.keep(services.SERVICES / "graph")
        with db.load_once("demo", f"{DRUGS:064d}") as missing:
            if missing:
                db.clear("Drug", "Effect")
                db.constraint("Drug", "name")
                db.constraint("Effect", "name")
                db.load_nodes(
                    "Drug",
                    [{"name": f"drug {i}", "dose": i} for i in range(DRUGS)],
                    "name",
                    progress=False,
                )
                db.load_nodes(
                    "Effect", [{"name": f"effect {i}"} for i in range(50)], "name", progress=False
                )
                pairs = [
                    {"drug": f"drug {i}", "effect": f"effect {i * k % 50}"}
                    for i in range(DRUGS)
                    for k in (1, 3)
                ]
                db.load_edges(
                    "CAUSES",
                    pairs,
                    ("Drug", "name", "drug"),
                    ("Effect", "name", "effect"),
                    progress=False,
                )
        doses = db.read("MATCH (d:Drug) RETURN count(d) AS drugs, sum(d.dose) AS doses")
        print(doses, db.read_untrusted(ASKED).rows)
except (graph.GraphError, ServiceError) as error:
    sys.exit(str(error))
