"""A Hopper GPU in name only: what binding asks of one."""

from __future__ import annotations

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.run.tensor_map import check_tensor_map, encode_simulated


class Hopper:
    """A GPU that takes any launch and keeps the maps readable."""

    kind, name, arch = "gpu", "fake", "sm_90"

    def load(self, compiled: CompiledKernel) -> CompiledKernel:
        return compiled

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        return encode_simulated(described, address)

    def blocks_at_once(self, _loaded: object, geometry: Geometry) -> int:
        cluster = geometry.cluster[0]
        return 132 // cluster * cluster
