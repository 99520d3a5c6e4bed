"""Prints what torch says about itself, as a program: importing a broken torch may end its process or hang."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["MARK", "probe"]

# Whatever else torch prints while it is imported, the answer is the line that begins so.
MARK = "@opsmith-doctor "


def probe() -> dict[str, Any]:
    """Return torch's own account as JSON can hold it."""
    import torch

    facts: dict[str, Any] = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cxx11_abi": bool(torch._C._GLIBCXX_USE_CXX11_ABI),
        "gpus": [],
        "gpu_error": None,
        "bridge": None,
        "bridge_failure": None,
        "bridge_misfit": None,
    }
    if torch.version.cuda or torch.version.hip:
        try:
            facts["gpus"] = [_describe_gpu(torch, index) for index in range(torch.cuda.device_count())]
            if facts["gpus"]:
                torch.zeros(1, device="cuda")
        except Exception as error:  # whatever a driver may do; it is reported, not raised
            facts["gpu_error"] = str(error).strip().splitlines()[0]
    try:
        from opsmith.runtime.bridge_library import describe_bridge

        state = describe_bridge()
        facts |= {
            "bridge": state["library"],
            "bridge_failure": state["failure"],
            "bridge_misfit": state["misfit"],
        }
    except Exception as error:  # as above
        facts["bridge_failure"] = str(error)
    return facts


def _describe_gpu(torch: Any, index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    arch = properties.gcnArchName if torch.version.hip else f"{properties.major}.{properties.minor}"
    return {"name": properties.name, "arch": arch, "memory_bytes": properties.total_memory}


if __name__ == "__main__":
    sys.stdout.write(f"\n{MARK}{json.dumps(probe())}\n")
