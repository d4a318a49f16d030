"""Texture and surface objects of a GPU, through the driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.device import Bytes
from gemmsmith.run.driver_calls import checked, driver_bindings
from gemmsmith.run.texture import FORMATS, Sampling, Texels


class CudaTextures:
    """The CUDA arrays, texture objects and surface objects of one launch; ``free`` destroys them all."""

    def __init__(self, device: CudaDevice) -> None:
        self.device, self._cu = device, driver_bindings()
        self._textures: list[Any] = []
        self._surfaces: list[Any] = []
        self._arrays: list[Any] = []

    def array(self, texels: Texels, data: Bytes) -> Any:
        """A CUDA array with these bytes, x fastest."""
        cu, described = self._cu, self._cu.CUDA_ARRAY3D_DESCRIPTOR()
        described.Width, described.Height = texels.extent[0], texels.extent[1]
        described.Depth = texels.layers or texels.extent[2]
        described.Format, described.NumChannels = self._format(texels), texels.channels
        described.Flags = cu.CUDA_ARRAY3D_SURFACE_LDST
        if texels.layers:
            described.Flags |= cu.CUDA_ARRAY3D_LAYERED
        elif texels.dimensions == 2:
            described.Flags |= cu.CUDA_ARRAY3D_TEXTURE_GATHER
        with self.device.current():
            made = checked(cu.cuArray3DCreate(described), "making a CUDA array")
            self._arrays.append(made)
        self._copy(texels, made, np.ascontiguousarray(data), to_array=True)
        return made

    def read(self, texels: Texels, array: Any) -> Bytes:
        """The bytes of a CUDA array."""
        data = np.empty(texels.nbytes, np.uint8)
        self._copy(texels, array, data, to_array=False)
        return data

    def texture(self, texels: Texels, sampling: Sampling, memory: Any) -> int:
        """The handle of a texture; ``memory`` is a CUDA array, or the address of plain memory."""
        cu, how = self._cu, self._cu.CUDA_TEXTURE_DESC()
        how.addressMode = [
            getattr(cu.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{mode.upper()}") for mode in sampling.address
        ]
        how.filterMode = getattr(cu.CUfilter_mode, f"CU_TR_FILTER_MODE_{sampling.filter.upper()}")
        how.flags = cu.CU_TRSF_NORMALIZED_COORDINATES if sampling.normalized_coordinates else 0
        if texels.dtype.kind in "iu" and not sampling.normalized_values:
            how.flags |= cu.CU_TRSF_READ_AS_INTEGER
        how.borderColor = list(sampling.border)
        with self.device.current():
            made = checked(cu.cuTexObjectCreate(self._resource(texels, memory), how, None), "making a texture object")
        self._textures.append(made)
        return int(made)

    def surface(self, texels: Texels, array: Any) -> int:
        """The handle of a surface."""
        with self.device.current():
            made = checked(self._cu.cuSurfObjectCreate(self._resource(texels, array)), "making a surface object")
        self._surfaces.append(made)
        return int(made)

    def free(self) -> None:
        """Destroy everything; errors after a fault are left to the first one."""
        with self.device.current():
            for made in self._textures:
                self._cu.cuTexObjectDestroy(made)
            for made in self._surfaces:
                self._cu.cuSurfObjectDestroy(made)
            for made in self._arrays:
                self._cu.cuArrayDestroy(made)
        self._textures, self._surfaces, self._arrays = [], [], []

    def _format(self, texels: Texels) -> Any:
        return getattr(self._cu.CUarray_format, f"CU_AD_FORMAT_{FORMATS[texels.dtype.name]}")

    def _resource(self, texels: Texels, memory: Any) -> Any:
        cu, found = self._cu, self._cu.CUDA_RESOURCE_DESC()
        if texels.resource == "array":
            found.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
            found.res.array.hArray = memory
        elif texels.resource == "linear":
            found.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
            where = found.res.linear
            where.devPtr, where.sizeInBytes = memory, texels.nbytes
            where.format, where.numChannels = self._format(texels), texels.channels
        else:
            found.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
            rows = found.res.pitch2D
            rows.devPtr, rows.pitchInBytes = memory, texels.row_bytes
            rows.width, rows.height = texels.extent[0], texels.extent[1]
            rows.format, rows.numChannels = self._format(texels), texels.channels
        return found

    def _copy(self, texels: Texels, array: Any, data: Bytes, *, to_array: bool) -> None:
        cu, copy = self._cu, self._cu.CUDA_MEMCPY3D()
        kinds = cu.CUmemorytype
        width = texels.extent[0] * texels.texel_bytes
        copy.WidthInBytes, copy.Height, copy.Depth = width, texels.rows, texels.slices
        if to_array:
            copy.srcMemoryType, copy.srcHost = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data
            copy.srcPitch, copy.srcHeight = width, texels.rows
            copy.dstMemoryType, copy.dstArray = kinds.CU_MEMORYTYPE_ARRAY, array
        else:
            copy.dstMemoryType, copy.dstHost = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data
            copy.dstPitch, copy.dstHeight = width, texels.rows
            copy.srcMemoryType, copy.srcArray = kinds.CU_MEMORYTYPE_ARRAY, array
        with self.device.current():
            checked(cu.cuMemcpy3D(copy), "copying a CUDA array")
