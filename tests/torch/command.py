"""kvcal-torch from the source tree."""

import sys

import package  # noqa: F401

from kvcal.torch_command import main

sys.exit(main())
