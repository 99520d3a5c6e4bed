"""What a process and its descendants use of processors is summed, also of those that have ended."""

from __future__ import annotations

import os
import subprocess

from opsmith.judging.processes import Meter


def test_what_an_ended_process_used_stays_in_the_sum() -> None:
    meter = Meter(os.getpid())
    begun_s = meter.used_s()
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        while (found_s := meter.used_s() - begun_s) < 0.2:
            pass
        busy.kill()
    assert meter.used_s() - begun_s >= found_s
