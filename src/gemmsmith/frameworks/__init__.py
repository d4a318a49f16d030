"""torch, JAX, CuPy and NumPy: each library's conventions, over the products of ``call``."""

from __future__ import annotations

from importlib.util import find_spec

from gemmsmith.errors import MissingDeviceError


def needed(library: str) -> None:
    """Raise with the way to install it unless ``library`` is installed."""
    if find_spec(library) is None:
        raise MissingDeviceError(f"{library} is not installed", f"pip install 'gemmsmith[{library}]'")
