"""Waits between tries: full jitter over a bound that doubles."""

import secrets

_random = secrets.SystemRandom()


def wait_seconds(attempt: int, first: float, longest: float) -> float:
    """Seconds before try `attempt` (1: the first one again), at least a tenth of the bound."""
    bound = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return _random.uniform(bound / 10, bound)
