"""What kvcal-torch starts: says in one line what it lacks, where its own modules would end with a traceback."""

import sys
from typing import Optional, Sequence

# The extra `torch` of pyproject.toml, as pip takes it.
NEEDED = "accelerate numpy 'torch>=2.7' 'transformers>=5.3'"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    try:
        from kvcal.torch_calibrate import main as calibrate
    except (ImportError, OSError) as error:  # a library that cannot be loaded is an OSError
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        print(f"kvcal-torch: error: cannot load what runs models: {reason}; it needs: pip install {NEEDED}", file=sys.stderr)
        return 2
    return calibrate(arguments)


if __name__ == "__main__":
    sys.exit(main())
