"""Loads the extension with one of the two tools in this process, and prints how long that took.

    python load.py ours|theirs COPY FLAGS [GATE]

With a gate, which is a folder, it reports there that it is ready, and starts once the folder has the file `open`.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

who, source, flags, *gates = sys.argv[1:]
programs = []
sys.addaudithook(lambda event, _: programs.append(event) if event in ("subprocess.Popen", "os.posix_spawn") else None)
for gate in map(Path, gates):
    (gate / f"ready{os.getpid()}").touch()
    while not (gate / "open").exists():
        time.sleep(0.005)
started = time.perf_counter()
if who == "ours":
    from opsmith.cpp_extension import load
else:
    from torch.utils.cpp_extension import load
imported = time.perf_counter()
module = load("swish", [source], extra_cflags=flags.split())
ended = time.perf_counter()
ended_at = time.time()
x = torch.linspace(-3, 3, 7, dtype=torch.float64, device="cuda" if source.endswith(".cu") else "cpu")
torch.testing.assert_close(module.forward(x, 1.0), torch.nn.functional.silu(x))
print(
    json.dumps(
        {"load_s": ended - started, "import_s": imported - started, "programs": len(programs), "ended_at": ended_at}
    )
)
