"""Rung 21: Stream-K."""

from __future__ import annotations

from gemmsmith.gpus import architecture
from gemmsmith.kernel.spec import Workspace
from gemmsmith.ladder.families import hopper, hopper_store
from gemmsmith.ladder.rung import preset
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

_MOST_BLOCKS = architecture(90).chip_sms  # one block per SM
_LARGEST_TILE = 256 * 208

SPEC = hopper.rung(
    __name__,
    summary="Stream-K: the last wave's tiles are divided along K",
    teaches="equal work for all SMs, at the cost of partial sums through global memory",
    made_for=((3072, 2304, 4096), (4608, 2304, 8192), (8448, 2048, 4096)),
    parameters=(
        *hopper.block_tile(256, 192),
        hopper.stages(3),
        hopper.consumers(2),
        *hopper.clusters(1, 2),
        hopper.GROUP,
        *hopper_store.STORE,
    ),
    presets=(preset("256x192-1x2"),),
    small={"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2},
    grid=f"{hopper.cluster_grid()}*max(1, ceil(K/64))",  # a piece of work is as little as a k-tile
    cluster=hopper.CLUSTER_BLOCKS,
    resident="1",
    smem=f"{hopper.K_TILES}+{hopper_store.STAGED}",
    constraints=(
        hopper.ROWS_PER_CONSUMER,
        hopper.WITH_SETMAXNREG,
        *hopper.CLUSTER_FITS,
        hopper_store.BOXES_DIVIDE,
    ),
    tensor_maps=hopper_store.maps_with_c,
    specialize=hopper_store.specialize_store,
    persistent=True,
    workspace=lambda _problem, _config: Workspace(FLAG_BYTES + _MOST_BLOCKS * 4 * _LARGEST_TILE, FLAG_BYTES),
)
