"""Whether repeated runs give the same bits: the default, unless the fastest kernel is asked for whatever it does."""

from __future__ import annotations

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec

# A kernel that divides K and can add the parts in order of arrival has this parameter: 1 is a fixed order.
DETERMINISTIC = "DETERMINISTIC"


def is_deterministic(_spec: KernelSpec, config: Config) -> bool:
    """Whether sums are added in an order that does not depend on timing."""
    return all(value != 0 for name, value in config if name == DETERMINISTIC)


def check_deterministic(spec: KernelSpec, config: Config) -> None:
    """Raise for a configuration whose bits may change from run to run."""
    if not is_deterministic(spec, config):
        raise ConfigError(
            f"{spec.name} with {DETERMINISTIC}=0 adds in order of arrival: its bits may change from run to run",
            f"pass deterministic=False, or {DETERMINISTIC}=1",
        )
