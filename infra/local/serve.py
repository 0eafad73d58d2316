"""Entry point of the provider plugin: `python -m infra.local.serve [ENGINE]`."""

from gpufleet import __version__

from .protocol import serve
from .resources import KINDS

if __name__ == "__main__":
    serve(__version__, KINDS)
