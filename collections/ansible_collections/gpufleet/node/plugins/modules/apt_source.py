"""Module `gpufleet.node.apt_source`: one source with one key for a package repository."""

from __future__ import annotations

import os
import re
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils import aptlock
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import replace_file

DOCUMENTATION = r"""
module: apt_source
short_description: One source with one key for a package repository
description:
  - Compares the key with its pinned fingerprint before anything of apt is touched.
  - Brings the repository's lists when they are missing or older than a local repository.
  - Removes every other entry for the same address first, in either form, whatever file it is in.
    Two entries with different keys for one address make apt refuse both.
options:
  name: {description: Name of the source and key files., type: str, required: true}
  uri: {description: Address of the repository., type: str, required: true}
  suite: {description: Suite; ends in C(/) for a flat one., type: str, required: true}
  components: {description: Components., type: list, elements: str, default: []}
  key_file: {description: The key on the node., type: path, required: true}
  fingerprint: {description: Fingerprint of the key., type: str, required: true}
"""

FOLDER = "/etc/apt/sources.list.d"
LISTS = "/var/lib/apt/lists"
LINE = re.compile(r"^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)")


class Refused(Exception):
    """The key is not the pinned one, or cannot be read."""


def fingerprints(module, path):
    """Fingerprints of the primary keys in a file."""
    with tempfile.TemporaryDirectory() as home:
        code, out, err = module.run_command(
            ["gpg", "--homedir", home, "--batch", "--show-keys", "--with-colons", path]
        )
    if code != 0:
        raise Refused(f"{path} holds no key: {err.strip()}")
    found, primary = [], False
    for row in out.splitlines():
        fields = row.split(":")
        if fields[0] == "pub":
            primary = True
        elif fields[0] == "fpr" and primary:
            found.append(fields[9])
            primary = False
    return found


def same(one, other):
    return one.rstrip("/") == other.rstrip("/")


def less_lines(text, uri):
    """A file of one-line entries without those for the address."""
    kept = []
    for line in text.splitlines(keepends=True):
        match = LINE.match(line)
        if not (match and same(match.group(1), uri)):
            kept.append(line)
    return "".join(kept)


def less_stanzas(text, uri):
    """A deb822 file without the address; a stanza of that address alone goes whole."""
    kept, stanzas = [], re.split(r"\n\s*\n", text.strip("\n"))
    for stanza in stanzas:
        match = re.search(r"^URIs:(.*(?:\n[ \t]+.*)*)", stanza, re.MULTILINE | re.IGNORECASE)
        addresses = match.group(1).split() if match else []
        others = [address for address in addresses if not same(address, uri)]
        if len(others) == len(addresses):
            kept.append(stanza)
        elif others:
            kept.append(stanza.replace(match.group(0), "URIs: " + " ".join(others)))
    if kept == stanzas:
        return text
    return "\n\n".join(kept) + ("\n" if kept else "")


def foreign(name, uri):
    """Files with entries of others for the address: path, old text, new text."""
    paths = ["/etc/apt/sources.list"]
    if os.path.isdir(FOLDER):
        paths += [os.path.join(FOLDER, x) for x in sorted(os.listdir(FOLDER))]
    for path in paths:
        if path == f"{FOLDER}/{name}.sources" or not path.endswith((".list", ".sources")):
            continue
        try:
            with open(path, encoding="utf-8") as stream:
                old = stream.read()
        except FileNotFoundError:
            continue
        new = (less_stanzas if path.endswith(".sources") else less_lines)(old, uri)
        if new.strip() != old.strip():
            yield path, old, new


def stanza(params, key_path):
    rows = [
        "# Written by gpufleet; changes are lost.",
        "Types: deb",
        f"URIs: {params['uri']}",
        f"Suites: {params['suite']}",
    ]
    if params["components"]:
        rows.append(f"Components: {' '.join(params['components'])}")
    return "\n".join([*rows, f"Signed-By: {key_path}"]) + "\n"


def lists_missing(uri):
    """Whether apt has no lists of the repository yet, or older ones than a local repository has."""
    begin = (
        re.sub(r"^(file:|\w+://)(//)?", "", uri).rstrip("/").replace("_", "%5f").replace("/", "_")
    )
    found = [os.path.join(LISTS, x) for x in os.listdir(LISTS) if x.startswith(begin)]
    found = [path for path in found if path.endswith(("Release", "Packages"))]
    if not found:
        return True
    local = re.match(r"^file:(?://)?(/.*)", uri)
    if not local:
        return False
    newest = max(
        (os.stat(os.path.join(folder, name)).st_ctime
         for folder, _, names in os.walk(os.path.join(local.group(1), "dists")) for name in names),
        default=0,
    )  # fmt: skip
    return newest > min(os.lstat(path).st_ctime for path in found)


def bring_lists(module, source):
    """Bring the lists of this source alone; raise Refused with what apt says."""
    aptlock.wait(300)
    code, out, err = module.run_command(
        ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={source}", "-o", "Dir::Etc::sourceparts=-",
         "-o", "APT::Get::List-Cleanup=false", "-o", "DPkg::Lock::Timeout=300", "update"],
        environ_update={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    if code != 0 or "\nErr:" in "\n" + out:
        raise Refused(f"apt refuses the repository of {source}: {(err or out).strip()[-1500:]}")


def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "uri": {"type": "str", "required": True},
            "suite": {"type": "str", "required": True},
            "components": {"type": "list", "elements": "str", "default": []},
            "key_file": {"type": "path", "required": True, "no_log": False},
            "fingerprint": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = params["fingerprint"].replace(" ", "").upper()
    diffs = []

    def lay(path, content):
        old = read(path)
        if old == content:
            return
        text = "" if old is None else old.decode("utf-8", "replace")
        diffs.append({"before_header": path, "after_header": path, "before": text,
                      "after": content.decode("utf-8", "replace")})  # fmt: skip
        if not module.check_mode:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            replace_file(path, content, 0o644, 0, 0)

    try:
        key = read(params["key_file"])
        if key is None:
            if module.check_mode:
                # An earlier task of the same run brings it.
                module.exit_json(changed=True, diff=[])
            raise Refused(f"there is no key at {params['key_file']}")
        found = fingerprints(module, params["key_file"])
        if found != [wanted]:
            raise Refused(
                f"the key of {params['uri']} is {', '.join(found) or 'none'}, pinned is {wanted}; "
                f"nothing was changed. If the repository has a new key, pin its fingerprint"
            )
        for path, old, new in foreign(params["name"], params["uri"]):
            diffs.append({"before_header": path, "after_header": path, "before": old, "after": new})
            if module.check_mode:
                continue
            if new.strip():
                replace_file(path, new.encode(), 0o644, 0, 0)
            else:
                os.unlink(path)
        armored = key.lstrip().startswith(b"-----BEGIN")
        key_path = f"/etc/apt/keyrings/{params['name']}.{'asc' if armored else 'gpg'}"
        lay(key_path, key)
        source = f"{FOLDER}/{params['name']}.sources"
        lay(source, stanza(params, key_path).encode())
        if not module.check_mode and (diffs or lists_missing(params["uri"])):
            bring_lists(module, source)
    except (Refused, OSError, aptlock.LockHeld) as error:
        module.fail_json(msg=str(error), diff=diffs)
    module.exit_json(changed=bool(diffs), diff=diffs)


if __name__ == "__main__":
    main()
