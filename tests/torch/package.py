"""The package `kvcal` from the source tree, which the build puts together in a wheel: import this before its modules."""

import os
import subprocess
import sys
import types
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
KVCAL = os.environ.get("KVCAL", str(SOURCE / "build/release/kvcal"))


def run(*arguments, check=True):
    return subprocess.run([KVCAL, *map(str, arguments)], check=check, stdout=subprocess.PIPE, text=True)


package = types.ModuleType("kvcal")
package.__path__ = [str(SOURCE / "apps/python/kvcal")]
package.__version__ = "0"
package.run = run
sys.modules["kvcal"] = package
