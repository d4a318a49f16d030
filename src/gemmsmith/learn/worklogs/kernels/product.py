"""The expected result of a launch with --args: the product in NumPy."""

from typing import Any


def product(A: Any, B: Any) -> dict[str, Any]:
    return {"C": A @ B}
