"""The edge: real UDP sockets on loopback, sealed datagrams, lives on a real disk."""

import asyncio
import hashlib
import hmac
from pathlib import Path
from random import Random

from gpufleet_agent.membership import Config, Facts, Leave, Membership, Status
from gpufleet_agent.membership.constants import SEAL_ROOM
from gpufleet_agent.membership.edge import Disk, UdpMember, join_address, split_address

DEADLINE = 5.0


def keyed(key: bytes):
    """Seals with an authentication code only: enough to see who is let in."""

    def seal(plain: bytes) -> bytes:
        return hmac.digest(key, plain, hashlib.sha256)[:SEAL_ROOM] + plain

    def open_(sealed: bytes) -> bytes | None:
        plain = sealed[SEAL_ROOM:]
        return plain if hmac.compare_digest(seal(plain), sealed) else None

    return seal, open_


def file_disk(path: Path) -> Disk:
    return Disk(
        lambda: int(path.read_text()) if path.exists() else 0,
        lambda life: path.write_text(str(life)) and None,
    )


async def member(name: str, folder: Path, seeds: tuple[str, ...], key: bytes) -> UdpMember:
    loop = asyncio.get_running_loop()
    news = []
    seal, open_ = keyed(key)

    def made() -> UdpMember:
        core = Membership(Config(name, address, "c", seeds), Facts(total=1), Random(name))
        return UdpMember(core, file_disk(folder / name), news.append, seal, open_)

    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    address = join_address(*transport.get_extra_info("sockname"))
    host = split_address(address)
    transport.close()
    await asyncio.sleep(0)
    _, protocol = await loop.create_datagram_endpoint(made, local_addr=host)
    protocol.news = news
    return protocol


async def until(done) -> None:
    async with asyncio.timeout(DEADLINE):
        while not done():
            await asyncio.sleep(0.01)


def test_members_with_the_key_find_one_another_and_one_without_it_finds_nobody(tmp_path):
    async def scenario() -> None:
        a = await member("a", tmp_path, (), b"key")
        seeds = (a.core.row.address,)
        b = await member("b", tmp_path, seeds, b"key")
        stranger = await member("x", tmp_path, seeds, b"other")
        await until(
            lambda: a.core.status("b") == b.core.status("a") == Status.ALIVE and a.refused > 0
        )
        assert a.core.status("x") is None
        assert stranger.core.status("a") is None
        assert b.core.joined
        b.handle(Leave())
        await until(lambda: a.core.status("b") == Status.LEFT)
        for protocol in (a, stranger):
            protocol._transport.close()

    asyncio.run(scenario())


def test_life_is_counted_on_disk(tmp_path):
    async def scenario() -> int:
        a = await member("a", tmp_path, (), b"key")
        a._transport.close()
        return a.core.row.incarnation

    assert asyncio.run(scenario()) < asyncio.run(scenario())
    assert (tmp_path / "a").read_text() == "2"


def test_addresses_are_written_and_read_for_both_families():
    for address in (("10.0.0.1", 7946), ("fd00::1", 7946)):
        assert split_address(join_address(*address)) == address
