"""Serve a GGUF file by llama.cpp's HTTP server.

The interpreter of llama.cpp's environment runs this script; nothing imports it.
"""

import argparse
import os
import signal
import threading

import xllamacpp


def main() -> None:
    """Start the server on loopback and wait for SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="path of the GGUF file")
    parser.add_argument("--name", required=True, help="the model's name in the API")
    # context: tokens of a prompt and its answer
    for number in ("port", "context", "parallel", "threads"):
        parser.add_argument(f"--{number}", type=int, required=True)
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.name}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.api_keys = [os.environ["LLAMACPP_API_KEY"]]
    params.n_parallel = options.parallel
    params.n_ctx = options.context * options.parallel
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = 64  # prompts kept outside the slots; unlimited by default
    params.ui = False
    server = xllamacpp.Server(params)

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    stop.wait()
    del server


if __name__ == "__main__":
    main()
