"""Record when warps do what in the k-tiles of two rungs, with one to three blocks on an SM; and what the model says.

    python benchmarks/record_tile_steps.py measure OUTPUT.jsonl      a GPU
    python benchmarks/record_tile_steps.py predict OUTPUT.jsonl      no GPU; the same variants by the time model
    python benchmarks/record_tile_steps.py launch NUMBER | RUNG:MxNxK ...   three launches of each: for ncu

micro/tile_steps.cu has the kernel and its variants. Of each: ``step``, cycles of a k-tile; its parts in the mean of
all warps (``fetch``: loads and stores, ``first``: barrier, ``products``, ``last``: barrier); ``spread``: cycles between
the first and the last warp of a block that end their products; ``phase``: where the next block of the SM begins its
k-tile, as a share of the step; ``ends``: cycles from the start of the SM's first block to the end of each block;
``fetches``: percentiles of ``fetch``; ``one``: all reads of the clock for six k-tiles of one SM.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).parent / "micro" / "tile_steps.cu"
SMS = 132
TILE = {1: (128, 8, 8, 2), 0: (64, 64, 4, 3)}  # by WIDE: rows and columns, depth, warps, most blocks on an SM
_SKIPPED = 4  # k-tiles at either end that are not counted
_PARTS = {"alone": {"FETCHES": 0, "STORES": 0, "BARRIERS": 0}, "barriers": {"FETCHES": 0, "STORES": 0},
          "stores": {"FETCHES": 0}, "all": {}}  # fmt: skip
_DELAYS = (0, 100, 200, 400)


def variants() -> list[tuple[dict[str, int], int, int]]:
    """Defines, blocks on an SM, and K; 0 blocks: 4096 x 4096 outputs, several rounds of as many blocks as fit."""
    made = []
    for wide, (_, depth, _, most) in TILE.items():
        k = 128 * depth if wide else 32 * depth
        for part in _PARTS.values():
            made += [({"WIDE": wide, **part}, each, k) for each in range(1, most + 1)]
        made += [({"WIDE": wide, "DELAY": delay}, 2, k) for delay in _DELAYS[1:]]
        made += [({"WIDE": wide, "PANELS": 0}, each, k) for each in (*range(1, most + 1), 0)]
    return made


def kernel_of(defines: dict[str, int], each: int, k: int) -> tuple[Any, Any, Any]:
    """The kernel and its product, so that every SM has ``each`` blocks and no more."""
    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel

    side = TILE[defines["WIDE"]][0]
    spec, config = find_kernel(
        str(SOURCE), KernelOptions(define=[f"{name}={value}" for name, value in defines.items()])
    )
    return spec, config, spec.problem(*((11 * side * each, 12 * side) if each else (4096, 4096)), k)


def figures(times: NDArray[np.int64]) -> dict[str, Any]:
    """Of the blocks of one SM: times[block, warp, k-tile, 4 reads of the clock]."""
    kept = times[:, :, _SKIPPED:-_SKIPPED]
    begin, stored, entered, ended = (kept[..., n] for n in range(4))
    step = np.diff(begin, axis=2).mean()
    starts = begin.min(axis=1)  # of each block's k-tiles
    phases = []
    for one, other in pairwise(starts):
        apart = other[None, :] - one[2:-2, None]
        phases.append(float(np.median(np.where(apart >= 0, apart, 1 << 40).min(axis=1) / step)))
    return {
        "step": float(step), "fetch": float((stored - begin).mean()), "first": float((entered - stored).mean()),
        "products": float((ended - entered).mean()), "last": float((begin[:, :, 1:] - ended[:, :, :-1]).mean()),
        "spread": float((ended.max(axis=1) - ended.min(axis=1)).mean()), "phase": phases,
        "ends": [int(n) for n in times.max(axis=(1, 2, 3)) - times.min()],
        "fetches": np.percentile(stored - begin, (5, 25, 50, 75, 95)).tolist(),
    }  # fmt: skip


def averaged(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all SMs that hold as many blocks as most do."""
    most = max(len(one["ends"]) for one in found)
    mine = [one for one in found if len(one["ends"]) == most]
    return {
        "sms": len(mine),
        **{name: np.round(np.mean([one[name] for one in mine], axis=0), 2).tolist() for name in mine[0]},
    }


def launched(spec: Any, config: Any, problem: Any) -> NDArray[np.uint32]:
    """Three launches on the same operands; C."""
    from gemmsmith.bench.kernel_contender import KernelContender
    from gemmsmith.bench.rig import cuda_rig
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.run.contender import OperandSet
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    with cuda_rig(device) as rig, device.current():
        sizes = [4 * problem.m * problem.k, 4 * problem.k * problem.n, 4 * problem.m * problem.n]
        places = [device.allocate(nbytes) for nbytes in sizes]
        for place, nbytes in zip(places, sizes, strict=True):
            device.write(place, np.random.default_rng(0).standard_normal(nbytes // 4, np.float32).view(np.uint8))
        contender = KernelContender(spec, config, device, compile_for)
        enqueue = contender.prepare(problem, [OperandSet(*places)], rig.stopwatch.stream)
        for _ in range(3):
            enqueue(0)
        rig.stopwatch.synchronize()
        words = device.read(places[2], sizes[2]).view(np.uint32)
        contender.close()
        for place in places:
            device.free(place)
    return words


def measured(defines: dict[str, int], each: int, k: int) -> dict[str, Any]:
    spec, config, problem = kernel_of(defines | {"WHERE": 1}, each, k)
    side, depth, warps, _ = TILE[defines["WIDE"]]
    words = launched(spec, config, problem).reshape(-1, side * side)
    sm_of = words[:, -1].astype(int)
    stamps = words[:, : warps * (k // depth) * 4].astype(np.int64).reshape(len(words), warps, k // depth, 4)
    found, first = [], None
    for sm in np.unique(sm_of):
        mine = stamps[sm_of == sm]
        mine = (mine - mine[0, 0, 0, 0]).astype(np.uint32).view(np.int32).astype(np.int64)  # the clock may wrap
        mine = mine[np.argsort(mine[:, :, 0, 0].min(axis=1))]
        found += [figures(one) for one in (np.split(mine, len(mine)) if not each else [mine - mine.min()])]
        first = mine - mine.min() if first is None else first
    assert first is not None
    return {**averaged(found), "one": first[:3, :, 8:14].tolist()}


def predicted(defines: dict[str, int], each: int, k: int) -> dict[str, Any]:
    from gemmsmith.explain.timing.predict import Predictor
    from gemmsmith.explain.timing.sample_runs import NO_CHANGES
    from gemmsmith.gpus import gpu_named
    from gemmsmith.sim.timing.watched import WatchedSm

    spec, config, problem = kernel_of(defines, each, k)
    predictor = Predictor(spec, config, problem, gpu_named("H200"))
    each = each or predictor.resident
    sample = predictor.subject.sample(predictor._short(k), predictor.chosen)
    model = predictor.rates.sm(each, sample.apart)
    memory = predictor._memory(each, False, NO_CHANGES, sample.workspace)
    sm = WatchedSm(predictor._rows(model), sample.streams, model, memory, sample.sm_of)
    sm.run()
    clock = {n for n, i in enumerate(predictor.program.instructions) if "SR_CLOCKLO" in str(i)}
    reads: dict[int, list[float]] = {}
    for issued in sm.log:
        if issued.row.position in clock:
            reads.setdefault(issued.warp, []).append(issued.at)
    warps = TILE[defines["WIDE"]][2]
    times = np.array([reads[w] for w in range(len(sample.streams))]).astype(np.int64).reshape(each, warps, -1, 4)
    return {**figures(times), "compiler": predictor.subject.compiled.compiler, "one": times[:, :, 8:14].tolist()}


def _rung(text: str) -> tuple[Any, Any, Any]:
    from gemmsmith.cli.options.kernel import find_kernel

    name, shape = text.split(":")
    spec, config = find_kernel(name)
    return spec, config, spec.problem(*map(int, shape.split("x")))


def main() -> int:
    what, given = sys.argv[1], sys.argv[2]
    chosen = variants()
    if what == "launch":
        for item in sys.argv[2:]:
            launched(*(kernel_of(*chosen[int(item)]) if item.isdigit() else _rung(item)))
        return 0
    made = measured if what == "measure" else predicted
    only = {int(n) for n in sys.argv[3].split(",")} if len(sys.argv) > 3 else range(len(chosen))
    with Path(given).open("a", encoding="utf-8") as file:
        for number, (defines, each, k) in enumerate(chosen):
            if number not in only:
                continue
            try:
                row = made(defines, each, k)
            except Exception as error:
                row = {"error": f"{type(error).__name__}: {error}"[:300]}
            file.write(json.dumps({"number": number, "defines": defines, "blocks": each, "k": k, **row}) + "\n")
            file.flush()
            shown = {name: value for name, value in row.items() if name != "one"}
            print(number, defines, each, shown, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
