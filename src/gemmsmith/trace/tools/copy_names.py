"""Uniform names of copies for all tools: those of Nsight Systems."""

from __future__ import annotations

_PLACES = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}
MEMSET = "[CUDA memset]"


def copy_name(kind: str) -> str:
    """'HtoD' or 'HTOD' (torch, CUPTI) or 'Host-to-Device' (Nsight Systems) as '[CUDA memcpy Host-to-Device]'."""
    letters = kind.upper().split("TO")
    if len(letters) == 2 and letters[0] in _PLACES and letters[1] in _PLACES:
        kind = f"{_PLACES[letters[0]]}-to-{_PLACES[letters[1]]}"
    return f"[CUDA memcpy {kind}]"
