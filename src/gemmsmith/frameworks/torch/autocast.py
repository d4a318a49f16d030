"""autocast: the operators compute in the region's type, as torch's products do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_KEYS = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}


def register(library: torch.library.Library, names: tuple[str, ...]) -> None:
    for device, key in _KEYS.items():
        for name in names:
            library.impl(name, _rule(name, device, key), key)


def _rule(name: str, device: str, key: str) -> Callable[..., Any]:
    here = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def cast_and_call(*arguments: Any, **named: Any) -> Any:
        operator = getattr(torch.ops.gemmsmith, name).default
        with torch._C._ExcludeDispatchKeyGuard(here):
            kind = torch.get_autocast_dtype(device)
            cast = [_cast(each, device, kind) for each in arguments]
            return operator(*cast, **{key: _cast(value, device, kind) for key, value in named.items()})

    return cast_and_call


def cast(value: Any) -> Any:
    """An operand in the type of the autocast region around the call, if there is one for its device."""
    if not isinstance(value, torch.Tensor) or not torch.is_autocast_enabled(value.device.type):
        return value
    return _cast(value, value.device.type, torch.get_autocast_dtype(value.device.type))


def _cast(value: Any, device: str, kind: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.device.type != device:
        return value
    return value if value.dtype in (kind, torch.float64) else value.to(kind)
