"""See `cli`."""

import sys

from gpufleet_agent.checkpoint.cli import main

sys.exit(main())
