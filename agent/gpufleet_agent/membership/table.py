"""The table of members: greatest row and greatest verdict for each name.

Merging keeps maxima of totally ordered values, so it is commutative, associative and idempotent:
in whatever order and however often news arrives, members that heard the same have the same table.
"""

from collections.abc import Iterator

from gpufleet_agent.membership.constants import GRAVES
from gpufleet_agent.membership.records import Row, Status, Verdict


class Record:
    """What is known of one member. A grave has no row, only the last verdict."""

    __slots__ = ("row", "status", "verdict")

    def __init__(self) -> None:
        self.row: Row | None = None
        self.verdict: Verdict | None = None
        self.status = Status.ALIVE

    @property
    def incarnation(self) -> int:
        """The newest incarnation heard of."""
        row = self.row.incarnation if self.row is not None else 0
        return max(row, self.verdict.incarnation) if self.verdict is not None else row

    @property
    def gone(self) -> bool:
        """Dead or left."""
        return self.status >= Status.DEAD

    @property
    def present(self) -> bool:
        """A member that counts: its row is known and it is alive or suspected."""
        return self.row is not None and self.status < Status.DEAD

    def judge(self) -> None:
        """Work out the status: a verdict holds until a row of a later incarnation is known."""
        if self.verdict is None:
            self.status = Status.ALIVE
        elif self.row is None or self.verdict.incarnation >= self.row.incarnation:
            self.status = self.verdict.status
        else:
            self.status = Status.ALIVE


class Table:
    """Records by name; those without a row are bounded by GRAVES, oldest go first."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.revision = 0  # counts what was taken in or dropped
        self.graves: dict[str, None] = {}  # names of records without a row, oldest first

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())

    def get(self, name: str) -> Record | None:
        """The record of a name, if there is one."""
        return self.records.get(name)

    def status(self, name: str) -> Status | None:
        """The status of a name; None for one without a row (never met, or forgotten)."""
        record = self.records.get(name)
        return record.status if record is not None and record.row is not None else None

    def merge_row(self, row: Row) -> bool:
        """Take a row in; true when it was news. A row that a grave refutes is none.

        A verdict refutes rows of earlier incarnations, and one of the gone those of its own. So
        no later verdict lets in what an earlier one kept out.
        """
        record = self.records.get(row.name)
        if record is None:
            record = self.records[row.name] = Record()
        elif record.row is None:
            verdict = record.verdict
            if verdict is not None and (
                row.incarnation < verdict.incarnation
                or (record.gone and row.incarnation == verdict.incarnation)
            ):
                return False
            self.graves.pop(row.name, None)
        elif row <= record.row:
            return False
        record.row = row
        record.judge()
        self.revision += 1
        return True

    def merge_verdict(self, verdict: Verdict) -> bool:
        """Take a verdict in; true when it was news.

        That of a name without a row is kept, too: a late row of that incarnation shall find it.
        """
        record = self.records.get(verdict.name)
        if record is None:
            record = self.records[verdict.name] = Record()
            self._bury(verdict.name)
        elif record.verdict is not None and verdict <= record.verdict:
            return False
        record.verdict = verdict
        record.judge()
        self.revision += 1
        return True

    def drop(self, name: str) -> None:
        """Drop the row of a dead or left member; its incarnation stays as a grave."""
        record = self.records[name]
        record.row = None
        record.judge()
        self.revision += 1
        self._bury(name)

    def _bury(self, name: str) -> None:
        self.graves.pop(name, None)
        self.graves[name] = None
        while len(self.graves) > GRAVES:
            oldest = next(iter(self.graves))
            del self.graves[oldest]
            del self.records[oldest]
