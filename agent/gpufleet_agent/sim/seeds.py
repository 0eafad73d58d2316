"""Which seeds a simulation runs with, and how a failing one is told."""

import os
from collections.abc import Callable, Iterable

COUNT_VARIABLE = "GPUFLEET_SIM_SEEDS"  # how many seeds a sweep runs
SEED_VARIABLE = "GPUFLEET_SIM_SEED"  # the only seed to run


class SeedFailed(AssertionError):
    """A scenario failed; the message has the seed and the command that repeats it."""


def chosen_seeds(count: int) -> range:
    """Seeds to run: the one asked for, else as many as asked for, else `count`.

    Raises ValueError when a variable holds anything but a whole number.
    """
    only = os.environ.get(SEED_VARIABLE)
    if only is not None:
        return range(int(only), int(only) + 1)
    return range(int(os.environ.get(COUNT_VARIABLE, count)))


def repeat_command(seed: int, target: str) -> str:
    """The command line that runs one seed of a pytest target again."""
    return f"PYTHONPATH=agent {SEED_VARIABLE}={seed} python -m pytest {target}"


def sweep(scenario: Callable[[int], object], seeds: Iterable[int], target: str) -> None:
    """Run a scenario for each seed; the first that fails is raised as SeedFailed."""
    for seed in seeds:
        try:
            scenario(seed)
        except Exception as fault:
            raise SeedFailed(
                f"seed {seed}: {fault!r}\nrepeat with: {repeat_command(seed, target)}"
            ) from fault
