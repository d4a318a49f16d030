"""Calls of NVIDIA's driver bindings, which are loaded when a GPU is asked for: the package works without a driver."""

from __future__ import annotations

from typing import Any

from gemmsmith.errors import LaunchError, MissingDeviceError


def driver_bindings() -> Any:
    """The module of the driver's functions."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise MissingDeviceError(f"cuda.bindings cannot be imported: {error}", "pip install cuda-bindings") from None
    return driver


def checked(result: tuple[Any, ...], what: str) -> Any:
    """The values that a driver call returned; raises if it failed, with ``what`` was attempted."""
    status, *values = result
    if int(status) != 0:
        driver = driver_bindings()
        name = driver.cuGetErrorName(status)[1]
        text = driver.cuGetErrorString(status)[1]
        raise LaunchError(f"{what} failed: {text_of(name)}: {text_of(text)}")
    return values[0] if len(values) == 1 else tuple(values)


def text_of(value: Any) -> str:
    """A C string as text."""
    return (value.decode() if isinstance(value, bytes) else str(value)).split("\0")[0]
