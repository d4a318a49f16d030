"""Sizes that host code takes from tensors: `n = b.size(0)` is K, not N, where the kernel reads b as a matrix of K×N."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.verify.verdict import Verdict

_EXTENTS = ("M", "N", "K")
_TENSOR = re.compile(r"\b([A-Za-z_]\w*)\s*\.\s*(?:\w*data_ptr|\w*data|packed_accessor\w*|accessor)\b")
_SIZE = re.compile(r"([A-Za-z_]\w*)\s*\.\s*(?:size\s*\(\s*(?P<axis>-?\d)\s*\)|sizes\s*\(\s*\)\s*\[\s*(?P<of>\d)\s*\])")
# What makes a tensor of another shape, or of other strides, under the same name.
_RESHAPED = re.compile(
    r"\.\s*(?:t|mT|transpose|permute|view|reshape|flatten|squeeze|unsqueeze|expand|slice|select)\s*_?\("
)
_MADE = r"\b{name}\s*=\s*(?:torch|at)::\w+\s*\(\s*\{{(?P<sizes>[^{{}}]*)\}}"


def wrong_tensor_size(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on host code that takes an extent from the wrong axis of a matrix, or makes the result of another
    shape; with the facts of ``like``. None: it takes none, or where from is not known."""
    site: LaunchSite | None = getattr(getattr(spec.geometry, "site", None), "site", None)
    if spec.is_rung or site is None or site.frame.function is None or spec.signature.column_major:
        return None
    body = site.frame.function.body
    if not {argument.role for argument in spec.signature.arguments}.issuperset(_EXTENTS):
        return None  # one number stands for several extents, which are equal then
    if _may_have_more_axes(body) or "blockIdx.z" in site.kernel.body or _RESHAPED.search(body) or problem.batch > 1:
        return None
    for expression, extent in _sizes(spec, site, body):
        meant = _extent(spec, site, problem, expression)
        if meant is not None and meant != extent:
            whose = next(match[1] for match in _SIZE.finditer(expression))
            names = {role: spec.signature.named(role) for role in _EXTENTS}
            shape = "×".join(_shape(problem, _tensors(spec, site)[whose]))
            reason = (f"host code: the launch at {site.shown()} takes {expression} for {extent} ({names[extent]}), but "
                      f"the kernel reads {whose} as a matrix of {shape}, so {expression} is {meant}")  # fmt: skip
            return replace(like, problem=problem, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
    return None


def _may_have_more_axes(body: str) -> bool:
    """Whether a tensor may have more than two axes: by the numbers of those that are named, or since one is counted
    from both ends."""
    axes: dict[str, set[int]] = {}
    for match in _SIZE.finditer(body):
        axes.setdefault(match[1], set()).add(int(match["axis"] or match["of"]))
    signs = [{axis < 0 for axis in named} for named in axes.values()]
    return any(min(named) < -2 or max(named) > 1 for named in axes.values()) or any(len(both) > 1 for both in signs)


def _sizes(spec: KernelSpec, site: LaunchSite, body: str) -> Iterator[tuple[str, str]]:
    """Sizes of tensors that stand for M, N or K: as arguments of the launch, and as the shape of the result."""
    roles = {argument.name: argument.role for argument in spec.signature.arguments}
    for parameter, argument in zip(site.kernel.parameters, site.arguments, strict=False):
        if roles.get(parameter.name) in _EXTENTS and (text := _defined(body, argument)):
            yield text, roles[parameter.name]
    for name, role in _tensors(spec, site).items():
        made = list(re.finditer(_MADE.format(name=re.escape(name)), body)) if role in ("C", "D") else []
        sizes = [text.strip() for text in made[0]["sizes"].split(",")] if len(made) == 1 else []
        for size, extent in zip(sizes, ("M", "N"), strict=True) if len(sizes) == 2 else ():
            if text := _defined(body, size):
                yield text, extent


def _defined(body: str, text: str) -> str:
    """The size of a tensor that an expression is, or that a variable is set to, once; else empty."""
    if text.isidentifier():
        values = re.findall(rf"(?<![\w.]){text}\s*=\s*(?!=)([^;]*?)(?=;|,\s*[A-Za-z_]\w*\s*=(?!=))", body)
        text = values[0] if len(values) == 1 else ""
    text = re.sub(r"^(?:\(\s*\w+\s*\)|static_cast\s*<[^<>]*>)\s*", "", text.strip()).strip()
    text = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
    return text if _SIZE.fullmatch(text) else ""


def _extent(spec: KernelSpec, site: LaunchSite, problem: Problem, expression: str) -> str | None:
    """Which of M, N and K the size of an operand is; None for another tensor."""
    match = _SIZE.fullmatch(expression)
    role = _tensors(spec, site).get(match[1]) if match is not None else None
    return _shape(problem, role)[int(match["axis"] or match["of"])] if match is not None and role else None


def _shape(problem: Problem, role: str) -> tuple[str, str]:
    """Rows and columns of an operand as it is stored."""
    shapes = {"A": ("M", "K"), "B": ("K", "N")}
    rows, columns = shapes.get(role, ("M", "N"))
    is_transposed = (role == "A" and problem.trans_a) or (role == "B" and problem.trans_b)
    return (columns, rows) if is_transposed else (rows, columns)


def _tensors(spec: KernelSpec, site: LaunchSite) -> dict[str, str]:
    """The tensors whose data the launch passes, with the role of each."""
    roles = {argument.name.partition(".")[0]: argument.role for argument in reversed(spec.signature.arguments)
             if argument.role in ("A", "B", "C", "D")}  # fmt: skip
    found: dict[str, str] = {}
    for parameter, argument in zip(site.kernel.parameters, site.arguments, strict=False):
        match = _TENSOR.search(argument)
        if match is not None and parameter.name in roles:
            found[match[1]] = roles[parameter.name]
    return found
