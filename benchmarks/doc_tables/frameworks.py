"""Tables of docs/torch.md: whole models, and what a call costs the host."""

from __future__ import annotations

from typing import Any

from doc_tables.records import load

# A row of the table: what is called, torch's call in the record (or none), ours.
_CALLS = (
    ("`mm(a, b)`; `matmul(a, b)`", "torch.mm", "matmul"),
    ("the same with an `nn.Parameter` under `no_grad`", "torch.mm, no_grad, Parameter", "matmul, no_grad, Parameter"),
    ("the same with gradients", "torch.mm, grad", "matmul, grad"),
    ("`linear` with a bias, `no_grad`", "F.linear", "linear"),
    ("`linear` with a bias, gradients", "F.linear, grad", "linear, grad"),
    ("`mm(out=)`; `gemm(out=)`", "torch.mm(out=)", "gemm(out=)"),
    ("`gemm(a, b)`", "", "gemm()"),
    ("`gemm(a, b)` with gradients", "torch.mm, grad", "gemm, grad"),
    ("the launch itself: `cuLaunchKernelEx` by ctypes", "", "the launch itself"),
    ("`plan()`", "", "plan()"),
    ("`plan(a, b, out=)`", "", "plan(a, b, out=)"),
)
_VARIANTS = ("torch", "gemmsmith", "torch.compile", "gemmsmith, torch.compile")


def models_table() -> str:
    data = load("h200_models.json")
    lines = ["| model | forward: torch | optimize | the same compiled: torch | optimize | training step: torch "
             "| optimize | the same compiled: torch | optimize | replaced (forward, training) "
             "| losses differ by, relative |",
             "| --- |" + " ---: |" * 8 + " --- | ---: |"]  # fmt: skip
    for model in data["models"].values():
        times = model["milliseconds"]
        cells = [model["what"]]
        for step in ("forward", "training step"):
            cells += [f"{times[step][who]:.2f}" if who in times[step] else "" for who in _VARIANTS]
        cells.append(", ".join(_replaced(model[f"{step}_layers"]) for step in ("forward", "training")))
        apart = max(
            abs(a - b) / abs(a) for a, b in zip(model["losses"]["torch"], model["losses"]["gemmsmith"], strict=True)
        )
        lines.append(f"| {' | '.join(cells)} | {apart:.0e} |")
    return "\n".join([*lines, "", f"Milliseconds. {_made(data)}"])


def host_cost_table() -> str:
    data = load("h200_host_cost_torch.json")
    calls = {name: both["gemmsmith"]["us"] for name, both in data["calls"].items()}
    lines = ["| call | torch | gemmsmith |", "| --- | ---: | ---: |"]
    for what, theirs, ours in _CALLS:
        lines.append(f"| {what} | {f'{calls[theirs]:.1f}' if theirs else ''} | {calls[ours]:.1f} |")
    return "\n".join([*lines, "", f"Microseconds, medians. {_made(data)}"])


def _replaced(layers: list[dict[str, Any]]) -> str:
    return f"{sum(layer['ours'] for layer in layers)} of {len(layers)}"


def _made(data: dict[str, Any]) -> str:
    return f"Measured on {data['gpu']} ({data['date']}, torch {data['torch']}) by `{data['command']}`."
