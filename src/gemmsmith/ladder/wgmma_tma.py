"""Rung 16: TMA and wgmma."""

from __future__ import annotations

from gemmsmith.kernel.constraints import Requires
from gemmsmith.ladder.families import hopper
from gemmsmith.ladder.families.hopper_maps import operand_maps
from gemmsmith.ladder.rung import preset

SPEC = hopper.rung(
    __name__,
    summary="k-tiles loaded by TMA, multiplied by wgmma straight from shared memory",
    teaches="Hopper: one thread asks for a k-tile, 128 multiply it, and none computes addresses",
    parameters=(*hopper.block_tile(128, 256), hopper.stages(4)),
    presets=(preset("128x256"),),
    small={"BM": 64, "BN": 64, "STAGES": 2},
    threads="128*(BM/64)",  # a warpgroup for each 64 rows
    constraints=(
        Requires(
            "BN/2 <= (96 if BM == 256 else 128)",
            "{BN/2} accumulators per thread, but with {:BM/64} warpgroups {:(96 if BM == 256 else 128)} fit into "
            "registers",
        ),
    ),
    tensor_maps=operand_maps,
)
