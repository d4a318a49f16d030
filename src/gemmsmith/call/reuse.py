"""The first call of a shape: run a kernel that is there already instead of waiting for the compiler, if that is asked.

GEMMSMITH_FIRST_CALL=reuse: where the best kernel is neither loaded nor in a cache, one that this process has loaded is
used, if it is predicted to be nearly as fast and adds in the same order, so that the result has the same bits. The more
kernels a process has compiled, the slower a substitute may be: forty new shapes then need about ten kernels. The
default, 'wait', compiles the best one. ``gemmsmith warm`` compiles ahead, which makes both the same.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from gemmsmith.call.binding import specialized_config
from gemmsmith.call.cache import CACHE
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import Choice
from gemmsmith.choose.models import hopper_model
from gemmsmith.compile.compiler import is_compiled
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.prologue.build import build_prologue
from gemmsmith.run.cuda import CudaDevice

ENVIRONMENT = "GEMMSMITH_FIRST_CALL"
_MODES = ("wait", "reuse")
# Kernels compiled so far, and how much slower than the best a substitute may be predicted to be. In a trial over 40
# shapes of public models these needed 10 kernels instead of 21, at 1.06 of the predicted time in the mean.
_TOLERANCES = ((5, 1.08), (8, 1.2), (1 << 30, 2.0))
Kind = tuple[object, ...]


@dataclass
class LoadedKernels:
    """Kernels of a process on one GPU: configurations as chosen, each with those it was specialized to."""

    compiled: int = 0
    configs: dict[Kind, set[Config]] = field(default_factory=dict)


def wanted() -> bool:
    """Whether first calls reuse kernels."""
    asked = os.environ.get(ENVIRONMENT, "wait")
    if asked not in _MODES:
        raise UsageError(f"{ENVIRONMENT}={asked}", f"use one of {', '.join(_MODES)}")
    return asked == "reuse"


def settled(choice: Choice, problem: Problem, device: CudaDevice, addresses: Addresses, deterministic: bool) -> Choice:
    """The choice, or a loaded kernel in its place; what is returned counts as loaded."""
    model = hopper_model(device.name, device.sms, device.arch)
    if choice.source != "model" or model is None or not choice.spec.arch_specific:
        return choice
    known = _loaded(device)
    special = specialized_config(choice.spec, choice.config, problem, addresses)
    if special in known.configs.get(_kind(choice.spec, choice.config, problem), ()):
        return choice
    seen = build_prologue(choice.spec, choice.config, problem, addresses).problem
    if not is_compiled(choice.spec, special, seen, device.arch):
        tolerance = next(most for count, most in _TOLERANCES if known.compiled < count)
        places = (addresses.a, addresses.b, addresses.c)
        near = ranked(problem, *model, within=tolerance, addresses=places, deterministic=deterministic)
        found = _substitute(near, choice, problem, addresses, known)
        if found is not None:
            return Choice(found.spec, found.config, "model")
        known.compiled += 1
    known.configs.setdefault(_kind(choice.spec, choice.config, problem), set()).add(special)
    return choice


def _substitute(candidates: list[Candidate], choice: Choice, problem: Problem, addresses: Addresses,
                known: LoadedKernels) -> Candidate | None:  # fmt: skip
    order = summation(choice.spec, choice.config)
    for each in candidates:
        loaded = known.configs.get(_kind(each.spec, each.config, problem))
        if not loaded or summation(each.spec, each.config) != order:
            continue
        if specialized_config(each.spec, each.config, problem, addresses) in loaded:
            return each
    return None


def summation(_spec: KernelSpec, config: Config) -> tuple[int, ...]:
    """What the order of additions depends on: without split-K, every tile adds along K in one accumulator."""
    values = dict(config)
    split = values.get("SPLIT", 1)
    return (1,) if split == 1 else (split, values.get("DEPTH", 1), values.get("CLUSTERS", 1))


def _kind(spec: KernelSpec, config: Config, problem: Problem) -> Kind:
    return (spec.name, config, problem.dtype.name, problem.out_dtype.name, problem.layout, problem.bias,
            problem.activation)  # fmt: skip


def _loaded(device: CudaDevice) -> LoadedKernels:
    key = ("loaded kernels", device)
    found: LoadedKernels | None = CACHE.get(key)
    if found is None:
        found = LoadedKernels()
        CACHE.put(key, found)
    return found
