"""Appends turns from several clients until it is killed; prints the key of each kept one."""

import asyncio
import os
import sys

from gpufleet_agent.checkpoint import CheckpointStore, Place, Settings, Turn


async def main(root: str, life: int) -> None:
    settings = Settings(every=20, segment_bytes=16384)
    store = await CheckpointStore.open(Place(root, "agent-1"), settings)

    async def client(number: int) -> None:
        turn = 0
        while True:
            key = f"{life}-{number}-{turn}"
            await store.append(f"s{number}", Turn(key, b"x" * 700))
            os.write(1, f"{key}\n".encode())
            turn += 1

    await asyncio.gather(*map(client, range(6)))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
