"""A value that a file tells, with the place and the text that it came from."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST = 100  # characters of a text that are shown


@dataclass(frozen=True)
class FoundValue:
    """A value with the text that it came from: block = 16x16 from runner.cu:132 ``dim3 block(16, 16)``."""

    what: str
    value: str
    place: str
    text: str

    def __str__(self) -> str:
        text = "".join(char if char.isprintable() else "?" for char in self.text)
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
        return f"{self.what} {self.value} from {self.place} `{text}`"
