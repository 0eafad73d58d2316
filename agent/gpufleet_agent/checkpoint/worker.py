"""A thread for blocking calls, whose outcome comes back on the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import cast


class Worker:
    """Carries out calls one after the other on a thread of its own."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def call[T](self, blocking: Callable[[], T]) -> asyncio.Future[T]:
        """The outcome of a call, once it is done. Cancelling the future does not stop the call."""
        outcome: asyncio.Future[T] = self._loop.create_future()

        def settle(value: T | None, error: Exception | None) -> None:
            if outcome.done():
                return
            if error is None:
                outcome.set_result(cast(T, value))
            else:
                outcome.set_exception(error)

        self.submit(blocking, settle)
        return outcome

    def submit[T](
        self, blocking: Callable[[], T], told: Callable[[T | None, Exception | None], None]
    ) -> None:
        """Make a call; `told` has its value or its error, on the event loop."""

        def carry_out() -> None:
            value, error = None, None
            try:
                value = blocking()
            except Exception as failure:
                error = failure
            with suppress(RuntimeError):  # the loop is closed: nobody waits for the outcome
                self._loop.call_soon_threadsafe(told, value, error)

        self._calls.put(carry_out)

    def stop(self) -> None:
        """Let the thread end after the calls that wait."""
        self._calls.put(None)
