"""kvcal-torch from the source tree."""

import sys

import package  # noqa: F401

from kvcal.torch_calibrate import main

sys.exit(main())
