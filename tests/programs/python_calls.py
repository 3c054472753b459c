"""Calls CUDA from many kinds of Python code, and prints for each call what Python itself says of its stack.

Each call is a memset of a size of its own, by which a test finds its operation: `call(…)` prints the size, the frames of
the line that it is called on, and their functions, the innermost first.
"""

import asyncio
import ctypes
import json
import os
import sys
import threading

runtime = ctypes.CDLL("libcudart.so.12")
runtime.cudaMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
block = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
sizes = iter(range(64, 1 << 20))
lock = threading.Lock()


def size():
    with lock:
        return next(sizes)


def described(frame):
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    return f"{name} ({code.co_filename}:{frame.f_lineno})"


def named(code):
    """The name of a function as torch.profiler has it."""
    return f"{os.path.basename(code.co_filename)}({code.co_firstlineno}): {code.co_name}"


def call(bytes, result):
    """Prints the frames of the caller, on whose line CUDA was called with this size."""
    assert result == 0
    frames, functions, frame = [], [], sys._getframe(1)
    while frame:
        frames.append(described(frame))
        functions.append(named(frame.f_code))
        frame = frame.f_back
    line = json.dumps({"bytes": bytes, "stack": frames, "functions": functions})
    with lock:
        os.write(1, (line + "\n").encode())


def set_here(bytes):
    call(bytes, runtime.cudaMemset(block, 0, bytes))


def recursion(depth):
    n = size(); call(n, runtime.cudaMemset(block, 0, n))
    if depth:
        recursion(depth - 1)
    n = size(); call(n, runtime.cudaMemset(block, 0, n))


def generator(count):
    for _ in range(count):
        n = size(); call(n, runtime.cudaMemset(block, 0, n))
        yield n


def delegating():
    yield from generator(3)
    set_here(size())


class Model:
    def forward(self):
        n = size(); call(n, runtime.cudaMemset(block, 0, n))
        return [set_here(size()) for _ in range(2)]

    @staticmethod
    def helper():
        n = size(); call(n, runtime.cudaMemset(block, 0, n))

    @property
    def value(self):
        set_here(size())
        return 1


def decorated(function):
    def wrapper(*arguments):
        set_here(size())
        return function(*arguments)

    return wrapper


@decorated
def with_decorator():
    set_here(size())


async def coroutine(depth):
    n = size(); call(n, runtime.cudaMemset(block, 0, n))
    await asyncio.sleep(0)
    if depth:
        await coroutine(depth - 1)
    set_here(size())


def called_back_by_c():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    def compare(left, right):
        set_here(size())
        return left[0] - right[0]

    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), compare)


def executed():
    """Code objects that are freed, and whose addresses and those of their parts are used again."""
    for n in range(60):
        name = "first" if n % 2 else "other"
        source = "\n" * (n % 7) + f"def {name}():\n" + "\n" * (n % 5) + "    set_here(size())\n" + f"{name}()\n"
        exec(compile(source, f"made{n % 3}.py", "exec"), {"set_here": set_here, "size": size})
        exec("n = size(); call(n, memset(block, 0, n))", dict(globals(), memset=runtime.cudaMemset))


def ünï_cødé():
    set_here(size())


def thread(depth):
    for _ in range(20):
        recursion(depth)
        list(generator(2))


def shared_by_threads():
    """Functions that threads begin to run while others are inside of them: a free-threaded build gives each a copy of their own."""
    for _ in range(4):
        source = "def shared(n):\n    set_here(size())\n    if n: shared(n - 1)\n    set_here(size())\n"
        names = {"set_here": set_here, "size": size}
        exec(compile(source, "shared.py", "exec"), names)
        run([threading.Thread(target=names["shared"], args=(5,)) for _ in range(8)])


def run(threads):
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def many_lines():
    total = 0
    for outer in range(3):
        if outer == 1:
            try:
                set_here(size())
                raise ValueError
            except ValueError:
                set_here(size())
            finally:
                set_here(size())
        else:
            set_here(size())
        total += (lambda: set_here(size()) or 1)()
    return total


def main():
    recursion(6)
    recursion(200)
    list(generator(3))
    list(delegating())
    sum(set_here(size()) or 1 for _ in range(3))
    Model().forward()
    Model.helper()
    Model().value
    with_decorator()
    asyncio.run(coroutine(3))
    called_back_by_c()
    executed()
    ünï_cødé()
    many_lines()
    sorted([2, 1], key=lambda number: set_here(size()) or number)
    run([threading.Thread(target=thread, args=(depth,)) for depth in (1, 4, 9)])
    shared_by_threads()
    assert runtime.cudaDeviceSynchronize() == 0


main()
