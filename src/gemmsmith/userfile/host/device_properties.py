"""Properties of the device that host code asks the driver for."""

from __future__ import annotations

import re

ASSUMED_SMS = 8  # a persistent kernel takes any number; few are fast to simulate
SMS = "multiProcessorCount"
_PROPERTIES = {
    SMS: ASSUMED_SMS, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048,
    "sharedMemPerBlock": 49_152, "sharedMemPerBlockOptin": 232_448, "sharedMemPerMultiprocessor": 233_472,
}  # fmt: skip
# What a launcher calls the number of SMs that its caller passes it, and the number of blocks for them.
_COUNT = re.compile(r"(?:n|num|number_?of|total|device|gpu)_?sms?|sms|sms?_?(?:count|num|total)"
                  r"|(?:(?:n|num|number_?of)_?)?multi_?processors?(?:_?count)?", re.I)  # fmt: skip
_BLOCKS = re.compile(r"(?:(?:n|num|number_?of)_?)?(?:workers|ctas|blocks)(?:_?count)?", re.I)


def is_of_device(name: str) -> bool:
    """Whether it is a property of the device, by its own name or one that launchers give it."""
    return name.rsplit(".", 1)[-1] in _PROPERTIES or _COUNT.fullmatch(name) is not None


def is_number_of_blocks(name: str) -> bool:
    """Whether a launcher's parameter with this name is a number of blocks that its caller chooses."""
    return _BLOCKS.fullmatch(name) is not None


def device_property(name: str) -> tuple[str, int] | None:
    """The property that a name stands for, and its value; None for other names."""
    last = SMS if _COUNT.fullmatch(name) or _BLOCKS.fullmatch(name) else name.rsplit(".", 1)[-1]
    return None if last not in _PROPERTIES or ("." not in name and last != SMS) else (last, _PROPERTIES[last])
