"""Counts the planted defects that `torch.library.opcheck` finds, and those that `opsmith check` finds.

    python benchmarks/opcheck_score.py [name ...]

opcheck runs its four tests on the calls that opsmith generates for the property in question, each defect in a child
process, because some crash. opcheck finds a defect if any of its tests raises, opsmith if the property of that name fails.
The same operators without defects give the false alarms. Writes results/check_score.json.
"""

from __future__ import annotations

import json
import platform
import sys
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parent / "tests" / "checker" / "planted"))

from table import TABLE, Planted  # noqa: E402

from opsmith.checker.process.child import Ended, Send, in_child  # noqa: E402
from opsmith.checker.properties.table import PROPERTIES  # noqa: E402
from opsmith.checker.run import CheckPlan, run_check  # noqa: E402
from opsmith.subject.subject import Subject  # noqa: E402

# The part of the suite that a property's cases are from; the plain ones for all others.
_GROUPS = {
    "magnitude": "values",
    "special values": "special",
    "sizes": "sizes",
    "empty": "empty",
    "strides": "layouts",
    "arguments": "scalars",
}
_MOST_CASES = 12


def opcheck_notices(subject: Subject, row: Planted) -> bool:
    """Whether opcheck raises, or the process dies, for the plain case or one of those that show the defect."""
    if subject.overload is None:
        return False  # a function, which opcheck cannot be asked about
    dtypes = next((d for d in subject.dtypes if d.get("T", row.dtypes[0]) == row.dtypes[0]), subject.dtypes[0])
    cases = list(subject.suite.cases(dtypes, "plain"))
    if row.named in _GROUPS:
        cases += list(subject.suite.cases(dtypes, _GROUPS[row.named]))[:_MOST_CASES]

    def work(send: Send) -> None:
        warnings.simplefilter("ignore")
        for case in cases:
            values = case.build("cpu")
            try:
                subject.results(subject.reference, values)
            except Exception:
                continue  # what the reference refuses, the operator may refuse too
            for name in subject.differentiable:
                if isinstance(value := values.get(name), torch.Tensor):
                    value.requires_grad_()
            try:
                torch.library.opcheck(subject.overload, tuple(subject.arguments(values)))
            except Exception as error:
                send(f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
                return

    found: list[Any] = list(in_child(work, silence_s=60.0))
    ended = found[-1]
    assert isinstance(ended, Ended)
    return len(found) > 1 or bool(ended.crash)


def ours_notices(subject: Subject, row: Planted) -> bool:
    """Whether the property fails that the defect is to be called by."""
    (item,) = (item for item in PROPERTIES if item.name == row.named)
    return bool(run_check(subject, CheckPlan((item,), row.dtypes)).failed)


def main() -> None:
    wanted = set(sys.argv[1:])
    rows = [row for row in TABLE if not wanted or row.name in wanted]
    results = []
    for row in rows:
        result: dict[str, Any] = {"name": row.name, "defect": row.defect, "property": row.named}
        for kind, planted in (("with", True), ("without", False)):
            subject = row.subject(planted=planted)
            result[kind] = {
                "opcheck": opcheck_notices(subject, row),
                "opsmith": ours_notices(subject, row),
            }
        results.append(result)
        print(f"{row.name:16} {row.named:16} with {result['with']}  without {result['without']}", flush=True)
    score = {
        tool: {
            "found": sum(result["with"][tool] for result in results),
            "false_alarms": sum(result["without"][tool] for result in results),
        }
        for tool in ("opcheck", "opsmith")
    }
    print(f"of {len(results)}: {score}")
    if wanted:
        return
    found = {
        "machine": {
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "processor": platform.machine(),
            "date": datetime.now(timezone.utc).date().isoformat(),
        },
        "defects": len(results),
        "score": score,
        "results": results,
    }
    (_HERE / "results" / "check_score.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
