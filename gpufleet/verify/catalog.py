"""Every check there is, in the order in which they are shown."""

from . import gpu_checks, service_checks, system_checks
from .model import Check

CHECKS: tuple[Check, ...] = (*gpu_checks.CHECKS, *service_checks.CHECKS, *system_checks.CHECKS)
BY_NAME = {check.name: check for check in CHECKS}
