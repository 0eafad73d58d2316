"""Make ahead what local nodes are made from: `python -m infra.local.prepare [--check]`."""

import sys

from .command import HostError
from .image import ImageRecipe, ensure_image
from .simulated import ensure_library, library_ready


def main(arguments: list[str]) -> int:
    """Build the default image and the simulated GPU library, or say whether both are there."""
    recipe = ImageRecipe()
    if arguments == ["--check"]:
        return 0 if recipe.ready and library_ready() else 1
    try:
        print(ensure_library())
        print(ensure_image(recipe))
    except HostError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
