"""Lookup `gpufleet.node.secret`: a random secret of the cluster, kept by the operator."""

from __future__ import annotations

import base64
import os
import re
import secrets
import tempfile
from pathlib import Path

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: secret
short_description: A random secret of the cluster, made when it is first asked for
description:
  - Kept in C(.secrets) of the cluster's inventory folder, readable by its owner alone, and never
    changed afterwards. What is to rotate it removes or replaces the file.
options:
  _terms:
    description: Name of the secret.
    required: true
  bytes:
    description: How many random bytes it is made of.
    type: int
    default: 32
  form:
    description: C(hex) for passwords, C(base64) for binary keys.
    type: str
    choices: [hex, base64]
    default: hex
"""

NAME = re.compile(r"[a-z][a-z0-9_]*")


class LookupModule(LookupBase):
    """Reads a secret, or makes it; two that ask at once get the same one."""

    def run(self, terms, variables=None, **kwargs):
        """Text of each secret."""
        self.set_options(var_options=variables, direct=kwargs)
        folder = (variables or {}).get("inventory_dir")
        if not folder:
            raise AnsibleLookupError("a secret belongs to a cluster: use an inventory folder (-i)")
        return [self._secret(Path(folder) / ".secrets", name) for name in terms]

    def _secret(self, folder, name):
        if not NAME.fullmatch(name):
            raise AnsibleLookupError(f"{name!r} is no name of a secret (such as munge_key)")
        path = folder / name
        if not path.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            with os.fdopen(descriptor, "w") as stream:
                stream.write(self._random())
                stream.flush()
                os.fsync(stream.fileno())
            try:
                # Unlike a rename it fails when another process was first: then that one counts.
                os.link(temporary, path)
            except FileExistsError:
                pass
            finally:
                os.unlink(temporary)
        found = path.stat()
        if found.st_mode & 0o077:
            raise AnsibleLookupError(f"{path} may be read by others; chmod 600 it, and rotate it")
        text = path.read_text().strip()
        if not text:
            raise AnsibleLookupError(f"{path} is empty; remove it to have a new secret made")
        return text

    def _random(self):
        value = secrets.token_bytes(self.get_option("bytes"))
        return value.hex() if self.get_option("form") == "hex" else base64.b64encode(value).decode()
