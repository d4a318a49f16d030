"""The contract of a task and of its result. Both cross between machines as JSON in bytes, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gemmsmith import __version__
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.store.results import Machine

LIMIT_S = 3600.0
DONE, FAILED = "done", "failed"
CPU, ANY_GPU = "", "any"


@dataclass(frozen=True)
class Task:
    """One piece of work, the same wherever it runs.

    kind        names the function that does it (``handlers`` of an executor)
    parameters  its arguments, as JSON
    label       its name for people and, with the kind, for the expected time
    sources     digest of the files it reads (``sources.py``); '' where it reads none
    gpu         '' for a core; 'any', or the kind of GPU it needs one of
    limit       seconds after which it is ended
    context     more arguments, which save work and do not change the result: not in the digest
    """

    kind: str
    parameters: Mapping[str, Any]
    label: str
    sources: str = ""
    gpu: str = CPU
    limit: float = LIMIT_S
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that determines the result."""
        what = [__version__, self.kind, self.parameters, self.sources, self.gpu]
        return hashlib.sha256(json.dumps(what, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def to_bytes(self) -> bytes:
        given = {**self.parameters, **self.context}
        sent = {"version": __version__, "kind": self.kind, "parameters": given, "label": self.label,
                "sources": self.sources, "gpu": self.gpu, "limit": self.limit, "digest": self.digest}  # fmt: skip
        return json.dumps(sent).encode()


@dataclass(frozen=True)
class Node:
    """Where a task ran.

    name     of the node; on Ray with the beginning of its id
    machine  with its GPU and driver where one was used
    sm_mhz   the GPU's SM clock after the task
    """

    name: str
    machine: Machine
    sm_mhz: float = math.nan


@dataclass(frozen=True)
class TaskResult:
    """What became of a task.

    state    'done', or 'failed'
    value    what its function returned, as JSON
    error    why it failed: {"kind", "message", "hint"}, as commands print it
    seconds  of the last try
    log      the end of what it printed
    tries    how often it was started
    """

    digest: str
    state: str
    value: Any = None
    error: Mapping[str, str] | None = None
    node: Node | None = None
    seconds: float = math.nan
    log: str = ""
    tries: int = 1

    @property
    def ok(self) -> bool:
        return self.state == DONE

    def to_bytes(self) -> bytes:
        return json.dumps(encode(replace(self, value=None, error=None)) | {"value": self.value, "error": self.error},
                          allow_nan=False).encode()  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes) -> TaskResult:
        found = json.loads(data)
        value, error = found.pop("value"), found.pop("error")
        return replace(decode(cls, found), value=value, error=error)


def failure(digest: str, kind: str, message: str, hint: str = "", log: str = "") -> TaskResult:
    """A task without a result."""
    return TaskResult(digest, FAILED, error={"kind": kind, "message": message, "hint": hint}, log=log)
