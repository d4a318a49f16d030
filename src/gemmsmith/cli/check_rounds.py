"""How many rounds the loop over K of a launch has: enough that a pipeline uses each of its stages again."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.code.kernel_edges import k_tile
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.check_shapes import CheckShapes, work_of

_ROUNDS = 3  # of the loop over K
_STAGED_ROUNDS = 6  # of a pipeline whose depth is not known
_HANDED_OVER = re.compile(r"\bmbarrier\.(?:try|test)_wait|\b(?:bar|barrier)(?:\.cta)?\.arrive\b")
_WAITS = re.compile(r"\bcp\.async\.(?:bulk\.)?wait_group\S*\s+(\d+)\s*;")
_MOST_ROUNDS_WORK = 2**22  # multiply-adds
_MOST_BLOCKS = 256  # of such a launch: more take too long


def with_rounds(
    spec: KernelSpec, config: Config, compiled: CompiledKernel, shapes: CheckShapes, base: Problem
) -> tuple[CheckShapes, Problem]:
    """With a K of several k-tiles: one alone shows no race between a round and the next, and a pipeline uses a stage
    again only after it has filled all of them."""
    if spec.signature.fixed or spec.signature.square or spec.signature.tied:
        return shapes, base
    depth = k_tile(spec, config, compiled, base)
    m, n, k = shapes.base
    if k < depth and not no_launch(spec, config, base.with_(k=depth)):  # a kernel for whole k-tiles has none to add up
        shapes, base = replace(shapes, base=(m, n, depth)), base.with_(k=depth)
    wanted = rounds_of(compiled.ptx)
    deeper = base.with_(k=wanted * depth)
    is_enough = base.k > depth and (wanted == _ROUNDS or base.k >= deeper.k)
    if is_enough or work_of(deeper) > _MOST_ROUNDS_WORK or no_launch(spec, config, deeper):
        return shapes, base
    if spec.geometry(deeper, config).blocks > _MOST_BLOCKS:
        return shapes, base
    return replace(shapes, base=(m, n, deeper.k)), deeper


def rounds_of(ptx: str) -> int:
    """Rounds of the loop over K in which every stage of a pipeline is used again: as many copies as may be in flight,
    and two more rounds; of barriers between producers and consumers, which do not tell, a usual number."""
    waits = [int(count) for count in _WAITS.findall(ptx)]
    if waits:
        return max(_ROUNDS, max(waits) + 4)
    return _STAGED_ROUNDS if _HANDED_OVER.search(ptx) else _ROUNDS
