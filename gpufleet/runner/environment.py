"""The environment of Ansible: what it needs, and no secret, since ansible-runner records it."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from gpufleet.paths import repo_root

# By name and by beginning of a name.
NEEDED = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR",
     "TZ", "USER", "VIRTUAL_ENV"}
)  # fmt: skip
FAMILIES = ("ANSIBLE_", "GPUFLEET_", "LC_", "XDG_")
SECRET = re.compile(r"PASS|SECRET|TOKEN|CREDENTIAL|API_?KEY|PRIVATE")
# Points to a file, or names one: the path is no secret.
HARMLESS = re.compile(r"_(FILE|PATH)$")


def environment(outer: Mapping[str, str], run: Path) -> dict[str, str]:
    """Variables for Ansible out of those of this process, for a run with its folder."""
    kept = {name: value for name, value in outer.items() if _wanted(name)}
    # Whoever starts us by a full path may not have our environment on PATH.
    kept["PATH"] = f"{Path(sys.executable).parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    kept.setdefault("LANG", "C.UTF-8")
    kept.update(
        {
            "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg"),
            # ansible-runner switches it off where it is not set.
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "gpufleet_watch",
            "ANSIBLE_NOCOWS": "1",
            "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "False",
            "ANSIBLE_NO_LOG": "False",
            # A larger result loses all that it says, also whether it changed anything.
            "MAX_EVENT_RES": str(64 * 1024 * 1024),
            "GPUFLEET_RUN_FOLDER": str(run),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )
    for name in ("ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_STRATEGY", "ANSIBLE_LOG_PATH"):
        kept.pop(name, None)
    return kept


def _wanted(name: str) -> bool:
    if SECRET.search(name) and not HARMLESS.search(name):
        return False
    return name in NEEDED or name.startswith(FAMILIES)
