"""Runs tests that need a process of their own: they may crash it, or depend on its environment."""
import os
import sys

import limited
from cuda import CudaError

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu-probe")


def is_quick():
    """Returns whether to do less of everything, as in the dry run."""
    return bool(os.environ.get("GPU_PROBE_QUICK"))


def command(section, argument):
    return [sys.executable, "-B", SCRIPT, "--child", section, argument]


def child(section, argument, seconds=15, **environment):
    """Returns what a section's `child` function reports for an argument; if it failed, "error" says how it ended."""
    seconds *= float(os.environ.get("GPU_PROBE_PATIENCE", 1))
    ended = limited.run(command(section, argument), seconds, {**os.environ, **environment})
    found = limited.last_document(ended.output) or {}
    if ended.why:
        found["error"] = ended.words()
    return found


def kept(ask, report):
    """Calls `ask` with a function that adds rows to those reported before; if it is stopped, "stopped" says by what."""
    rows = {}

    def keep(found):
        rows.update(found)
        report(rows)

    try:
        ask(keep)
    except (CudaError, AttributeError, RuntimeError) as error:
        report({**rows, "stopped": str(error)})
