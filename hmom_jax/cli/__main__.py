"""``python -m hmom_jax.cli``: the command line where scripts are not on the path."""

import sys

from hmom_jax.cli import main

sys.exit(main())
