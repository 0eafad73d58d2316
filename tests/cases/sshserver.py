"""A real SSH server of the test's own on the loopback, with a host key that the test chooses."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

DEADLINE = 15.0


def make_key(path: Path) -> str:
    """A new key pair; returns the public key without comment."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class SshServer:
    """An sshd as a plain process; nothing of the host's own SSH server is touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.user = getpass.getuser()
        self.client_key = folder / "client"
        self.public_client_key = make_key(self.client_key)
        self._process: subprocess.Popen[bytes] | None = None
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if program is None:
            pytest.fail("sshd is not on this machine; install the package openssh-server")
        self._program = program
        # Its place for the privilege-separated child; the host's own server makes it, too.
        self._made = os.geteuid() == 0 and not Path("/run/sshd").exists()
        if self._made:
            Path("/run/sshd").mkdir(mode=0o755)

    def start(self, host_key: Path) -> None:
        """Serve with this host key in place of the one before."""
        self.stop()
        (self.folder / "authorized").write_text(f"{self.public_client_key}\n")
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
        )
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", "-e", "-f", str(config)], stdout=log, stderr=log
            )
        self._wait()

    def stop(self) -> None:
        """End the process that `start` made."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE)
            self._process = None

    def close(self) -> None:
        """Leave nothing behind."""
        self.stop()
        if self._made:
            Path("/run/sshd").rmdir()

    def _wait(self) -> None:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as stream:
                    if stream.recv(4) == b"SSH-":
                        return
            except OSError:
                time.sleep(0.02)
        pytest.fail(f"sshd does not serve: {(self.folder / 'sshd.log').read_text()}")
