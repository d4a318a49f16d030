"""Macros that hide kernels, expanded: nested ones to their end, and those in a circle once."""

from __future__ import annotations

from gemmsmith.userfile.text.preprocessor import Macro, expand


def test_nested_macros_are_expanded_to_their_end() -> None:
    macros = {"KERNEL": Macro("GLOBAL void"), "GLOBAL": Macro("__global__"), "NAMED": Macro("KERNEL x", ("x",))}
    assert expand("NAMED(gemm)(int n) {}", macros) == "__global__ void gemm(int n) {}"


def test_a_macro_that_uses_itself_is_expanded_once() -> None:
    assert expand("K f();", {"K": Macro("__global__ K")}) == "__global__ K f();"


def test_macros_that_use_each_other_are_expanded_once() -> None:
    macros = {"A": Macro("B __device__"), "B": Macro("A A")}
    assert expand("A;", macros) == "A A __device__;"
    assert len(expand("A B A;", macros).split()) < 12


def test_a_macro_that_leads_to_a_circle_is_expanded() -> None:
    macros = {"A": Macro("B __device__"), "B": Macro("A"), "FUN": Macro("A int")}
    assert expand("FUN f();", macros) == "A __device__ int f();"
