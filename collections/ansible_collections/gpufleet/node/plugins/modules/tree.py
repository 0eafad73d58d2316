"""Module `gpufleet.node.tree`: a folder of the operator's, laid on the node as a whole."""

from __future__ import annotations

import base64
import io
import os
import shutil
import tarfile
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import beside

DOCUMENTATION = r"""
module: tree
short_description: Lays a folder of the operator's on the node as a whole
description:
  - For small folders that change rarely. The node keeps the digest of what it has; the folder is
    sent only when that differs, and takes the old one's place by a rename.
options:
  src: {description: Folder on the controller., type: path}
  dest: {description: Folder on the node., type: path, required: true}
  digest: {description: Set by the action., type: str}
  archive: {description: Set by the action., type: str}
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "path"},
            "dest": {"type": "path", "required": True},
            "digest": {"type": "str", "required": True},
            "archive": {"type": "str"},
        },
        supports_check_mode=True,
    )
    dest, digest = module.params["dest"].rstrip("/"), module.params["digest"]
    marker = f"{dest}.digest"
    try:
        with open(marker, encoding="utf-8") as stream:
            there = stream.read().strip() if os.path.isdir(dest) else ""
    except FileNotFoundError:
        there = ""
    if there == digest:
        module.exit_json(changed=False, wanted=False)
    diff = [
        {
            "before_header": dest,
            "after_header": dest,
            "before": f"{there or 'absent'}\n",
            "after": f"{digest}\n",
        }
    ]
    if module.check_mode or not module.params["archive"]:
        module.exit_json(changed=module.check_mode, wanted=True, diff=diff)
    os.makedirs(os.path.dirname(dest), 0o755, exist_ok=True)
    new = tempfile.mkdtemp(**beside(dest))
    try:
        with tarfile.open(
            fileobj=io.BytesIO(base64.b64decode(module.params["archive"]))
        ) as archive:
            archive.extractall(new, filter="data")
        os.chmod(new, 0o755)
        if os.path.lexists(marker):
            os.unlink(marker)
        if os.path.isdir(dest):
            shutil.rmtree(dest)
        os.rename(new, dest)
        with open(marker, "w", encoding="utf-8") as stream:
            stream.write(digest + "\n")
    finally:
        if os.path.isdir(new):
            shutil.rmtree(new)
    module.exit_json(changed=True, wanted=False, diff=diff)


if __name__ == "__main__":
    main()
