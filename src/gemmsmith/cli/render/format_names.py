"""The formats in which a check is printed."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How a check is printed."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"

    @property
    def is_document(self) -> bool:
        """Whether findings are printed as other tools read them."""
        return self in (Format.JUNIT, Format.SARIF, Format.GITHUB)
