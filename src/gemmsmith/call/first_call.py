"""The first calls of a shape: they do not wait for the compiler.

    the best kernel is loaded or in a cache ─► it runs
    else, first call                        ─► a stand-in runs: a loaded kernel, or one that compiles quickly
          second call                       ─► the same, while another process compiles the best
          third call                        ─► waits for the best

A stand-in adds in the same order (``summation``, ladder/stand_in), so that all these calls give the same bits.
Some calls wait at once: a plan, a call while a graph is captured, and all calls with GEMMSMITH_FIRST_CALL=wait.
``gemmsmith warm`` compiles ahead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gemmsmith.call.binding import specialized_config
from gemmsmith.call.cache import CACHE
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import STAND_IN, Choice
from gemmsmith.choose.cost_data import measured_gpu, wgmma_costs
from gemmsmith.choose.models import hopper_model
from gemmsmith.compile.compiler import compile_elsewhere, is_compiled
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.stand_in import stand_in
from gemmsmith.problem import FP32, Problem
from gemmsmith.prologue.build import build_prologue
from gemmsmith.run.cuda import CudaDevice

ENVIRONMENT = "GEMMSMITH_FIRST_CALL"
_MODES = (STAND_IN, "wait")
# Compiles in a quarter of a second, whatever its tile. wgmma_cluster takes up to four seconds, and under half a second
# with a small tile.
_QUICK = "wgmma_split_k"
_SMALL_TILE = 64 * 64
_PAIR = 2  # blocks of a cluster that any two neighbouring SMs hold
_CALLS = 2  # of a shape that may run a stand-in
# Up to this many kernels, a stand-in may be compiled where the loaded ones are much slower than the best.
_FEW, _NEAR, _FAR = 4, 1.3, 4.0
Kind = tuple[object, ...]


@dataclass
class FirstCalls:
    """Of a process on one GPU: kernels that it has loaded, and the calls of those that were not compiled then."""

    loaded: dict[Kind, tuple[KernelSpec, Config]] = field(default_factory=dict)
    calls: dict[tuple[Kind, Problem], int] = field(default_factory=dict)


def waits() -> bool:
    """Whether the user wants first calls to wait for the compiler."""
    asked = os.environ.get(ENVIRONMENT, _MODES[0])
    if asked not in _MODES:
        raise UsageError(f"{ENVIRONMENT}={asked}", f"use one of {', '.join(_MODES)}")
    return asked == "wait"


def runs_now(choice: Choice, problem: Problem, device: CudaDevice, addresses: Addresses, deterministic: bool,
             capturing: Callable[[], bool]) -> Choice:  # fmt: skip
    """The choice, or a stand-in for this call, whose source is 'stand-in'."""
    model = hopper_model(device.name, device.sms, device.arch)
    if model is None or not (choice.spec.arch_specific or problem.dtype == FP32):
        return choice
    known = _first_calls(device)
    special = specialized_config(choice.spec, choice.config, problem, addresses)
    kind = _kind(choice.spec, special, problem)
    if kind in known.loaded:
        return choice
    seen = build_prologue(choice.spec, choice.config, problem, addresses).problem
    if not is_compiled(choice.spec, special, seen, device.arch):
        count = known.calls[kind, problem] = known.calls.get((kind, problem), 0) + 1
        if count <= _CALLS and not capturing():
            slow = stand_in(choice.spec, choice.config, problem, _resident(choice, problem, device))
            candidates: list[Candidate] = []
            if problem.dtype != FP32 and (known.loaded or slow is None):
                candidates = ranked(problem, *model, within=_FAR, addresses=addresses[:3], deterministic=deterministic)
            found = _stand_in(candidates, choice, slow, problem, addresses, known)
            if found is not None:
                if count == _CALLS:
                    _compile_beside(choice.spec, special, seen, device.arch)
                return Choice(*found, STAND_IN)
        del known.calls[kind, problem]
    known.loaded[kind] = choice.spec, choice.config
    return choice


def _resident(choice: Choice, problem: Problem, device: CudaDevice) -> int:
    """How many blocks of a kernel run at the same time at least: large clusters do not fill the GPU."""
    large = choice.spec.geometry(problem, choice.config).cluster[0] > _PAIR
    return device.sms * wgmma_costs().sms_in_large_clusters // measured_gpu().sms if large else device.sms


def _stand_in(candidates: list[Candidate], choice: Choice, slow: KernelSpec | None, problem: Problem,
              addresses: Addresses, known: FirstCalls) -> tuple[KernelSpec, Config] | None:  # fmt: skip
    """A loaded kernel that is nearly as fast, or any loaded one after a few kernels; else ``slow``, of ladder/stand_in.
    Without one: a candidate that compiles quickly, unless the choice does so itself."""
    order = summation(choice.config)
    same = [each for each in candidates if summation(each.config) == order]
    loaded = {config for _, config in known.loaded.values()}
    there = (each for each in same if each.config in loaded)
    usable = next((each for each in there if _is_loaded(each, problem, addresses, known)), None)
    best = candidates[0].seconds if candidates else 0.0
    if usable is not None and (usable.seconds <= best * _NEAR or len(known.loaded) >= _FEW):
        return usable.spec, usable.config
    if slow is not None:
        return slow, slow.config()
    if not candidates:
        return None
    compiles_quickly = _is_quick(choice.spec, choice.config)
    quick = None if compiles_quickly else next((each for each in same if _is_quick(each.spec, each.config)), None)
    if quick is not None:
        special = specialized_config(quick.spec, quick.config, problem, addresses)
        known.loaded[_kind(quick.spec, special, problem)] = quick.spec, quick.config
    found = quick or (None if compiles_quickly else usable)
    return None if found is None else (found.spec, found.config)


def _is_quick(spec: KernelSpec, config: Config) -> bool:
    values = dict(config)
    return spec.name == _QUICK or (
        values.get("BM", _SMALL_TILE) * values.get("BN", _SMALL_TILE) <= _SMALL_TILE and not values.get("TAIL_BN")
    )


def _is_loaded(each: Candidate, problem: Problem, addresses: Addresses, known: FirstCalls) -> bool:
    return _kind(each.spec, specialized_config(each.spec, each.config, problem, addresses), problem) in known.loaded


def summation(config: Config) -> tuple[int, ...]:
    """What the order of additions depends on: unless K is split, every tile adds along K in one accumulator."""
    values = dict(config)
    split = tuple(values.get(name, 1) for name in ("SPLIT", "SLICES", "CLUSTERS", "CLUSTER_K"))
    return (1,) if set(split) == {1} else (*split, values.get("DEPTH", 1))


def _compile_beside(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> None:
    """Compile into the cache, in another process, while this one goes on."""

    def work() -> None:
        try:
            compile_elsewhere(spec, config, problem, arch)
        except (GemmsmithError, OSError):
            return  # the call that waits for this kernel compiles it again, and says what is wrong

    threading.Thread(target=work, name="gemmsmith compiler", daemon=True).start()


def _kind(spec: KernelSpec, config: Config, problem: Problem) -> Kind:
    return (spec.name, config, problem.dtype.name, problem.out_dtype.name, problem.layout, problem.bias,
            problem.activation)  # fmt: skip


def _first_calls(device: CudaDevice) -> FirstCalls:
    key = ("first calls", device)
    found: FirstCalls | None = CACHE.get(key)
    if found is None:
        found = FirstCalls()
        CACHE.put(key, found)
    return found
