"""Who can be probed and told: the members that are present, without this one."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from random import Random
from zlib import crc32


def _place(name: str) -> tuple[int, str]:
    return crc32(name.encode()), name


class Roster:
    """The members in two orders: a ring all members agree on, and a shuffled round."""

    def __init__(self, own_name: str, random: Random) -> None:
        self._random = random
        self._own = _place(own_name)
        self._ring: list[tuple[int, str]] = []
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._round: list[str] = []

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, name: str) -> None:
        """Count a member; it comes at a random place of the running round."""
        if name in self._index:
            return
        self._index[name] = len(self._names)
        self._names.append(name)
        insort(self._ring, _place(name))
        self._round.insert(int(self._random.random() * (len(self._round) + 1)), name)

    def remove(self, name: str) -> None:
        """Count a member no longer."""
        index = self._index.pop(name, None)
        if index is None:
            return
        last = self._names.pop()
        if last != name:
            self._names[index] = last
            self._index[last] = index
        del self._ring[bisect_left(self._ring, _place(name))]

    def next_in_round(self) -> str | None:
        """The next member of a shuffled round; each comes once a round."""
        while True:
            if not self._round:
                if not self._names:
                    return None
                self._round = self._names.copy()
                self._random.shuffle(self._round)
            name = self._round.pop()
            if name in self._index:
                return name

    def successors(self) -> Iterator[str]:
        """The members after this one on the ring, nearest first."""
        start = bisect_left(self._ring, self._own)
        for i in range(len(self._ring)):
            yield self._ring[(start + i) % len(self._ring)][1]

    def precedes(self, name: str, within: int) -> bool:
        """Whether this member is among the `within` members before `name` on the ring."""
        for _, successor in zip(range(within), self.successors(), strict=False):
            if successor == name:
                return True
        return False

    def sample(self, count: int, without: str = "") -> list[str]:
        """Up to `count` different random members."""
        names = self._random.sample(self._names, min(len(self._names), count + 1))
        return [name for name in names if name != without][:count]
