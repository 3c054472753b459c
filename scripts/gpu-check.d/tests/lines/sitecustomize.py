"""Records which lines of the GPU scripts a process runs. A process that is started with this folder on PYTHONPATH
writes them into $LINES_FOLDER when it ends, or when os._exit or os.execv ends it."""
import json
import os
import sys
import threading

# This file is in scripts/gpu-check.d/tests/lines.
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
WATCHED = tuple(os.path.join(ROOT, "scripts", name) for name in ("gpu-probe", "gpu-check.d", "gpu-session"))
seen = set()


def name_of(path):
    """Returns a watched file's path from the repository's root; None for others, including tests."""
    path = os.path.abspath(path)
    name = os.path.relpath(path, ROOT)
    return name if path.startswith(WATCHED) and os.sep + "tests" + os.sep not in name else None


names, calls = {}, {}
# A function called this often has run every line that it will run: watching it longer only takes time.
ENOUGH = 1000


def trace(frame, event, _):
    path = frame.f_code.co_filename
    if path not in names:
        names[path] = name_of(path)
    name = names[path]
    if name is None:
        return None
    calls[frame.f_code] = calls.get(frame.f_code, 0) + 1
    if calls[frame.f_code] > ENOUGH:
        return None
    seen.add((name, frame.f_lineno))
    done = set()

    def line(frame, event, _):
        # Looks the line up before creating anything, so that a loop's line is recorded once.
        if frame.f_lineno not in done:
            done.add(frame.f_lineno)
            seen.add((name, frame.f_lineno))
        return line

    return line


def write():
    with open(os.path.join(os.environ["LINES_FOLDER"], f"{os.getpid()}-{threading.get_native_id()}.json"), "w") as file:
        json.dump(sorted(seen), file)


def before(function):
    def wrapped(*arguments):
        write()
        function(*arguments)

    return wrapped


if "LINES_FOLDER" in os.environ:
    import atexit

    atexit.register(write)
    os._exit, os.execv = before(os._exit), before(os.execv)
    sys.settrace(trace)
    threading.settrace(trace)
