"""The exceptions of gemmsmith: each has a message, a hint and the exit code of a command."""

from __future__ import annotations


class GemmsmithError(Exception):
    """Base of all errors that gemmsmith raises deliberately.

    ``message`` says what happened, with the value and the arithmetic; ``hint`` says what to do; ``status`` is that of
    the kernel, where one was checked.
    """

    exit_code = 1
    status = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class GemmsmithWarning(UserWarning):
    """Base of all warnings: something is wrong, and the rest can be used."""


class UsageError(GemmsmithError):
    """The call or command line is wrong; nothing was run or changed."""

    exit_code = 2


class ProblemError(UsageError, ValueError):
    """A shape, leading dimension, scalar or layout that is illegal for a GEMM."""


class DTypeError(UsageError, TypeError):
    """A data type or a kind of object that is not accepted."""


class TensorShapeError(ProblemError, RuntimeError):
    """Shapes that have no product, in torch, which raises a RuntimeError for them."""


class TensorTypeError(DTypeError, RuntimeError):
    """Types or devices that do not go together, in torch, which raises a RuntimeError for them."""


class ConfigError(UsageError, ValueError):
    """An illegal kernel configuration, with the arithmetic that shows why."""


class UnknownKernelError(UsageError, LookupError):
    """There is no rung, baseline or file with that name."""


class UnknownTrialError(UsageError):
    """``--trial`` names none that the kernel has."""


class UnsupportedError(UsageError):
    """A kernel that does not support the problem, layout, device or alignment."""


class SignatureError(UsageError):
    """The entry of a kernel or its parameters were not recognised."""


class SeveralKernelsError(SignatureError):
    """A file with several kernels, where one was asked for; of overloads, the lines they are at."""

    lines: tuple[int, ...] = ()


class TemplateValueError(UsageError):
    """A kernel is a template, and nothing gives some of its parameters, ``missing``, a value."""

    def __init__(self, message: str, hint: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.missing = missing


class TooLongError(UnsupportedError):
    """Simulating a launch would take minutes."""


class OneGridError(UsageError):
    """A launch has one grid for every size, and gives no product for the sizes that were tried."""


class MissingDeviceError(GemmsmithError):
    """There is no driver, no GPU, or a tool is not installed."""

    exit_code = 3


class CompileError(GemmsmithError):
    """NVRTC rejected the source; ``log`` is the compiler's output."""

    def __init__(self, message: str, hint: str = "", log: str = "") -> None:
        super().__init__(message, hint)
        self.log = log


class MissingKernelError(CompileError):
    """The compiled code has no kernel of that name: a condition of the preprocessor may leave it out."""


class CacheError(GemmsmithError):
    """The folder of the compile cache cannot be used or is not private to the user."""


class LaunchError(GemmsmithError):
    """The CUDA driver rejected or aborted a launch."""


class SimulationError(GemmsmithError):
    """The simulated kernel did something that is undefined or faults on a GPU."""


class TimeLimitError(SimulationError):
    """A simulated launch was still running when its time was up: it may be slow, or never end. No verdict."""

    exit_code = 2


class UnknownInstructionError(SimulationError):
    """PTX that the simulator does not know; it does not guess."""


class VerificationError(GemmsmithError):
    """A wrong result, where no verdict is returned."""
