"""Names that have changed, for data that was stored under the old ones.

Tuning files, tables, result databases, run files and saved sweeps are converted when they are read. On a command line
and in ``config={...}`` an old name is an error that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PARAMETERS: Mapping[str, str] = {
    "LOOSE": "UNALIGNED_OPERANDS",
    "NARROW": "TAIL_BN",
    "ORDERED": "DETERMINISTIC",
    "TURNED": "TRANSPOSED_COPY",
}
# One parameter became two. Its sign was the mode, 0 was direct, and its absolute value the number of boxes.
OLD_STORE, STORE_MODE, STORE_BOXES = "TMA_STORE", "STORE_MODE", "STORE_BOXES"
DIRECT, THREADS, TMA = 0, 1, 2
STORE_MODE_NAMES = ((DIRECT, "direct"), (THREADS, "threads"), (TMA, "tma"))

PRESETS: Mapping[tuple[str, str], str] = {("wgmma_split_k", "loose"): "unaligned"}

KERNELS: Mapping[str, str] = {
    "repack": "align_copy",
    "turn": "transpose",
    "clear": "zero_workspace",
    "bf16_parts": "split_bf16",
    "fp16_parts": "split_fp16",
    "fp16_parts_cluster": "split_fp16_cluster",
}


def current_values(values: Mapping[str, int]) -> dict[str, int]:
    """A stored configuration of a rung under the names of today, in its order."""
    return dict(pair for name, value in values.items() for pair in _current(name, value))


def current_text(config: str) -> str:
    """The same of a configuration as text: ``BM=128,LOOSE=1``. Other text is returned unchanged."""
    return ",".join(current for item in config.split(",") for current in _current_items(item))


def current_kernel(name: str) -> str:
    """The name of today of a kernel that is launched before others; other names are returned unchanged."""
    return KERNELS.get(name, name)


def replacement(name: str, value: object = None) -> str:
    """What to write in place of an old parameter: ``UNALIGNED_OPERANDS=1``; '' if the name is not an old one.

    Without a value, the name or names alone.
    """
    if name in PARAMETERS:
        return PARAMETERS[name] if value is None else f"{PARAMETERS[name]}={value}"
    if name != OLD_STORE:
        return ""
    if isinstance(value, int):
        mode, boxes = (number for _, number in _store(value))
        return f"{STORE_MODE}={dict(STORE_MODE_NAMES)[mode]},{STORE_BOXES}={boxes}"
    return f"{STORE_MODE} and {STORE_BOXES}"


def _current(name: str, value: int) -> tuple[tuple[str, int], ...]:
    return _store(value) if name == OLD_STORE else ((PARAMETERS.get(name, name), value),)


def _store(value: int) -> tuple[tuple[str, int], tuple[str, int]]:
    mode = DIRECT if value == 0 else TMA if value > 0 else THREADS
    return (STORE_MODE, mode), (STORE_BOXES, abs(value))


def _current_items(item: str) -> Iterator[str]:
    name, equals, value = item.partition("=")
    if name == OLD_STORE and value.removeprefix("-").isdecimal():
        yield from (f"{new}={number}" for new, number in _store(int(value)))
    else:
        yield PARAMETERS.get(name, name) + equals + value
