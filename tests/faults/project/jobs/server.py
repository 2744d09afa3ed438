"""A server that is started, shared and asked; with KEEP in the environment it runs on."""

import os
import sys
import urllib.request

from resources import services, supervisor
from resources.engines import Launch


def launch(say):
    port = services.free_port()
    url = f"http://127.0.0.1:{port}/"
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    return Launch("llm", command, {}, url, {"base_url": url, "version": "plain"})


try:
    address = supervisor.ensure(services.SERVICES / "llm-plain", launch)["base_url"]
except supervisor.ServiceError as error:
    sys.exit(str(error))
if os.environ.get("KEEP"):
    supervisor.keep(services.SERVICES / "llm-plain")
print(urllib.request.urlopen(address).status)
