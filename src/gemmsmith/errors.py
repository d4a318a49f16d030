"""One exception tree: what happened, what to do about it, and the exit code a command ends with."""

from __future__ import annotations


class GemmsmithError(Exception):
    """Base of every error gemmsmith raises on purpose.

    ``message`` says what happened, with the value and the arithmetic; ``hint`` says what to do.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(GemmsmithError):
    """The call or command line is wrong; nothing was run and nothing was changed."""

    exit_code = 2


class ProblemError(UsageError, ValueError):
    """A shape, leading dimension, scalar or layout that no GEMM can have."""


class DTypeError(UsageError, TypeError):
    """A data type, or a kind of object, that is not accepted here."""


class ConfigError(UsageError, ValueError):
    """A kernel configuration that is illegal, with the arithmetic that says why."""


class UnknownKernelError(UsageError, LookupError):
    """No rung and no file of that name."""


class UnsupportedError(UsageError):
    """A rung that is fine in itself was asked for something it does not do."""


class SignatureError(UsageError):
    """A kernel's entry or its parameters could not be recognised."""


class MissingDeviceError(GemmsmithError):
    """No driver, no GPU, or a tool that is not installed."""

    exit_code = 3


class CompileError(GemmsmithError):
    """NVRTC rejected the source; ``log`` is what the compiler said."""

    def __init__(self, message: str, hint: str = "", log: str = "") -> None:
        super().__init__(message, hint)
        self.log = log


class CacheError(GemmsmithError):
    """The compile cache's folder cannot be trusted or used."""


class LaunchError(GemmsmithError):
    """The CUDA driver refused or aborted a launch."""


class SimulationError(GemmsmithError):
    """The simulated kernel did something a GPU would fault on, or that is undefined."""


class UnknownInstructionError(SimulationError):
    """PTX that the simulator does not know; it never guesses."""


class VerificationError(GemmsmithError):
    """A result that is wrong, raised only where a verdict was not asked for."""
