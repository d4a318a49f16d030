"""Launches for which host code forgets what its function was asked to do: a transposed operand, beta, a bias.

    if (M % 64 == 0) gemm_whole<<<…>>>(A, B, C, M, N, K);  // whatever trans_b is
    else if (trans_b) gemm<true><<<…>>>(A, B, C, M, N, K);
    else gemm<false><<<…>>>(A, B, C, M, N, K);

Another launch on the same matrices goes by the parameter, so that it counts; this one is made whatever it is. Alpha
and beta must go somewhere even where there is no other launch:

    if (beta == 0.0f) cudaMemset(C, 0, bytes);  // and with any other beta C is added to as it is
    gemm_split<<<…>>>(A, B, C, M, N, K, alpha);
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gemmsmith.kernel.role_names import pointer_role, scalar_role
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.host_scope import local_scope
from gemmsmith.userfile.launches.launch_site import LaunchSite, callers_of
from gemmsmith.userfile.text.parts import KernelParameter, LaunchText
from gemmsmith.userfile.text.syntax import words
from gemmsmith.verify.verdict import Verdict

_MATRICES = ("A", "B", "C", "D")
_WORD = re.compile(r"[A-Za-z_]\w*")
# Flags that say which product is asked for, not how it is computed.
_LAYOUT = re.compile(r"trans|layout|order$|row_?major|col_?major|^t[ab]$|^[ab]_?t$|^op_?[ab]?$", re.I)
_ACTIVATION = re.compile(r"^(?:use_?|with_?|do_?|fuse_?|has_?)?(?:relu|gelu|silu|activation|act|bias)$", re.I)
_FLAGS = re.compile(r"\b(?:bool|char|int|unsigned|enum|\w*(?:op|trans|layout|order|act\w*)\w*)\b", re.I)
_IF = re.compile(r"\bif\s*\(((?:[^()]|\([^()]*\))*)\)")
_NUMBER = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?[fF]?")
_MOST_CALLERS = 12
_REALS = re.compile(r"\b(?:float|double|half|__half|__nv_bfloat16)\b")


@dataclass(frozen=True)
class _Made:
    """A launch of the function: what it names, and the conditions under which it is made."""

    text: LaunchText
    named: frozenset[str]
    conditions: frozenset[tuple[str, bool]]

    @classmethod
    def of(cls, text: LaunchText, site: LaunchSite) -> _Made:
        function = site.frame.function
        assert function is not None
        scope = local_scope(function, text.start)
        named = (
            word for each in (*text.template, *text.configuration, *text.arguments) for word in _WORD.findall(each)
        )
        return cls(text, frozenset(named), frozenset((*scope.conditions, *scope.checked)))

    @property
    def asked(self) -> frozenset[str]:
        return frozenset(word for text, _ in self.conditions for word in _WORD.findall(text))

    def excludes(self, other: _Made) -> bool:
        """Whether one of the two is made where a condition holds, and the other where it does not."""
        return any((text, not holds) in other.conditions for text, holds in self.conditions)


def ignored_parameter(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a launch that ignores such a parameter, with the facts of ``like``; None if there is none."""
    own = getattr(spec.geometry, "site", None)
    if spec.is_rung or own is None or own.site.frame.function is None:
        return None
    site: LaunchSite = own.site
    reason = _by_another_launch(spec, site) or _compared_alone(spec, site)
    if not reason:
        return None
    return replace(
        like, problem=problem, reasons=(f"host code: {reason}",), repeat=like.repeat.partition(" --trial ")[0]
    )


def _compared_alone(spec: KernelSpec, site: LaunchSite) -> str:
    """What to say of alpha or beta that the function compares with something, and passes on nowhere. One that it never
    looks at may be there for the sake of an interface."""
    function, scope = site.frame.function, site.frame.locals
    assert function is not None
    body = words(function.body)
    for parameter in function.parameters:
        role, name = scalar_role(parameter.name), re.compile(rf"\b{re.escape(parameter.name)}\b")
        if role not in ("alpha", "beta") or not _REALS.search(parameter.type) or "*" in parameter.type:
            continue
        asked = any(name.search(text) for text, _ in (*scope.conditions, *scope.checked))
        compared = sum(len(name.findall(text)) for text in _IF.findall(body))
        if not compared or len(name.findall(body)) > compared or spec.signature.has(role) or asked:
            continue
        if not _is_constant(site, parameter):
            return (f"{function.name} takes {parameter.name} and only compares it, and its launch at {site.shown()} "
                    "does not pass it")  # fmt: skip
    return ""


def _is_constant(site: LaunchSite, parameter: KernelParameter) -> bool:
    """Whether all callers that are known pass a number for it."""
    function = site.frame.function
    assert function is not None
    place = function.parameters.index(parameter)
    calls = [each.frame.arguments for each in callers_of(site, _MOST_CALLERS) if each.frame.caller is not None]
    passed = [call[place] if place < len(call) else parameter.default or "" for call in calls]
    return bool(passed) and all(_NUMBER.fullmatch(text.strip()) for text in passed)


def _by_another_launch(spec: KernelSpec, site: LaunchSite) -> str:
    """What to say of a parameter by which another launch of the function goes."""
    source, function = site.frame.source, site.frame.function
    assert function is not None
    made = [_Made.of(each, site) for each in source.launches if source.functions[each.function] == function]
    this = next((each for each in made if each.text.start == site.frame.start), None)
    if this is None:
        return ""
    others = [each for each in made if each.excludes(this) and _matrices(spec, site) <= set(each.text.arguments)]
    for parameter in function.parameters:
        if not _says_what(parameter) or parameter.name in this.named | this.asked:
            continue
        deciding = next((each for each in others if parameter.name in each.named | each.asked), None)
        if deciding is not None and not _is_used_elsewhere(parameter.name, words(function.body), made, others):
            return (f"{site.shown()} launches {spec.signature.entry} whatever {parameter.name} is, while the launch "
                    f"of {deciding.text.kernel} in line {deciding.text.line} goes by it")  # fmt: skip
    return ""


def _matrices(spec: KernelSpec, site: LaunchSite) -> set[str]:
    """What the launch passes for A, B and C."""
    places = [spec.signature.place(at) for at, arg in enumerate(spec.signature.arguments) if arg.role in _MATRICES]
    return {site.arguments[place] for place in places if place < len(site.arguments)}


def _says_what(parameter: KernelParameter) -> bool:
    """Whether a parameter says what is to be computed."""
    name, kind = parameter.name, parameter.type
    if "*" in kind:
        return pointer_role(name) == "bias"
    if _REALS.search(kind):
        return scalar_role(name) in ("alpha", "beta")
    return bool(_FLAGS.search(kind) and (_LAYOUT.search(name) or _ACTIVATION.search(name)))


def _is_used_elsewhere(name: str, body: str, made: Iterable[_Made], others: Iterable[_Made]) -> bool:
    """Whether the function uses it for more than these launches and their conditions: it may scale C by beta first."""
    conditions = {text for each in made for text, _ in each.conditions}
    told = [words(each) for each in conditions]
    told += [argument for each in others for argument in (*each.text.template, *each.text.configuration,
                                                          *each.text.arguments)]  # fmt: skip
    word = re.compile(rf"\b{re.escape(name)}\b")
    return len(word.findall(body)) > sum(len(word.findall(each)) for each in told)
