"""Holds the examples of each command, which stand at the end of its help."""

from __future__ import annotations

from collections.abc import Mapping

import click

__all__ = ["EXAMPLES", "with_examples"]

# By the words of the command, without `opsmith`; the test of this table reads each example's options.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": ("opsmith check smooth", "opsmith bench smooth --html smooth.html", "opsmith help kernel"),
    "new": (
        "opsmith new smooth",
        "opsmith new smooth --cuda --wheel --license BSD-3-Clause",
        "opsmith new smooth --cmake --recipe conda",
    ),
    "build": (
        "opsmith build smooth",
        "opsmith build smooth --with cmake --output build",
        "opsmith build smooth --arch '8.0;9.0+PTX'    # on a machine without a GPU",
    ),
    "check": (
        "opsmith check smooth",
        "opsmith check smooth::lowpass --property 'reads outside' --seconds 120",
        "opsmith check torch.ops.shop.scale --import shop --reference shop.tests:scale",
        "opsmith check smooth --mutate    # how many planted faults it would find",
    ),
    "bench": (
        "opsmith bench smooth --html smooth.html",
        "opsmith bench smooth::lowpass --size B=64,N=4096 --phase forward --against compiled",
        "opsmith bench smooth --json old.json",
        "opsmith bench smooth --compare old.json    # exits with 1 if it is slower now",
    ),
    "judge": (
        "opsmith judge level1/23_Softmax.py candidate.py",
        "opsmith judge smooth::lowpass candidate.py --require operator --html verdict.html",
        "opsmith judge level1 --batch candidates --json > verdicts.json    # goes on from its log",
    ),
    "tune": (
        "opsmith tune rows::softmax --size M=8192,N=256 --size M=8192,N=1024 --size M=8192,N=8192",
        "opsmith tune rows::softmax --phase backward --size M=8192,N=1024 --dtype float16",
    ),
    "profile": ("opsmith profile smooth", "opsmith profile smooth::lowpass --device cuda"),
    "wheel": ("opsmith wheel", "opsmith wheel project -o dist --prove"),
    "prove": ("opsmith prove dist/*.whl", "opsmith prove dist/*.whl --torch 2.10.0 --torch 2.13.0"),
    "audit": ("opsmith audit dist/*.whl", "opsmith audit build/libops.so --why --source csrc"),
    "hub": ("opsmith hub smooth",),
    "stub": ("opsmith stub smooth", "opsmith stub smooth --write"),
    "run": (
        "opsmith run -- python train.py",
        "opsmith run -- pip install .",
        "opsmith run -- torchrun --nproc-per-node 4 train.py",
    ),
    "doctor": ("opsmith doctor", "opsmith doctor --try"),
    "explain-error": ("opsmith explain-error build.log", "pip install . 2>&1 | opsmith explain-error"),
    "cache": ("opsmith cache ls", "opsmith cache explain smooth", "opsmith cache prune --older-than 30d"),
    "cache where": ("opsmith cache where",),
    "cache ls": ("opsmith cache ls", "opsmith cache ls smooth --json"),
    "cache explain": ("opsmith cache explain smooth",),
    "cache prune": ("opsmith cache prune --max-size '2 GB'", "opsmith cache prune --older-than 30d"),
    "cache verify": ("opsmith cache verify", "opsmith cache verify --fix"),
    "cache export": ("opsmith cache export built.zip smooth",),
    "cache import": ("opsmith cache import built.zip",),
    "cache push": ("opsmith cache push smooth",),
    "cache pull": ("opsmith cache pull", "opsmith cache pull smooth"),
    "cache key": ("opsmith cache key new", "opsmith cache key list"),
    "cache key new": ("opsmith cache key new --name 'build server'",),
    "cache key trust": ("opsmith cache key trust ed25519:... --name 'build server'",),
    "cache key forget": ("opsmith cache key forget ed25519:...",),
    "cache key list": ("opsmith cache key list",),
    "editor": ("opsmith editor smooth", "opsmith editor csrc --commands build"),
    "bridge": ("opsmith bridge",),
    "demo": ("opsmith demo --quick", "opsmith demo --output report"),
    "completion": (
        "opsmith completion bash > ~/.local/share/bash-completion/completions/opsmith",
        'opsmith completion zsh > "${fpath[1]}/_opsmith"',
        "opsmith completion fish > ~/.config/fish/completions/opsmith.fish",
        'eval "$(opsmith completion bash)"    # for this shell alone',
    ),
    "help": ("opsmith help", "opsmith help kernel", "opsmith help check"),
    "plan": ("opsmith plan smooth --target ops --source . --binary build",),
    "plan-sources": ("opsmith plan-sources --source-file ops.cpp --target ops --source . --binary build",),
    "cmake-dir": ("opsmith cmake-dir", "cmake -B build -DCMAKE_PREFIX_PATH=$(opsmith cmake-dir)"),
}


def with_examples(command: click.Command, words: str) -> click.Command:
    """Return a command that has its examples, and so have those that it consists of."""
    if words in EXAMPLES:
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in EXAMPLES[words])])
    if isinstance(command, click.Group):
        for name, member in command.commands.items():
            with_examples(member, f"{words} {name}")
    return command
