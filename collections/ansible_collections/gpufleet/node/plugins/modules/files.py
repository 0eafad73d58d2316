"""Module `gpufleet.node.files`: many files of a node in one call."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import stat

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import owner_ids, replace_file

DOCUMENTATION = r"""
module: files
short_description: Lays files, folders and links of a node in one call
description:
  - Every entry names a destination and what is to be there. A file's text is rendered on the
    controller from C(template), or given as C(content) or C(base64); a file of the role's C(files)
    is C(copy).
  - Nothing is changed when any entry cannot be carried out. A file appears by a rename.
  - C(validate) is a command with C(%s) for the new file, run before it is put in place.
options:
  files:
    description:
      - Entries with C(dest) and one of C(template), C(content), C(base64), C(copy), C(link),
        C(folder) (true) or C(absent) (true); besides C(mode) (quoted octal), C(owner), C(group),
        C(validate),
        C(secret) (true - its text is never shown), C(once) (true - kept if there is any) and
        C(when) (a boolean; false leaves the entry out).
    type: list
    elements: dict
    required: true
"""

RETURN = r"""
changed_files:
  description: Destinations that were changed, or would be in check mode.
  type: list
  returned: always
"""

LARGEST_DIFF = 100_000


class Refused(Exception):
    """An entry that cannot be carried out; the text says why."""


def text_of(content):
    """What a diff shows of a file: its text, or that it has none."""
    if content is None:
        return ""
    if len(content) > LARGEST_DIFF or b"\0" in content:
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"({len(content)} bytes, sha256 {digest}...)\n"
    return content.decode("utf-8", "replace")


def current(path):
    """State of a path: what it is, with mode and owner in a line, and its content."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None, None
    except NotADirectoryError as error:
        raise Refused(f"{path}: a part of its path is no folder") from error
    owner = f"{found.st_uid}:{found.st_gid}"
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return ("link", None, None), os.readlink(path)
    if stat.S_ISDIR(found.st_mode):
        return ("folder", mode, owner), None
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as stream:
            return ("file", mode, owner), stream.read()
    return ("other", mode, owner), None


def make_parents(path):
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        os.makedirs(folder, 0o755, exist_ok=True)


class Entry:
    """One thing that is to be at a path."""

    def __init__(self, values, module):
        self.module = module
        self.dest = values["dest"]
        self.secret = bool(values.get("secret"))
        self.validate = values.get("validate")
        self.once = bool(values.get("once"))
        self.kind = self.content = self.mode = self.owner = None
        if values.get("absent"):
            self.kind = "absent"
        elif "link" in values:
            self.kind, self.content = "link", values["link"]
        elif values.get("folder"):
            self.kind = "folder"
        else:
            self.kind, self.content = "file", base64.b64decode(values["content_base64"])
        if self.kind in ("file", "folder"):
            default = "0644" if self.kind == "file" else "0755"
            self.mode = int(str(values.get("mode", default)), 8)
            names = values.get("owner", "root"), values.get("group", "root")
            try:
                self.ids = owner_ids(*names)
            except KeyError as error:
                # In a dry run the package or role that makes the account may not have come yet.
                if not module.check_mode:
                    raise Refused(f"{self.dest}: {error.args[0]}") from error
                self.ids = None
            self.owner = "{}:{}".format(*self.ids) if self.ids else " ".join(names)
        self.before, self.old = current(self.dest)

    @property
    def wanted(self):
        return None if self.kind == "absent" else (self.kind, self.mode, self.owner)

    def differs(self):
        if self.once and self.before is not None:
            return False
        return self.before != self.wanted or (
            self.kind in ("file", "link") and self.old != self.content
        )

    def examine(self):
        """Raise Refused for what must not be replaced by this entry."""
        if self.before is None:
            return
        here = self.before[0]
        if here == "folder" and self.kind in ("file", "link"):
            raise Refused(f"{self.dest} is a folder; a {self.kind} is to be there")
        if here == "other":
            raise Refused(f"{self.dest} is neither file, folder nor link")
        if self.kind == "folder" and here == "file":
            raise Refused(f"{self.dest} is a file; a folder is to be there")
        if self.kind == "absent" and here == "folder" and os.listdir(self.dest):
            raise Refused(f"{self.dest} is a folder with something in it; remove it by hand")

    def apply(self):
        if self.kind == "absent":
            (os.rmdir if self.before[0] == "folder" else os.unlink)(self.dest)
        elif self.kind == "folder":
            if self.before is not None and self.before[0] == "link":
                os.unlink(self.dest)
            os.makedirs(self.dest, 0o755, exist_ok=True)
            os.chown(self.dest, *self.ids)
            os.chmod(self.dest, self.mode)
        elif self.kind == "link":
            make_parents(self.dest)
            temporary = f"{self.dest}.gpufleet-new"
            if os.path.lexists(temporary):
                os.unlink(temporary)
            os.symlink(self.content, temporary)
            os.rename(temporary, self.dest)
        else:
            make_parents(self.dest)
            replace_file(self.dest, self.content, self.mode, *self.ids, check=self.check)

    def check(self, path):
        if self.validate:
            command = [word.replace("%s", path) for word in shlex.split(self.validate)]
            code, out, err = self.module.run_command(command)
            if code != 0:
                raise Refused(
                    f"{self.dest}: `{self.validate}` refused the new text: {(err or out).strip()}"
                )

    def shown(self, state, content):
        if state is None:
            return "absent\n"
        kind, mode, owner = state
        head = "" if mode is None else f"{kind} mode {mode:04o} owner {owner}\n"
        if kind == "link":
            return f"link to {content}\n"
        if kind != "file":
            return head or f"{kind}\n"
        if self.secret:
            return head + f"(secret, sha256 {hashlib.sha256(content).hexdigest()[:8]}...)\n"
        return head + text_of(content)

    def diff(self):
        return {
            "before_header": self.dest,
            "after_header": self.dest,
            "before": self.shown(self.before, self.old),
            "after": self.shown(self.wanted, self.content),
        }


def main():
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True}},
        supports_check_mode=True,
    )
    changed, diffs = [], []
    try:
        entries = [Entry(values, module) for values in module.params["files"]]
        differing = [entry for entry in entries if entry.differs()]
        for entry in differing:
            entry.examine()
        for entry in differing:
            diffs.append(entry.diff())
            if not module.check_mode:
                entry.apply()
            changed.append(entry.dest)
    except (Refused, OSError) as error:
        module.fail_json(msg=str(error), changed=bool(changed), changed_files=changed, diff=diffs)
    module.exit_json(changed=bool(changed), changed_files=changed, diff=diffs)


if __name__ == "__main__":
    main()
