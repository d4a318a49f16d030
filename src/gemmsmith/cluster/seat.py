"""What runs inside a Ray cluster: a seat holds one worker process on its node, a shelf holds compiled kernels.

Methods take and return bytes and text. Only this module is known to Ray, by its name: nothing of ours is pickled.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from gemmsmith import __version__
from gemmsmith.cluster.slot import Ended, Slot

_STEP_S = 3600.0
_MOST_BYTES = 512 << 20


class KernelShelf:
    """Compiled kernels by digest, for all nodes; the oldest are dropped beyond 512 MiB.

    If it is lost, kernels are compiled again.
    """

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._bytes = 0

    def get(self, key: str) -> bytes:
        return self._held.get(key, b"")

    def put(self, key: str, data: bytes) -> None:
        if key not in self._held:
            self._held[key] = data
            self._bytes += len(data)
        while self._bytes > _MOST_BYTES and self._held:
            self._bytes -= len(self._held.pop(next(iter(self._held))))


class Seat:
    """One worker process on a node."""

    def __init__(self, handlers: str, environment: str, shelf: Any, sources: list[Any]) -> None:
        """``sources`` are references to the packed sources in Ray's store, by key; ``shelf`` is the actor."""
        import ray

        self._get = ray.get
        self._shelf = shelf
        self._sources = dict(sources)
        node = ray.get_runtime_context().get_node_id()[:8]
        self._name = f"{platform.node()}/{node}"
        self._slot = Slot(handlers, self, json.loads(environment), shares=True, name=self._name)

    def hello(self) -> bytes:
        """Who is here."""
        return json.dumps({"gemmsmith": __version__, "node": self._name}).encode()

    def run(self, task: bytes, limit: float) -> bytes:
        """How the task ended."""
        self._slot.begin(task, limit)
        while (ended := self._slot.step(_STEP_S)) is None:
            pass
        return to_bytes(ended)

    def get(self, key: str) -> bytes | None:
        """A blob for the worker: sources from the driver, kernels from other nodes."""
        if key in self._sources:
            found: bytes = self._get(self._sources[key])
            return found
        with suppress(Exception):  # the shelf's node is gone
            return self._get(self._shelf.get.remote(key)) or None
        return None

    def put(self, key: str, data: bytes) -> None:
        with suppress(Exception):
            self._shelf.put.remote(key, data)


def to_bytes(ended: Ended) -> bytes:
    """One line of JSON, then the result's own bytes."""
    facts = asdict(ended)
    data = facts.pop("data")
    return json.dumps(facts).encode() + b"\n" + bytes(data)


def from_bytes(message: bytes) -> Ended:
    facts, _, data = message.partition(b"\n")
    found: Mapping[str, Any] = json.loads(facts)
    return Ended(data=data, **found)
