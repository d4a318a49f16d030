"""Rung 19: clusters and multicast."""

from __future__ import annotations

from gemmsmith.ladder.families import hopper, hopper_store
from gemmsmith.ladder.rung import preset

SPEC = hopper.rung(
    __name__,
    summary="blocks on neighbouring SMs load each k-tile once, for all of them",
    teaches="clusters and multicast: data that is not moved costs no energy, and energy sets the clock",
    parameters=(
        *hopper.block_tile(128, 256),
        hopper.stages(4),
        hopper.consumers(2),
        *hopper.clusters(2, 1),
        hopper.GROUP,
        *hopper_store.STORE,
        hopper_store.TAIL_BN,
    ),
    presets=(
        preset("128x256-2x1"),
        preset("256x192-1x2", BM=256, BN=192, STAGES=3, CLUSTER_M=1, CLUSTER_N=2),
    ),
    small={"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2},
    # If some tiles may have TAIL_BN columns, as many blocks as if all had.
    grid=hopper.cluster_grid("(TAIL_BN if TAIL_BN else BN)"),
    cluster=hopper.CLUSTER_BLOCKS,
    smem=f"{hopper.K_TILES}+{hopper_store.TAIL_BARRIERS}+{hopper_store.STAGED}",
    constraints=(
        hopper.ROWS_PER_CONSUMER,
        hopper.WITH_SETMAXNREG,
        *hopper.CLUSTER_FITS,
        hopper_store.BOXES_DIVIDE,
        *hopper_store.TAIL_FITS,
    ),
    tensor_maps=hopper_store.maps_with_c,
    specialize=hopper_store.specialize_store,
    persistent=True,
)
