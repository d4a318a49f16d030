"""The expected result of a launch with --args: the product in NumPy."""


def product(A, B):  # noqa: ANN001, ANN201 (called by parameter name with arrays)
    return {"C": A @ B}
