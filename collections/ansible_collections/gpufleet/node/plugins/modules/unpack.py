"""Module `gpufleet.node.unpack`: an archive with a checksum, unpacked at a place once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import beside

DOCUMENTATION = r"""
module: unpack
short_description: Unpacks an archive with a checksum, once
description:
  - The node keeps the checksum of what it has. An archive is sent or fetched only where that
    differs, checked before it is opened, and takes the old folder's place by a rename.
options:
  src:
    description: A file of the operator's, or an address that the node fetches.
    type: str
    required: true
  sha256: {description: Its checksum., type: str, required: true}
  dest: {description: Folder on the node., type: path, required: true}
  archive: {description: Set by the action., type: path}
"""


class Refused(Exception):
    """The archive is not the one that was asked for."""


def fetch(address, folder):
    """Bring an archive to a file."""
    path = os.path.join(folder, "archive")
    with open_url(address, timeout=60) as answer, open(path, "wb") as stream:
        shutil.copyfileobj(answer, stream)
    return path


def unpack(path, sha256, dest, folder):
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise Refused(f"its checksum is {found}, expected {sha256}; nothing was unpacked")
    new = os.path.join(folder, "new")
    with tarfile.open(path) as archive:
        archive.extractall(new, filter="tar")
    os.chmod(new, 0o755)
    with open(os.path.join(new, ".sha256"), "w", encoding="utf-8") as stream:
        stream.write(sha256 + "\n")
    if os.path.lexists(dest):
        os.rename(dest, os.path.join(folder, "old"))
    os.rename(new, dest)


def main():
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "archive": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    dest, sha256, source = params["dest"].rstrip("/"), params["sha256"], params["src"]
    try:
        with open(os.path.join(dest, ".sha256"), encoding="utf-8") as stream:
            there = stream.read().strip()
    except FileNotFoundError:
        there = ""
    if there == sha256:
        module.exit_json(changed=False, wanted=False, diff=[])
    diff = [
        {
            "before_header": dest,
            "after_header": dest,
            "before": f"{there or 'absent'}\n",
            "after": f"{sha256}\n",
        }
    ]
    remote = source.startswith(("https://", "http://"))
    if module.check_mode or not (remote or params["archive"]):
        module.exit_json(changed=module.check_mode, wanted=True, diff=diff)
    parent = os.path.dirname(dest)
    os.makedirs(parent, 0o755, exist_ok=True)
    # Beside its place, so that a rename is enough; removed whatever happens.
    folder = tempfile.mkdtemp(**beside(dest))
    try:
        path = fetch(source, folder) if remote else params["archive"]
        unpack(path, sha256, dest, folder)
    except (Refused, OSError, tarfile.TarError) as error:
        module.fail_json(msg=f"{source}: {error}")
    finally:
        shutil.rmtree(folder)
    module.exit_json(changed=True, wanted=False, diff=diff)


if __name__ == "__main__":
    main()
