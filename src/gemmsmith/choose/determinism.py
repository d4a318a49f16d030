"""Whether repeated runs give the same bits: required by default, unless the caller asks for the fastest kernel."""

from __future__ import annotations

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec

# The parameter of kernels that split K: 1 reduces in a fixed order, 0 in arrival order.
DETERMINISTIC = "DETERMINISTIC"


def is_deterministic(_spec: KernelSpec, config: Config) -> bool:
    """Whether accumulators are reduced in an order that does not depend on timing."""
    return all(value != 0 for name, value in config if name == DETERMINISTIC)


def check_deterministic(spec: KernelSpec, config: Config) -> None:
    """Raise for a configuration whose results may differ between runs."""
    if not is_deterministic(spec, config):
        raise ConfigError(
            f"{spec.name} with {DETERMINISTIC}=0 reduces in arrival order: results may differ between runs",
            f"pass deterministic=False, or {DETERMINISTIC}=1",
        )
