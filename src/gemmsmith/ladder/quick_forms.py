"""Kernels that first calls run in place of one that takes the compiler long: they add in the same order.

    kernel, configuration ─► a small tile of the same kernel, compiled without line information

fp32 products have them: no other kernel gives their bits (call/first_call.py).
"""

from __future__ import annotations

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder import fp32_wgmma_bf16x6, fp32_wgmma_registers


def quick_form(spec: KernelSpec, config: Config) -> tuple[KernelSpec, Config] | None:
    """The kernel and configuration that give the bits of ``config``; None for kernels without such a form."""
    for module in (fp32_wgmma_bf16x6, fp32_wgmma_registers):
        if spec is module.SPEC:
            return module.QUICK, module.quick_config(config)
    return None
