"""The text of a user's kernel, as rules on its code read it."""

from __future__ import annotations

from gemmsmith.kernel.spec import KernelSpec


def kernel_body(spec: KernelSpec) -> str:
    """The text of the kernel itself; empty where it is not known, as for a rung."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    return str(getattr(kernel, "body", ""))


def kernel_decisions(spec: KernelSpec) -> str:
    """The same where what it compares with is a number, with the device functions that it passes its parameters to."""
    return str(getattr(getattr(spec.geometry, "facts", None), "decisions", ""))
