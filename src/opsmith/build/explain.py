"""Tells whether the next build finds its artefact, and if not, why."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from opsmith.build.devices import wanted_devices
from opsmith.build.discover import discover
from opsmith.build.key import key_inputs
from opsmith.build.prepare import prepare
from opsmith.errors import DefinitionError
from opsmith.store import Miss, Store, compare_inputs, explain_miss
from opsmith.store.intact import Artifact
from opsmith.store.wording import tell_difference, tell_miss

__all__ = ["Explanation", "explain_builds"]


@dataclass(frozen=True)
class Explanation:
    """What is known about one library: whether it would be found, why not, and that in words."""

    name: str
    is_hit: bool | None  # None where only the past is known
    miss: Miss | None
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as JSON has it."""
        changes = [asdict(change) for change in self.miss.changes] if self.miss else []
        return {
            "name": self.name,
            "hit": self.is_hit,
            "reason": self.miss.reason if self.miss else None,
            "changes": changes,
            "nearest": self.miss.nearest.key if self.miss and self.miss.nearest else None,
            "text": self.sentence,
        }


def explain_builds(path: str, store: Store) -> list[Explanation]:
    """Explain a module of operators, or an extension that was built from existing sources, by its name.

    An extension's sources and flags are known to the program alone that loads it; what can be told is how its last build
    differs from the one before. Raises DefinitionError if there is neither, ToolchainError if no plan can be made, and
    StoreError if others could write to the store.
    """
    past = [item for item in store.artifacts() if item.manifest.name == path and item.manifest.kind == "library"]
    try:
        groups = discover(path)
    except DefinitionError:
        if past:
            return [_explain_past(path, past)]
        raise
    explanations = []
    for group in groups:
        prepared = prepare(group, wanted_devices(group.definitions))
        inputs = key_inputs(prepared.plan, prepared.toolchain, prepared.target)
        miss = explain_miss(store, prepared.plan.extension.name, inputs, roots=prepared.plan.roots)
        explanations.append(Explanation(group.module, miss is None, miss, tell_miss(miss)))
    return explanations


def _explain_past(name: str, past: list[Artifact]) -> Explanation:
    past.sort(key=lambda item: item.manifest.created)
    last = past[-1]
    if len(past) == 1:
        return Explanation(name, None, None, tell_difference(last.manifest, None, ()))
    before = past[-2]
    changes = compare_inputs(before.manifest.inputs, last.manifest.inputs)
    return Explanation(
        name,
        None,
        Miss("inputs" if changes else "headers", changes, before),
        tell_difference(last.manifest, before.manifest, changes),
    )
