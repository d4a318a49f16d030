"""What a kernel's ``static_assert`` says of its template's values: which ones compile, and which numbers it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gemmsmith.kernel.expressions import split
from gemmsmith.userfile.host.function_bodies import initial_values
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import UnknownValueError, evaluate
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts
from gemmsmith.userfile.launches.template_guesses import template_guesses
from gemmsmith.userfile.text.parts import TemplateParameter
from gemmsmith.userfile.text.preprocessor import closing

_ASSERT = re.compile(r"\bstatic_assert\s*\(")
_NUMBER = r"(\d+)[uUlL]*"


class StaticAsserts:
    """The static_asserts of a kernel's body."""

    def __init__(self, facts: KernelFacts) -> None:
        self._facts, body = facts, facts.kernel.body
        listed = [split(body[found.end() : closing(body, found.end() - 1)]) for found in _ASSERT.finditer(body)]
        self.texts = [parts[0].strip() for parts in listed if parts]
        self._constants = dict(initial_values(body))

    def hold(self, values: Mapping[str, str]) -> bool:
        """Whether none is known to fail with these values of the template."""
        texts = {**self._constants, **values, **self._facts.given}
        for text in self.texts:
            scope = HostScope(Frame(self._facts.own, self._facts.project), texts, Sizes(), Asked())
            try:
                if not evaluate(text, scope):
                    return False
            except (UnknownValueError, RecursionError):
                continue
        return True

    def numbers(self, name: str) -> list[int]:
        """Numbers that a parameter is compared with, or must be a multiple of."""
        own, found = re.escape(name), []
        for text in self.texts:
            found += re.findall(rf"\b{own}\s*(?:==|>=|%)\s*{_NUMBER}\b", text)
            found += re.findall(rf"\b{_NUMBER}\s*==\s*{own}\b", text)
        return [int(each) for each in dict.fromkeys(found) if int(each) > 0]


def guesses_for(facts: KernelFacts, missing: Sequence[TemplateParameter]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Values to try for parameters that nothing gives one."""
    asserts = StaticAsserts(facts)
    return template_guesses(missing, asserts.hold, {p.name: asserts.numbers(p.name) for p in missing})
