"""Variables of a kernel's module, ``__constant__`` and ``__device__``, set before a launch and read after it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arrays import host_array, is_array
from gemmsmith.call.any_kernel.declaration import demangle
from gemmsmith.call.any_kernel.kernel import LaunchKernel
from gemmsmith.errors import DTypeError, UnknownKernelError, UsageError
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.device import Bytes
from gemmsmith.sim.device import SimDevice

_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:const|global)\s+(?:\.attribute\s*\([^)]*\)\s*)?"
    r"(?:\.align\s+\d+\s+)?\.\w+\s+(?P<name>[\w$]+)\s*(?:\[\d*\]\s*)*[=;]",
    re.M,
)


@dataclass(frozen=True)
class Symbol:
    """A variable and what it is set to: ``name`` is the caller's, ``mangled`` the compiled code's."""

    name: str
    mangled: str
    values: NDArray[Any]

    @property
    def data(self) -> Bytes:
        return np.ascontiguousarray(self.values).reshape(-1).view(np.uint8)


def match_symbols(kernel: LaunchKernel, given: Mapping[str, Any]) -> tuple[Symbol, ...]:
    """Each variable with the name that the compiled code has for it; raises for one that the kernel does not use."""
    if not given:
        return ()
    known = {demangle(name): name for name in _VARIABLE.findall(kernel.compiled.ptx) if not name.startswith("$")}
    made = []
    for name, value in given.items():
        found = [mangled for shown, mangled in known.items() if f"::{shown}".endswith(f"::{name}")]
        if len(found) != 1:
            near = get_close_matches(name, list(known), 1, 0.5)
            raise UnknownKernelError(
                f"{kernel.name} uses no variable called {name!r}",
                f"{f'did you mean {near[0]}? ' if near else ''}it uses {', '.join(known) or 'none'}",
            )
        values = host_array(name, value).values if is_array(value) else np.asarray(value)
        if values.dtype.hasobject:
            raise DTypeError(f"the variable {name} cannot hold a {type(value).__name__}", "pass an array of numbers")
        made.append(Symbol(name, found[0], values))
    return tuple(made)


def set_symbols(device: SimDevice | CudaDevice, loaded: Any, symbols: tuple[Symbol, ...]) -> None:
    """Write the variables of a loaded kernel."""
    for symbol in symbols:
        address, size = device.symbol(loaded, symbol.mangled)
        if symbol.data.nbytes > size:
            raise UsageError(f"the variable {symbol.name} has {size} bytes, and {symbol.data.nbytes} were given",
                             f"{symbol.values.size} elements of {symbol.values.dtype}")  # fmt: skip
        device.write(address, symbol.data)
        device.label(address, symbol.name, max(1, symbol.values.dtype.itemsize))


def read_symbols(device: SimDevice | CudaDevice, loaded: Any, symbols: tuple[Symbol, ...]) -> dict[str, NDArray[Any]]:
    """What the variables hold after the launch."""
    found = {}
    for symbol in symbols:
        data = device.read(device.symbol(loaded, symbol.mangled)[0], symbol.data.nbytes)
        found[symbol.name] = data.view(symbol.values.dtype).reshape(symbol.values.shape)
    return found
