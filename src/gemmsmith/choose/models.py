"""What is known about a GPU: its cost model, the user's own tuning and the shipped table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from gemmsmith.choose import table as shipped
from gemmsmith.choose import tuning_file
from gemmsmith.choose.constants import Constants, with_memory_of
from gemmsmith.choose.cost_data import measured_gpu
from gemmsmith.choose.key import ShapeKey
from gemmsmith.choose.table import Entry, Table
from gemmsmith.choose.waves import Chip, chip_of
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpu_named, gpu_of_device, product_of_device

HOPPER = 90
TYPICAL_HOPPER = "H100"  # taken for a GPU of compute capability 9.0 that is not in the table
Winners = Mapping[ShapeKey, Entry]


def known_gpu(name: str, sms: int = 0) -> GPU | None:
    """The GPU in the table that the driver calls ``name``; without ``sms``, whatever number of SMs it has."""
    return gpu_of_device(name, sms) if sms else product_of_device(name)


@cache
def hopper_model(gpu: str, sms: int, arch: str) -> tuple[Chip, Constants] | None:
    """What predictions for a GPU of compute capability 9.0 are made with; None for all others."""
    known = known_gpu(gpu, sms)
    if known is not None and known.arch == HOPPER:
        return chip_of(known, sms), constants_of(known)
    if arch == f"sm_{HOPPER}" and sms:
        like = gpu_named(TYPICAL_HOPPER)
        return chip_of(like, sms), constants_of(like)
    return None


@cache
def constants_of(gpu: GPU) -> Constants:
    """From that GPU's shipped table; else from the H200's, with this GPU's DRAM; else the estimates."""
    for table in _tables():
        if known_gpu(table.gpu) == gpu:
            return _corrected(table.model.constants, gpu)
    for table in _tables():
        if known_gpu(table.gpu) == measured_gpu():
            return with_memory_of(_corrected(table.model.constants, measured_gpu()), gpu)
    return with_memory_of(Constants(), gpu)


def tuned_shapes(gpu: str) -> Winners:
    """What the user tuned on this GPU."""
    return tuning_file.tuned(tuning_file.default_path(), gpu)


def shipped_shapes(gpu: str) -> Winners:
    """The shipped table of a GPU of the same kind."""
    kind = known_gpu(gpu)
    for table in _tables():
        if table.gpu == gpu or (kind is not None and known_gpu(table.gpu) == kind):
            return table.entries
    return {}


def forget_models() -> None:
    """Read tables and tuning file again."""
    for cached in (shipped.shipped_tables, shipped.shipped_trees, shipped.shipped_networks,
                   shipped.shipped_few_networks, tuning_file.tuned, hopper_model, constants_of):  # fmt: skip
        cached.cache_clear()


def _corrected(constants: Constants, gpu: GPU) -> Constants:
    """With the shipped trees and networks, where they were fitted with these constants."""
    try:
        trees = shipped.shipped_trees(gpu.name)
        networks, few = shipped.shipped_networks(gpu.name), shipped.shipped_few_networks(gpu.name)
    except (UsageError, OSError) as error:
        warnings.warn(f"the cost model is not corrected: {error}", RuntimeWarning, stacklevel=2)
        return constants
    return replace(
        constants,
        trees=trees[1] if trees is not None and trees[0] == constants else None,
        networks=networks[1] if networks is not None and networks[0] == constants else None,
        few_networks=few[1] if few is not None and few[0] == constants else None,
    )


def _tables() -> tuple[Table, ...]:
    try:
        return shipped.shipped_tables()
    except (UsageError, OSError) as error:
        warnings.warn(f"the shipped table is not used: {error}", RuntimeWarning, stacklevel=2)
        return ()
