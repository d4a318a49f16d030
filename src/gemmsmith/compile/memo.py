"""Kernels of this process in memory, so that a second request costs microseconds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.userfile.files.stamp import Stamp, stamp

_CAPACITY = 512  # kernels are about 100 KB each with their PTX


class Memo:
    """The most recently used kernels, each valid while its source files are unchanged."""

    def __init__(self) -> None:
        self._kernels: OrderedDict[Hashable, tuple[Stamp, CompiledKernel]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, what: Hashable) -> CompiledKernel | None:
        """The kernel stored for ``what``, unless one of its files changed."""
        with self._lock:
            found = self._kernels.get(what)
            if found is None:
                return None
            self._kernels.move_to_end(what)
        expected, compiled = found
        return compiled if stamp(tuple(row[0] for row in expected)) == expected else None

    def put(self, what: Hashable, files: Stamp, compiled: CompiledKernel) -> None:
        """Store ``compiled``, made of files whose stamps were ``files`` before they were read."""
        with self._lock:
            self._kernels[what] = (files, compiled)
            self._kernels.move_to_end(what)
            while len(self._kernels) > _CAPACITY:
                self._kernels.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kernels.clear()
