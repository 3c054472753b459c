"""Questions that need a process of their own: they may crash it, or depend on its environment."""
import os
import sys

import limited

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu-probe")


def is_quick():
    """Less of everything, as the dry run wants it."""
    return bool(os.environ.get("GPU_PROBE_QUICK"))


def command(section, argument):
    return [sys.executable, "-B", SCRIPT, "--child", section, argument]


def child(section, argument, seconds=15, **environment):
    """What a section's `child` function says of an argument; under "error", how it ended when it did not end well."""
    seconds *= float(os.environ.get("GPU_PROBE_PATIENCE", 1))
    ended = limited.run(command(section, argument), seconds, {**os.environ, **environment})
    found = limited.last_document(ended.output) or {}
    if ended.why:
        found["error"] = ended.words()
    return found
