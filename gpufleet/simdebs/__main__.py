"""`python -m gpufleet.simdebs FOLDER KEY`: make the repository; says as JSON what it is."""

import argparse
import json
import sys
from pathlib import Path

from .repository import SigningError, build


def main() -> int:
    """Make the repository, or say why not."""
    parser = argparse.ArgumentParser(prog="gpufleet.simdebs", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the repository is to be")
    parser.add_argument("key", type=Path, help="secret key to sign with; made if it is not there")
    options = parser.parse_args()
    try:
        built = build(options.folder, options.key)
    except SigningError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    facts = {"fingerprint": built.fingerprint, "packages": built.packages, "changed": built.changed}
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
