"""`python -m gpuspy` is the gpuspy that this package was installed with, also where its folder is not on PATH."""

import os
import sys
import sysconfig

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def places():
    """Yields the folders that an installer may have put the program into."""
    # <prefix>/lib/python3.N/site-packages/gpuspy, in a virtual environment or not.
    yield os.path.join(os.path.abspath(os.path.join(PACKAGE, *[os.pardir] * 4)), "bin")
    yield sysconfig.get_path("scripts")


def main():
    for place in places():
        program = os.path.join(place, "gpuspy")
        if os.access(program, os.X_OK):
            os.execv(program, [program, *sys.argv[1:]])
    sys.exit(f"gpuspy: its program is not installed: looked in {', '.join(places())}")


if __name__ == "__main__":
    main()
