"""The ladder as a whole: all rungs in order, and one by its name."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module

from gemmsmith.errors import UnknownKernelError, UnsupportedError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.rung import sources
from gemmsmith.problem import Problem


@cache
def rungs() -> tuple[KernelSpec, ...]:
    """Every rung, from the bottom of the ladder to the top: each ``NN_name.cu`` here, described by ``name.py``."""
    return tuple(_spec_of(name) for name in sources())


def _spec_of(name: str) -> KernelSpec:
    try:
        found = import_module(f"gemmsmith.ladder.{name}").SPEC
    except ModuleNotFoundError as error:
        if error.name != f"gemmsmith.ladder.{name}":
            raise
        raise UnknownKernelError(f"{sources()[name].name} has no specification", f"add {name}.py beside it") from None
    if not isinstance(found, KernelSpec) or found.name != name:
        raise UnknownKernelError(f"SPEC in {name}.py is not the specification of {name}", "make it with __name__")
    return found


@cache
def simulated_rungs() -> tuple[KernelSpec, ...]:
    """The rungs that run without a GPU."""
    return tuple(spec for spec in rungs() if spec.simulated)


def rungs_for(arch: int) -> tuple[KernelSpec, ...]:
    """The rungs that compile for an architecture: 90 is sm_90. Hopper's compile for that alone."""
    return tuple(spec for spec in rungs() if spec.min_arch <= arch and spec.arch_specific in (0, arch))


def simulated_alternative(problem: Problem) -> str:
    """The name of the highest rung that the simulator runs, and any GPU, for ``problem``; empty if there is none."""
    return next((s.name for s in reversed(simulated_rungs()) if not s.arch_specific and s.takes(problem)), "")


def rung_named(name: str) -> KernelSpec:
    """The rung called ``name``, or an error that suggests the nearest name and lists them all."""
    known = {spec.name: spec for spec in rungs()}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UnknownKernelError(f"there is no rung called {name!r}", f"{suggestion}the rungs: {', '.join(known)}")


LARGEST_BATCH = cuda_limits().grid_yz  # a batch lies along gridDim.z


def check_accepts(spec: KernelSpec, problem: Problem) -> None:
    """Raise unless ``spec`` computes ``problem``; says what it takes and which rungs take the problem."""
    if refusal := spec.refusal(problem):
        raise UnsupportedError(refusal, _rungs_that_take(problem) if spec.known_signature is None else "")
    if problem.batch > LARGEST_BATCH:
        raise UnsupportedError(
            f"a launch takes {LARGEST_BATCH:,} products at most, not {problem.batch:,}", "split the batch"
        )


def _rungs_that_take(problem: Problem) -> str:
    """Which rungs take what another kernel refused."""
    names = [spec.name for spec in rungs() if spec.takes(problem)]
    if names:
        return f"use {' or '.join(names[:4])}"
    plain = problem.with_(trans_a=False, trans_b=False)
    able = any(spec.takes(plain) for spec in rungs())
    return "make the operands contiguous row-major first" if able else "no rung takes this"
