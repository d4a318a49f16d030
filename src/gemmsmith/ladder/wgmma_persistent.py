"""Rung 18: persistent blocks that store through TMA."""

from __future__ import annotations

from gemmsmith.ladder.families import hopper, hopper_store
from gemmsmith.ladder.rung import preset

SPEC = hopper.rung(
    __name__,
    summary="one persistent block per SM loops over tiles, and TMA stores the outputs",
    teaches="the next tile's loads and the last tile's stores overlap with the multiplications",
    parameters=(
        *hopper.block_tile(128, 256),
        hopper.stages(4),
        hopper.consumers(2),
        hopper.GROUP,
        *hopper_store.STORE,
    ),
    presets=(preset("128x256"),),
    small={"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2},
    smem=f"{hopper.K_TILES}+{hopper_store.STAGED}",
    constraints=(hopper.ROWS_PER_CONSUMER, hopper.WITH_SETMAXNREG, hopper_store.BOXES_DIVIDE),
    tensor_maps=hopper_store.maps_with_c,
    specialize=hopper_store.specialize_store,
    persistent=True,
)
