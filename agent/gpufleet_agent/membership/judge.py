"""Taking in news: what is believed of the others, and the defence of this member."""

from collections.abc import Callable

from gpufleet_agent.membership.codec import encode_row, encode_verdict
from gpufleet_agent.membership.constants import SUSPICION_LAGS
from gpufleet_agent.membership.events import Changed, Conflict, Persist
from gpufleet_agent.membership.local import Local
from gpufleet_agent.membership.records import (
    MAX_LIFE,
    Row,
    Status,
    Verdict,
    first_incarnation,
    life_of,
)
from gpufleet_agent.membership.suspicion import Suspicion


class Judge:
    """Merges rows and verdicts, keeps the suspicions, refutes what is said of this member.

    `check` is called with the name of a member that has just been suspected.
    """

    def __init__(self, local: Local, check: Callable[[str], None]) -> None:
        self._local = local
        self._check = check
        self._suspicions: dict[str, Suspicion] = {}
        self.leaving = False
        self._asked_life = 0

    def take_row(self, row: Row, spread: bool) -> None:
        """Take in a row; a new one is told on if `spread`."""
        local = self._local
        if row.name == local.name:
            self._take_own(row)
            return
        record = local.table.get(row.name)
        if record is not None and record.row is row:
            return
        before = local.table.status(row.name)
        known = record.incarnation if record is not None else -1
        if not local.table.merge_row(row):
            return
        if spread:
            queue = local.urgent if row.incarnation > known else local.rows
            queue.put(("row", row.name), encode_row(row))
            if queue is local.urgent:
                local.rows.discard(("row", row.name))
        self._settle(row.name, before)

    def take_verdict(self, verdict: Verdict, sender: str, settled: bool) -> None:
        """Take in a verdict.

        A death that is `settled` news (from a table, not fresh) is taken as a suspicion when we
        hold the member for alive: after a partition it may well be, and shall defend itself.
        """
        local = self._local
        name = verdict.name
        if name == local.name:
            self._accused(verdict)
            return
        record = local.table.get(name)
        before = local.table.status(name)
        if record is not None and record.row is not None:
            if verdict.incarnation < record.row.incarnation:
                return
            if settled and verdict.status == Status.DEAD and not record.gone:
                verdict = Verdict(verdict.incarnation, Status.SUSPECT, sender, name)
        suspicion = self._suspicions.get(name)
        if (
            suspicion is not None
            and verdict.status == Status.SUSPECT
            and verdict.incarnation == suspicion.incarnation
        ):
            if suspicion.confirm(verdict.accuser):
                local.timers.set(("suspect", name), suspicion.deadline)
                local.urgent.put(("suspect", name, verdict.accuser), encode_verdict(verdict))
            local.table.merge_verdict(verdict)
            return
        if not local.table.merge_verdict(verdict) or before is None:
            return
        if verdict.status >= Status.DEAD:
            local.urgent.discard(("row", name))
            local.rows.discard(("row", name))
        local.urgent.put(("verdict", name), encode_verdict(verdict))
        self._settle(name, before)

    def accuse(self, name: str) -> None:
        """This member itself got no answer from another."""
        record = self._local.table.get(name)
        if record is None or not record.present:
            return
        self.take_verdict(
            Verdict(record.incarnation, Status.SUSPECT, self._local.name, name),
            self._local.name,
            settled=False,
        )

    def expire(self, name: str) -> None:
        """A suspect did not defend itself in time."""
        suspicion = self._suspicions[name]
        self.take_verdict(
            Verdict(suspicion.incarnation, Status.DEAD, self._local.name, name),
            self._local.name,
            settled=False,
        )

    def leave(self) -> None:
        """Say that this member goes of its own will."""
        local = self._local
        self.leaving = True
        verdict = Verdict(local.row.incarnation, Status.LEFT, local.name, local.name)
        local.table.merge_verdict(verdict)
        local.urgent.discard(("row", local.name))
        local.urgent.put(("verdict", local.name), encode_verdict(verdict))

    def start_life(self, life: int) -> None:
        """Use a life that is durable now."""
        self._renew(first_incarnation(life))

    def _settle(self, name: str, before: Status | None) -> None:
        local = self._local
        record = local.table.records[name]
        after = record.status
        if record.present:
            local.roster.add(name)
            local.tombstones.pop(name, None)
        else:
            local.roster.remove(name)
            local.lags.pop(name, None)
            local.tombstones.setdefault(name, local.now)
        suspicion = self._suspicions.get(name)
        if suspicion is not None and (
            after != Status.SUSPECT or suspicion.incarnation != record.incarnation
        ):
            del self._suspicions[name]
            local.timers.cancel(("suspect", name))
            for accuser in suspicion.accusers:
                local.urgent.discard(("suspect", name, accuser))
        if after == Status.ALIVE:
            local.urgent.discard(("verdict", name))
        if after != before:
            local.effects.append(Changed(name, after, record.incarnation))
        if after == Status.SUSPECT and name not in self._suspicions and record.verdict is not None:
            started = Suspicion(
                record.incarnation,
                record.verdict.accuser,
                local.members,
                local.now,
                local.awareness.scaled(1),
                SUSPICION_LAGS * local.lag_with(name),
            )
            self._suspicions[name] = started
            local.timers.set(("suspect", name), started.deadline)
            self._check(name)

    def _take_own(self, row: Row) -> None:
        own = self._local.row
        if row <= own:
            if row.incarnation == own.incarnation and row.address != own.address:
                self._local.effects.append(Conflict(row.address))
            return
        if row.address != own.address:
            self._local.effects.append(Conflict(row.address))
        if row.incarnation > own.incarnation:
            self._outgrow(row.incarnation)
        else:
            self._local.announce(own._replace(version=row.version + 1))

    def _accused(self, verdict: Verdict) -> None:
        if self.leaving or verdict.incarnation < self._local.row.incarnation:
            return
        if life_of(verdict.incarnation) == life_of(self._local.row.incarnation):
            self._local.awareness.add(1)
        self._outgrow(verdict.incarnation)

    def _outgrow(self, incarnation: int) -> None:
        """Be newer than what is said of us. A later life than ours means that our disk lost it."""
        life = life_of(incarnation)
        if self.leaving:
            return
        if life == life_of(self._local.row.incarnation) and life_of(incarnation + 1) == life:
            self._renew(incarnation + 1)
        elif self._asked_life <= life < MAX_LIFE:
            self._asked_life = life + 1
            self._local.effects.append(Persist(life + 1))

    def _renew(self, incarnation: int) -> None:
        local = self._local
        local.announce(local.row._replace(incarnation=incarnation))
        local.rows.discard(("row", local.name))
        local.urgent.put(("row", local.name), encode_row(local.row))
