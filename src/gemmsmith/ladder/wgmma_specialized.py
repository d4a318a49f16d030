"""Rung 17: producer and consumer warpgroups."""

from __future__ import annotations

from gemmsmith.ladder.families import hopper
from gemmsmith.ladder.families.hopper_maps import operand_maps
from gemmsmith.ladder.rung import preset

SPEC = hopper.rung(
    __name__,
    summary="one producer warpgroup asks for k-tiles, consumer warpgroups multiply",
    teaches="warp specialization: producer and consumers meet at barriers only; registers go where they are needed",
    parameters=(*hopper.block_tile(128, 256), hopper.stages(4), hopper.consumers(2)),
    presets=(preset("128x256"),),
    small={"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1},
    constraints=(hopper.ROWS_PER_CONSUMER, hopper.WITH_SETMAXNREG),
    tensor_maps=operand_maps,
)
