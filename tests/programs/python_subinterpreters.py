"""Runs code in sub-interpreters that calls CUDA, and prints for each call the frames that Python says it has there, and the
line of the main interpreter that runs it."""

import json
import sys

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

CODE = """
import ctypes, json, os, sys, threading
runtime = ctypes.CDLL("libcudart.so.12")
runtime.cudaMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
block = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0


def call(bytes, result):
    assert result == 0
    frames, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append(f"{name} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    os.write(1, (json.dumps({"bytes": bytes, "stack": frames, "main": MAIN}) + "\\n").encode())


def nested(depth, bytes):
    if depth:
        return nested(depth - 1, bytes)
    call(bytes, runtime.cudaMemset(block, 0, bytes))


for at in range(5):
    nested(at, BASE + at)
call(BASE + 9, runtime.cudaMemset(block, 0, BASE + 9))
"""


def create():
    if sys.version_info < (3, 13):
        return interpreters.create(isolated=False)  # ctypes cannot be loaded in an isolated one.
    return interpreters.create("legacy")


for round in range(3):
    made = create()
    line = f"<module> ({__file__}:{sys._getframe().f_lineno + 2})"
    code = CODE.replace("MAIN", repr([line])).replace("BASE", str(1000 * (round + 1)))
    interpreters.run_string(made, code)
    interpreters.destroy(made)
