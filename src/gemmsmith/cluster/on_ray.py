"""Tasks on a Ray cluster: one seat (an actor) for each core or GPU that the cluster has, as many as there are tasks."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from gemmsmith import __version__
from gemmsmith.cluster.place import Place
from gemmsmith.cluster.seat import from_bytes
from gemmsmith.cluster.slot import Ended
from gemmsmith.cluster.sources import SourceTree
from gemmsmith.cluster.task import ANY_GPU, CPU, Task
from gemmsmith.errors import GemmsmithError, MissingDeviceError, UsageError

INSTALL = "pip install 'gemmsmith[cluster]'"
_CONNECT_S = 5.0
_LOOK_S = 2.0  # between looks for new nodes
_MOST_REFUSALS = 3  # seats that did not start, before any did
_MOST_CONNECTIONS = 3
_GAVE_UP = "Initialization failure from server"
_KIND = "accelerator_type:"


class ClusterError(GemmsmithError):
    """The Ray cluster cannot be used."""

    exit_code = 3


class RayExecutor:
    """Seats on the nodes of a cluster. Nodes that join are used; tasks of nodes that are lost end as lost."""

    def __init__(
        self, place: Place, handlers: str, most: int, *, gpu: str = CPU, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ray, self._connected = connect(place)
        with ExitStack() as stack:  # Ray prints about lost nodes to stdout, where results go
            stack.enter_context(redirect_stdout(stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))))
            self._quiet = stack.pop_all()
        try:
            self._gpu = _kind(self._ray, gpu, place)
        except GemmsmithError:
            self._leave()
            raise
        from gemmsmith.cluster.seat import KernelShelf, Seat

        self._handlers, self._environment = handlers, json.dumps(dict(environment or {}))
        self._most, self._looked, self._capacity, self._refusals = most, -_LOOK_S, 0, 0
        self._class = self._ray.remote(Seat)
        self._shelf = self._ray.remote(KernelShelf).options(num_cpus=0).remote()
        self._sources: list[tuple[str, Any]] = []
        self._starting: dict[Any, Any] = {}  # seats by the reference to their hello
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Task]] = {}  # by the reference to the result

    def share(self, tree: SourceTree) -> None:
        self._sources.append((f"sources:{tree.digest}", self._ray.put(tree.data)))

    def workers(self) -> int:
        return len(self._idle) + len(self._busy)

    def free(self) -> int:
        self._grow()
        return len(self._idle)

    def _grow(self) -> None:
        """Ask for as many seats as the cluster can hold now, and as there are tasks."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_S:
            self._looked, self._capacity = now, self._places()
        while len(self._starting) + self.workers() < min(self._capacity, self._most):
            wants: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0}
            if self._gpu != CPU:
                wants |= {"num_gpus": 1} | ({"accelerator_type": self._gpu} if self._gpu != ANY_GPU else {})
            seat = self._class.options(**wants).remote(self._handlers, self._environment, self._shelf, self._sources)
            self._starting[seat.hello.remote()] = seat

    def _places(self) -> int:
        """Cores, or GPUs of the kind, on the nodes that are alive."""
        total = 0
        for node in self._ray.nodes():
            has = node["Resources"]
            if node["Alive"] and (self._gpu in (CPU, ANY_GPU) or _KIND + self._gpu in has):
                total += int(min(has.get("CPU", 0), has.get("GPU", 0)) if self._gpu != CPU else has.get("CPU", 0))
        return total

    def start(self, task: Task) -> None:
        seat = self._idle.pop()
        self._busy[seat.run.remote(task.to_bytes(), task.limit)] = (seat, task)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Ended]]:
        references = [*self._starting, *self._busy]
        if not references:
            time.sleep(min(seconds, _LOOK_S))
            return []
        try:
            ready, _ = self._ray.wait(references, num_returns=1, timeout=seconds)
            if ready:
                ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(f"the Ray cluster was lost: {_first_line(error)}",
                               "the same command goes on with the tasks that are left") from None  # fmt: skip
        ended = []
        for reference in ready:
            if reference in self._starting:
                self._started(self._starting.pop(reference), reference)
            else:
                seat, task = self._busy.pop(reference)
                ended.append((task, self._outcome(seat, reference)))
        return ended

    def _started(self, seat: Any, reference: Any) -> None:
        try:
            who = json.loads(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            self._refusals += 1
            if self._refusals >= _MOST_REFUSALS and not self.workers():
                raise ClusterError(f"no worker starts on the cluster: {_reason(error)}",
                                   f"every node needs gemmsmith {__version__}") from None  # fmt: skip
            return
        if who["gemmsmith"] != __version__:
            raise ClusterError(f"node {who['node']} has gemmsmith {who['gemmsmith']}, this machine {__version__}",
                               "install the same version on all nodes")  # fmt: skip
        self._refusals = 0
        self._idle.append(seat)

    def _outcome(self, seat: Any, reference: Any) -> Ended:
        try:
            ended = from_bytes(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            with suppress(Exception):
                self._ray.kill(seat)
            return Ended(lost=f"its node or its process was lost ({type(error).__name__})", log=_first_line(error))
        self._idle.append(seat)
        return ended

    def close(self) -> None:
        seats = [*self._starting.values(), *self._idle, *(seat for seat, _ in self._busy.values()), self._shelf]
        self._starting, self._idle, self._busy = {}, [], {}
        for seat in seats:
            with suppress(Exception):  # its node is gone
                self._ray.kill(seat)
        self._leave()

    def _leave(self) -> None:
        if self._connected:
            self._ray.shutdown()
        self._quiet.close()


def connect(place: Place) -> tuple[Any, bool]:
    """The module ``ray``, connected, and whether this call connected it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import ray
            import ray.exceptions
        except ImportError:
            raise MissingDeviceError("Ray is not installed, and --on ray needs it", INSTALL) from None
        if ray.is_initialized() and not place.address:
            return ray, False
        _check_reachable(place)
        try:
            _init(ray, f"ray://{place.address}" if place.address else os.environ.get("RAY_ADDRESS") or "auto")
        except ImportError as error:  # the client's own requirements
            raise MissingDeviceError(f"Ray's client cannot be used: {_first_line(error)}", INSTALL) from None
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise _no_cluster(place, error) from None
    return ray, True


def _init(ray: Any, address: str) -> None:
    """Connect. A busy head starts a process for each client, and gives up where that takes over 30 s: ask again."""
    for attempt in range(1, _MOST_CONNECTIONS + 1):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="CRITICAL", namespace="gemmsmith")
        except ConnectionError as error:
            if attempt == _MOST_CONNECTIONS or _GAVE_UP not in str(error):
                raise
            ray.shutdown()
        else:
            return


def _no_cluster(place: Place, error: BaseException) -> ClusterError:
    if place.address:
        return ClusterError(f"no Ray cluster answers at ray://{place.address}: {_first_line(error)}",
                            "its port for clients is 10001 unless ray start was told another; a head that is busy "
                            "may need a second try")  # fmt: skip
    named = os.environ.get("RAY_ADDRESS")
    what = f"no Ray cluster answers at RAY_ADDRESS={named}" if named else "no Ray cluster runs on this machine"
    return ClusterError(f"{what} ({type(error).__name__})",
                        "ray start --head begins one; --on ray://host:10001 names one elsewhere")  # fmt: skip


def _check_reachable(place: Place) -> None:
    if not place.address:
        return
    host, _, port = place.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ClusterError(f"nothing answers at ray://{place.address}: {error.strerror or error}",
                           "is the head node running, and its port for clients (10001) open?") from None  # fmt: skip


def _kind(ray: Any, wanted: str, place: Place) -> str:
    """The kind of GPU that tasks ask Ray for; refused where the cluster has none."""
    if wanted == CPU:
        return CPU
    resources = ray.cluster_resources()
    kinds = sorted(str(name).removeprefix(_KIND) for name in resources if name.startswith(_KIND))
    if resources.get("GPU", 0) < 1:
        raise MissingDeviceError(f"the cluster of --on {place} has no GPU",
                                 "a node with one joins by ray start --address=HEAD:6379")  # fmt: skip
    if wanted == ANY_GPU:
        if len(kinds) > 1:
            raise UsageError(f"the cluster has GPUs of several kinds: {', '.join(kinds)}",
                             f"name one: --gpu-kind {kinds[0]}")  # fmt: skip
        return kinds[0] if kinds else ANY_GPU
    for kind in kinds:
        if kind.lower() == wanted.lower():
            return kind
    raise MissingDeviceError(f"the cluster has no GPU of kind {wanted}",
                             f"it has {', '.join(kinds) or 'GPUs of a kind that Ray does not know'}")  # fmt: skip


def has_gpu(place: Place) -> bool:
    """Whether the cluster has a GPU."""
    ray, connected = connect(place)
    try:
        return bool(ray.cluster_resources().get("GPU", 0) >= 1)
    finally:
        if connected:
            ray.shutdown()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _reason(error: BaseException) -> str:
    """The last line of a remote traceback, which names the exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Error:" in line and not line.startswith("ray.")]
    return (named or lines or [type(error).__name__])[-1][:200]
