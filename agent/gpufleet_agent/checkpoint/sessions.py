"""The state that a line keeps: sessions, their turns and counters. Pure.

Turns stay encoded, each with its length before it: a restore does not decode their bodies, and a
snapshot joins them as they are, without a step for each turn.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpufleet_agent.checkpoint.records import (
    LENGTH_SIZE,
    Kind,
    Record,
    Turn,
    TurnHead,
    decode_turn,
    measured,
    turn_head,
)


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session as it was at a moment; `turns` are encoded, with their lengths."""

    id: str
    gpu: str
    prompt_tokens: int
    completion_tokens: int
    turns: tuple[bytes, ...]


@dataclass(slots=True)
class Session:
    """A conversation. `gpu` is the UUID of the GPU that had its last turn: the affinity hint."""

    id: str
    gpu: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _turns: list[bytes] = field(default_factory=list)
    _keys: dict[str, int] = field(default_factory=dict)
    _view: SessionView | None = None

    def __len__(self) -> int:
        return len(self._turns)

    def turns(self, since: int = 0) -> Iterator[Turn]:
        """The turns from an index on, oldest first."""
        return (decode_turn(turn[LENGTH_SIZE:]) for turn in self._turns[since:])

    def index_of(self, key: str) -> int | None:
        """The index of the turn with this idempotency key."""
        return self._keys.get(key) if key else None

    def add(self, head: TurnHead, turn: bytes, gpu: str) -> int:
        """Keep an encoded turn with its length; its index."""
        index = len(self._turns)
        self._turns.append(turn)
        if head.key:
            self._keys[head.key] = index
        self.prompt_tokens += head.prompt_tokens
        self.completion_tokens += head.completion_tokens
        self.gpu, self._view = gpu, None
        return index

    def view(self) -> SessionView:
        """The session as it is now; made anew only after a change."""
        if self._view is None:
            self._view = SessionView(
                self.id, self.gpu, self.prompt_tokens, self.completion_tokens, tuple(self._turns)
            )
        return self._view


@dataclass(frozen=True, slots=True)
class View:
    """All sessions as they were after the record with this sequence number."""

    sequence: int
    sessions: tuple[SessionView, ...]


class Sessions:
    """All sessions of a line, after the records up to `sequence`."""

    def __init__(self) -> None:
        self.sequence = 0
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session: str) -> Session | None:
        """The session of this id, if it is open."""
        return self._sessions.get(session)

    @property
    def turns(self) -> int:
        """Turns of all sessions."""
        return sum(len(session) for session in self._sessions.values())

    def apply(self, record: Record, gpu: str) -> int:
        """Take in the next record: the index of the turn in its session, -1 for an end.

        A turn whose key the session has changes nothing but the sequence; its index is the first
        one's. Raises `ValueError` on a payload that does not decode.
        """
        if record.kind == Kind.TURN:
            head = turn_head(record.payload)
            session = self._sessions.setdefault(head.session, Session(head.session))
            index = session.index_of(head.key)
            if index is None:
                index = session.add(head, measured(record.payload), gpu)
        elif record.kind == Kind.END:
            self._sessions.pop(record.payload.decode(), None)
            index = -1
        else:
            raise ValueError(f"a record of the unknown kind {record.kind}")
        self.sequence += 1
        return index

    def restore(self, view: View) -> None:
        """Become what a snapshot says."""
        self._sessions = {}
        for saved in view.sessions:
            session = Session(saved.id)
            for turn in saved.turns:
                session.add(turn_head(turn, LENGTH_SIZE), turn, saved.gpu)
            session.gpu = saved.gpu
            self._sessions[saved.id] = session
        self.sequence = view.sequence

    def view(self) -> View:
        """All sessions as they are now."""
        return View(self.sequence, tuple(session.view() for session in self._sessions.values()))
