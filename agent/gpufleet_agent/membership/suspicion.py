"""A suspicion of one member: how long it may still defend itself."""

from math import log, log10

from gpufleet_agent.membership.constants import (
    CONFIRMATIONS,
    PROBE_PERIOD,
    SUSPICION_MAX_MULT,
    SUSPICION_MULT,
)


def shortest_suspicion(members: int) -> float:
    """Seconds of a suspicion that enough members confirmed."""
    return SUSPICION_MULT * max(1.0, log10(max(members, 1))) * PROBE_PERIOD


class Suspicion:
    """Starts long and shrinks with each independent accuser (Lifeguard).

    With c of k wanted confirmations it lasts max - (max - min) x log(c + 1) / log(k + 1): the
    first ones count most. In a cluster so small that nobody else could confirm, it lasts min.
    A member that is not sure of itself multiplies the shortest time by `stretch` and adds `more`
    seconds.
    """

    def __init__(
        self,
        incarnation: int,
        accuser: str,
        members: int,
        began: float,
        stretch: float = 1.0,
        more: float = 0.0,
    ) -> None:
        self.incarnation = incarnation
        self.began = began
        self.wanted = max(0, min(CONFIRMATIONS, members - 3))
        self._shortest = shortest_suspicion(members) * stretch + more
        self._first = accuser
        self._confirmed: set[str] = set()

    @property
    def deadline(self) -> float:
        """When the suspect is taken for dead, in the clock of `began`."""
        longest = self._shortest * SUSPICION_MAX_MULT
        if self.wanted == 0:
            return self.began + self._shortest
        share = log(len(self._confirmed) + 1) / log(self.wanted + 1)
        return self.began + longest - (longest - self._shortest) * share

    @property
    def accusers(self) -> frozenset[str]:
        """Who confirmed it, without the first accuser."""
        return frozenset(self._confirmed)

    def confirm(self, accuser: str) -> bool:
        """Count an accuser; false when it spoke before or enough have spoken."""
        if accuser == self._first or accuser in self._confirmed:
            return False
        if len(self._confirmed) >= self.wanted:
            return False
        self._confirmed.add(accuser)
        return True
