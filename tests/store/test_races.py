"""Several processes, or one that is killed, never spoil the store."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from opsmith.store import source_key
from opsmith.store.staging import reserve_name

PUBLISH = """
    import os, sys
    from opsmith.store import digest_file
    inputs = {inputs!r}

    def build(content):
        with store.staging() as staging:
            library = staging / "scale.so"
            library.write_bytes(content)
            manifest = Manifest.describe(
                library, name="scale", inputs=inputs, devices=(), archs=(), toolchain={{}}, torch_version=None,
                opsmith_version="0",
            )
            return store.publish(source_key(inputs), staging, manifest=manifest, headers={{}})
"""


def start(process):
    """Let a process go that waits for a line, after it said that it is ready."""
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_that_publish_the_same_key_agree_on_one_artefact(store, python, inputs):
    code = (
        PUBLISH.format(inputs=inputs)
        + """
    print("ready", flush=True)
    sys.stdin.readline()
    for round in range(20):
        artifact = build(os.urandom(1000))
        print(artifact.manifest.sha256, digest_file(artifact.library))
    """
    )
    racers = [start(python(code)) for _ in range(4)]
    lines = []
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        output, _ = racer.communicate(timeout=20)
        assert racer.returncode == 0
        lines += output.splitlines()
    assert len(lines) == 80
    assert len(set(lines)) == 1
    promised, found = lines[0].split()
    assert promised == found
    assert list(store.layout.staging.iterdir()) == []


def test_a_reader_meets_whole_artefacts_only(store, python, inputs):
    code = (
        PUBLISH.format(inputs=inputs)
        + """
    print("ready", flush=True)
    while True:
        store.remove(build(b"x" * 100_000))
    """
    )
    writer = start(python(code))
    seen = Counter()
    deadline_s = time.monotonic() + 1
    while time.monotonic() < deadline_s:
        for library in store.layout.artifacts.glob("*/*/scale.so"):
            try:
                seen[len(library.read_bytes())] += 1
            except FileNotFoundError:
                continue
        if found := store.find(source_key(inputs)):
            assert found.manifest.size_bytes == 100_000
    assert writer.poll() is None
    assert set(seen) == {100_000}


@pytest.mark.parametrize("moment_ms", [0, 3, 6, 9, 12])
def test_a_process_that_is_killed_while_it_publishes_leaves_a_sound_store(store, python, publish, inputs, moment_ms):
    code = (
        PUBLISH.format(inputs=inputs)
        + """
    print("ready", flush=True)
    while True:
        store.remove(build(b"x" * 100_000))
    """
    )
    writer = start(python(code))
    time.sleep(moment_ms / 1e3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    found = store.find(source_key(inputs))
    assert found is None or found.library.read_bytes() == b"x" * 100_000
    assert publish(content=b"x" * 100_000).library.read_bytes() == b"x" * 100_000
    assert list(store.layout.staging.iterdir()) == [], "what the killed process left was not swept"


def test_one_builds_while_the_others_wait(store, python, inputs):
    code = (
        PUBLISH.format(inputs=inputs)
        + """
    import time
    print("ready", flush=True)
    sys.stdin.readline()
    key = source_key(inputs)
    with store.lock(key):
        if store.find(key) is None:
            time.sleep(0.2)
            build(b"binary")
            print("built")
    """
    )
    racers = [start(python(code)) for _ in range(3)]
    outputs = []
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        outputs.append(racer.communicate(timeout=20)[0])
        assert racer.returncode == 0
    assert sorted(outputs) == ["", "", "built\n"]


def test_the_lock_of_a_killed_process_is_free_at_once(store, python, inputs):
    key = source_key(inputs)
    holder = start(
        python(f"""
        import time
        with store.lock({key!r}):
            print("ready", flush=True)
            time.sleep(60)
        """)
    )
    waits_s = []

    def on_wait(waited_s):
        waits_s.append(waited_s)
        holder.send_signal(signal.SIGKILL)

    start_s = time.monotonic()
    with store.lock(key, on_wait):
        assert time.monotonic() - start_s < 0.4
    assert len(waits_s) == 1
    assert waits_s[0] < 0.1


def test_the_waiter_is_told_how_long_it_waits(store, python, inputs):
    key = source_key(inputs)
    start(
        python(f"""
        import time
        with store.lock({key!r}):
            print("ready", flush=True)
            time.sleep(0.8)
        """)
    )
    waits_s = []
    with store.lock(key, waits_s.append):
        pass
    assert len(waits_s) == 2
    assert waits_s[0] < 0.1 < 0.4 < waits_s[1]


def test_who_waits_for_what_has_been_done_goes_on_without_the_lock(store, python, inputs, tmp_path):
    done = tmp_path / "done"
    start(
        python(f"""
        import time
        with store.lock("a" * 64):
            print("ready", flush=True)
            time.sleep(0.3)
            open({str(done)!r}, "w").close()
            time.sleep(60)
        """)
    )
    with store.lock("a" * 64, is_settled=done.exists) as is_held:
        assert done.exists()
        assert not is_held
    with store.lock("b" * 64, is_settled=done.exists) as is_held:
        assert is_held


def test_an_error_of_the_waiters_own_is_not_the_stores(store, python, inputs):
    start(
        python("""
        import time
        with store.lock("a" * 64):
            print("ready", flush=True)
            time.sleep(60)
        """)
    )

    def on_wait(_):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError), store.lock("a" * 64, on_wait):
        pytest.fail("the lock is held by another")


def test_locks_of_different_keys_do_not_meet(store):
    with store.lock("a" * 64), store.lock("b" * 64, on_wait=lambda _: pytest.fail("waited")):
        pass


def test_a_lock_is_given_back_when_the_build_fails(store):
    with pytest.raises(ZeroDivisionError), store.lock("a" * 64):
        1 / 0  # noqa: B018
    with store.lock("a" * 64, on_wait=lambda _: pytest.fail("waited")):
        pass


def test_staging_of_the_living_and_of_other_hosts_stays_until_it_is_old(store):
    parent = store.layout.staging
    parent.mkdir(parents=True)
    living = reserve_name(parent)
    elsewhere = parent / "otherhost0000-1-abcd"
    dead = parent / reserve_name(parent).name.replace(f"-{os.getpid()}-", f"-{_dead_pid()}-")
    old = parent / "otherhost0000-2-abcd"
    for folder in (living, elsewhere, dead, old):
        folder.mkdir()
        (folder / "scale.o").touch()
    two_days_ago_s = time.time() - 2 * 24 * 60 * 60
    os.utime(old, (two_days_ago_s, two_days_ago_s))
    with store.staging() as mine:
        assert set(parent.iterdir()) == {living, elsewhere, mine}


def _dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
