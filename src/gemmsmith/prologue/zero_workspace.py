"""The launch that sets the beginning of a workspace to 0. It is not a product, so its parameter is packed here."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, Problem

FLAG_BYTES = 4096  # at the beginning of every workspace whose kernel has flags
_THREADS = FLAG_BYTES // 16


def zero_workspace_launch(workspace: int, nbytes: int = FLAG_BYTES) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that set ``nbytes``, a multiple of 4096, at the beginning of ``workspace`` to 0."""
    return Geometry((nbytes // FLAG_BYTES, 1, 1), (_THREADS, 1, 1), pdl=True), (pack("<Q", workspace),)


def _geometry(_problem: Problem, _config: Config) -> Geometry:
    return zero_workspace_launch(0)[0]


ZERO_WORKSPACE = KernelSpec(
    name="zero_workspace",
    source=Path(__file__).with_name("zero_workspace.cu"),
    summary="sets the beginning of a workspace to 0",
    teaches="",
    geometry=_geometry,
    entry="zero_workspace",
    dtypes=(FP16, BF16),
    out_dtypes=(FP16, BF16),
    extra_defines=(("THREADS", str(_THREADS)),),
)
