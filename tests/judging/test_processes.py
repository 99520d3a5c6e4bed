"""What a process and its descendants use of processors is summed, also of those that have ended."""

from __future__ import annotations

import os
import subprocess
import time

from opsmith.judging.processes import Meter, Spent, cpu_s


def test_what_an_ended_process_used_stays_in_the_sum() -> None:
    meter = Meter(os.getpid())
    begun_s = meter.used_s()
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        while (found_s := meter.used_s() - begun_s) < 0.2:
            pass
        busy.kill()
    assert meter.used_s() - begun_s >= found_s


def test_what_is_counted_late_is_no_time_since() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        try:
            while cpu_s([busy.pid]) < 0.1:
                pass
            for _ in range(20):
                spent, begun_s = Spent(), time.monotonic()
                spent.count(busy.pid)
                before_s = cpu_s([busy.pid])
                # Until its clock has been set, by up to some milliseconds that lie before for the most part.
                while cpu_s([busy.pid]) == before_s and time.monotonic() < begun_s + 1e-3:
                    spent.look()
                assert spent.look() <= time.monotonic() - begun_s
            spent, begun_s = Spent(), cpu_s([busy.pid])
            spent.count(busy.pid)
            time.sleep(0.1)
            assert spent.look() >= min(0.1, cpu_s([busy.pid]) - begun_s) - 0.01
        finally:
            busy.kill()
