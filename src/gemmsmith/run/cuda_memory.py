"""The memory of a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gemmsmith.run.device import Bytes
from gemmsmith.run.driver_calls import checked


class CudaMemory:
    """Allocating, copying and presetting memory, as a part of ``CudaDevice``."""

    _cu: Any

    def current(self) -> AbstractContextManager[None]:
        """Makes this GPU current in the calling thread."""
        raise NotImplementedError

    def allowed_in_captures(self) -> AbstractContextManager[None]:
        """Calls that would end the capture of a graph, of this thread or another, though they add nothing to it."""
        raise NotImplementedError

    def allocate(self, nbytes: int) -> int:
        with self.current(), self.allowed_in_captures():
            return int(checked(self._cu.cuMemAlloc(max(1, nbytes)), f"allocating {nbytes} bytes"))

    def free(self, address: int) -> None:
        with self.current(), self.allowed_in_captures():  # the garbage collector frees plans, at any time
            checked(self._cu.cuMemFree(address), "freeing memory")

    def write(self, address: int, data: Bytes) -> None:
        if data.nbytes:
            data = np.ascontiguousarray(data)
            with self.current():
                checked(self._cu.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes), "copying to the GPU")

    def read(self, address: int, nbytes: int) -> Bytes:
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            with self.current():
                checked(self._cu.cuMemcpyDtoH(data.ctypes.data, address, nbytes), "copying from the GPU")
        return data

    def forbid_reads(self, address: int, why: str) -> None:
        """Does nothing: the hardware cannot forbid reads."""

    def label(self, address: int, name: str, itemsize: int = 0) -> None:
        """Does nothing: the hardware's messages do not name memory."""

    def copy_rows(self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, rows: int,
                  stream: int) -> None:  # fmt: skip
        """Copy ``rows`` rows of ``width`` bytes between two matrices on the GPU, in stream order."""
        copy = self._cu.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = self._cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice, copy.dstDevice = source, target
        copy.srcPitch, copy.dstPitch = source_pitch, target_pitch
        copy.WidthInBytes, copy.Height = width, rows
        with self.current():
            checked(self._cu.cuMemcpy2DAsync(copy, stream), "copying C")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the GPU on the default stream; does not wait."""
        if nbytes:
            with self.current():
                checked(self._cu.cuMemcpyDtoD(target, source, nbytes), "copying within the GPU")

    def preset(self, address: int, word: int, count: int, itemsize: int) -> None:
        """Set ``count`` elements of two or four bytes to one pattern, on the default stream; does not wait."""
        if count:
            fill = self._cu.cuMemsetD32 if itemsize == 4 else self._cu.cuMemsetD16
            with self.current():
                checked(fill(address, word, count), "presetting memory")

    def free_bytes(self) -> int:
        """How many bytes can be allocated."""
        with self.current():
            return int(checked(self._cu.cuMemGetInfo(), "asking for free memory")[0])

    def allocate_in_order(self, nbytes: int, stream: int) -> int:
        """Memory for later work on ``stream``; a node of the graph where that is captured."""
        with self.current(), self.allowed_in_captures():
            return int(checked(self._cu.cuMemAllocAsync(nbytes, stream), f"allocating {nbytes} bytes"))

    def free_in_order(self, address: int, stream: int) -> None:
        """Free such memory after the work on ``stream`` so far."""
        with self.current(), self.allowed_in_captures():
            checked(self._cu.cuMemFreeAsync(address, stream), "freeing memory")
