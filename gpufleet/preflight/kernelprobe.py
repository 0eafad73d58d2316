"""Which kernel features work, tried out in namespaces that vanish with the trial.

Each trial is a child process in a fresh network or mount namespace; when it ends, the kernel
removes what it made. On a modular kernel a trial may load the module it tries, as use would.
"""

import os
import shutil
from collections.abc import Callable

from .facts import FactError
from .hosttool import Answer, ask
from .localgroups import Kernel, Probe

Ask = Callable[..., Answer]

MASQUERADE = """\
table ip gfprobe {
  chain out {
    type nat hook postrouting priority srcnat; policy accept;
    masquerade
  }
}
"""

OVERLAY = (
    "mount -t tmpfs none /tmp && cd /tmp && mkdir lower upper work merged && "
    "mount -t overlay none -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work /tmp/merged"
)

NAMESPACES = "network namespaces"
# feature -> the command that tries it in a fresh namespace, and what that reads. The first entry
# is what the others need.
NETWORK_TRIALS: dict[str, tuple[list[str], str | None]] = {
    NAMESPACES: (["true"], None),
    "veth pairs": (
        ["ip", "link", "add", "gfprobe0", "type", "veth", "peer", "name", "gfprobe1"],
        None,
    ),
    "bridges": (["ip", "link", "add", "gfprobe0", "type", "bridge"], None),
    "nft masquerading": (["nft", "-f", "-"], MASQUERADE),
}


def kernel(ask: Ask = ask, euid: int | None = None) -> Kernel:
    """Try every feature. Raises FactError for a caller who is not root: nothing could be tried."""
    if (os.geteuid() if euid is None else euid) != 0:
        raise FactError("kernel features can be tried by root only")
    probes = {"overlayfs": _try(ask, ["--mount", "--propagation", "private"], _overlay())}
    for feature, (words, given) in NETWORK_TRIALS.items():
        base = probes.get(NAMESPACES)
        if base is not None and not base.works:
            probes[feature] = Probe(None, f"needs {NAMESPACES} to be tried")
        else:
            probes[feature] = _try(ask, ["--net"], words, given)
    return Kernel(os.uname().release, probes)


def _overlay() -> list[str]:
    return ["sh", "-c", OVERLAY]


def _try(ask: Ask, namespace: list[str], words: list[str], given: str | None = None) -> Probe:
    for tool in ("unshare", words[0]):
        if shutil.which(tool) is None:
            return Probe(None, f"{tool} is not installed")
    try:
        answer = ask(["unshare", *namespace, *words], given=given)
    except FactError as error:
        return Probe(None, str(error))
    return Probe(answer.status == 0, "" if answer.status == 0 else answer.error or "no message")
