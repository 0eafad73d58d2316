"""Module `gpufleet.node.checks`: asks a node's services whether they do their work."""

from __future__ import annotations

import re
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: checks
short_description: Asks a node's services whether they do their work
description:
  - Runs read-only commands until each says what it should, or its time is over.
  - In a dry run what is not as it should be is a warning, as the node may not be configured yet.
options:
  checks:
    description:
      - Entries with C(name), C(command) (a list of words), C(stdin), C(matches) (regular expression
        that its output has to contain; without it the exit code decides), C(refuses) (one that it
        must not contain), C(within) (seconds), C(hint) (what to do) and C(when) (false leaves it
        out).
    type: list
    elements: dict
    required: true
"""

KEYS = {"name", "command", "matches", "refuses", "within", "hint", "when", "stdin"}


def look(check):
    """None when all is well, else what is wrong."""
    try:
        done = subprocess.run(
            [str(word) for word in check["command"]],
            input=str(check.get("stdin", "")), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=30, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return f"there is no {check['command'][0]}"
    except subprocess.TimeoutExpired:
        return "no answer within 30 s"
    text = done.stdout.strip()
    if "matches" in check:
        if not re.search(check["matches"], text, re.MULTILINE):
            return f"expected {check['matches']!r}, seen: {text[-600:] or '(nothing)'}"
    elif done.returncode != 0:
        return f"exit code {done.returncode}: {text[-600:]}"
    if "refuses" in check and re.search(check["refuses"], text, re.MULTILINE):
        return f"seen: {text[-600:]}"
    return None


def main():
    module = AnsibleModule(
        argument_spec={"checks": {"type": "list", "elements": "dict", "required": True}},
        supports_check_mode=True,
    )
    wrong = []
    for check in module.params["checks"]:
        if unknown := set(check) - KEYS:
            module.fail_json(msg=f"{check.get('name')}: no such key: {', '.join(sorted(unknown))}")
        if check.get("when", True) is not True:
            continue
        deadline = time.monotonic() + (0 if module.check_mode else float(check.get("within", 0)))
        problem = look(check)
        while problem is not None and time.monotonic() < deadline:
            time.sleep(0.25)
            problem = look(check)
        if problem is not None:
            command = " ".join(str(word) for word in check["command"])
            hint = f"; {check['hint']}" if check.get("hint") else ""
            wrong.append(f"{check['name']}: `{command}`: {problem}{hint}")
    if wrong and module.check_mode:
        for text in wrong:
            module.warn(text)
    elif wrong:
        module.fail_json(msg="\n".join(wrong))
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
