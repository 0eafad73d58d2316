"""Updates on their way to everybody: each is sent a bounded number of times, least sent first."""

from collections.abc import Collection, Hashable
from math import ceil, log10

from gpufleet_agent.membership.constants import RETRANSMIT_MULT


def retransmits(members: int) -> int:
    """How often one member sends one update."""
    return RETRANSMIT_MULT * max(1, ceil(log10(members + 1)))


class Broadcasts:
    """Encoded updates by key; a new update of a key takes the place of the old one.

    `_levels[n]` holds what was sent n times, so picking costs what is picked.
    """

    def __init__(self) -> None:
        self._levels: list[dict[Hashable, bytes]] = [{}]
        self._level_of: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._level_of

    def put(self, key: Hashable, update: bytes) -> None:
        """Send an update from now on, afresh."""
        self.discard(key)
        self._levels[0][key] = update
        self._level_of[key] = 0

    def discard(self, key: Hashable) -> None:
        """Stop sending the update of a key."""
        level = self._level_of.pop(key, None)
        if level is not None:
            del self._levels[level][key]

    def unsent(self, times: int = 1) -> bool:
        """Whether anything was sent less than `times` times."""
        return any(self._levels[:times])

    def pick(self, room: int, members: int, without: Collection[Hashable] = ()) -> list[bytes]:
        """Updates for one datagram, least sent first, in at most `room` bytes.

        What has been sent retransmits(members) times is dropped.
        """
        if not self._level_of:
            return []
        limit = retransmits(members)
        picked: list[tuple[Hashable, int]] = []
        updates: list[bytes] = []
        for level, entries in enumerate(self._levels):
            for key, update in entries.items():
                if len(update) > room:
                    break
                if key in without:
                    continue
                room -= len(update)
                updates.append(update)
                picked.append((key, level))
        for key, level in picked:
            update = self._levels[level].pop(key)
            if level + 1 >= limit:
                del self._level_of[key]
                continue
            if level + 1 == len(self._levels):
                self._levels.append({})
            self._levels[level + 1][key] = update
            self._level_of[key] = level + 1
        return updates
