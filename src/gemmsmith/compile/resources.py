"""A kernel's resources, from ptxas's report (``-v``), or from the cubin where the report lacks them.

From sm_90 on, ptxas does not report constant memory; it is read from the cubin. A figure that neither has is an error:
nothing defaults to zero.
"""

from __future__ import annotations

import re

from gemmsmith.compile.compiled import Resources
from gemmsmith.compile.elf import cubin_info
from gemmsmith.errors import CompileError

_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")


def parse_resources(log: str, cubin: bytes, entry: str) -> Resources:
    """The resources of ``entry``, from the compiler's ``log`` and the ``cubin``."""
    block = _block(log, entry)
    used, stack = _USED.search(block), _stack_line(block, entry)
    if used is None or stack is None:
        return resources_from_cubin(cubin, entry)
    rest = used.group(2)
    barriers = re.search(r"used (\d+) barriers", rest)
    smem = re.search(r"(\d+)(?:\+(\d+))? bytes smem", rest)
    cmem = [int(n) for n in re.findall(r"(\d+) bytes cmem\[\d+\]", rest)]
    return Resources(
        registers=int(used.group(1)),
        static_smem=sum(int(n) for n in smem.groups("0")) if smem else 0,  # ptxas omits it where none is used
        stack=int(stack.group(1)),
        spill_stores=int(stack.group(2)),
        spill_loads=int(stack.group(3)),
        const_bytes=sum(cmem) if cmem else cubin_info(cubin, entry).const_bytes,
        barriers=int(barriers.group(1)) if barriers else cubin_info(cubin, entry).barriers,
    )


def resources_from_cubin(cubin: bytes, entry: str) -> Resources:
    """The resources from the cubin alone. It does not record spills; without a stack frame there are none."""
    info = cubin_info(cubin, entry)
    if info.frame:
        raise CompileError(
            f"the compiler's log says nothing about {entry!r}, and its cubin, which uses {info.frame} bytes of stack, "
            "does not tell spills from arrays",
            "the log must hold ptxas's report: --ptxas-options=-v",
        )
    return Resources(
        registers=info.registers,
        static_smem=info.static_smem,
        stack=0,
        spill_stores=0,
        spill_loads=0,
        const_bytes=info.const_bytes,
        barriers=info.barriers,
    )


def _block(log: str, entry: str) -> str:
    """The part of the report about ``entry``, up to the next kernel's."""
    _, found, rest = log.partition(f"Compiling entry function '{entry}'")
    return rest.partition("Compiling entry function '")[0] if found else ""


def _stack_line(block: str, entry: str) -> re.Match[str] | None:
    """Stack and spills of the kernel itself; functions that it calls are reported after it."""
    _, found, rest = block.partition(f"Function properties for {entry}\n")
    return _STACK.search(rest) if found else None
