"""`python -m fairbound` is the command line."""

import sys

from fairbound.cli.app import main

sys.exit(main())
