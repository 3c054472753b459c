"""endings.py KIND: a program that ends, or goes on, in one of many ways. What it prints is the same in each run."""
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import torch

kind = sys.argv[1]


def work(n=200, stream=None):
    x = torch.ones(256, 256, device="cuda")
    for _ in range(n):
        x = (x @ x).clamp(-1, 1)
    return x


def show(*what):
    print(*what, flush=True)


if kind == "assert":
    x = torch.zeros(10, device="cuda")
    try:
        print(x[torch.tensor([50], device="cuda")].item())
    except Exception as error:
        show(type(error).__name__)
    try:
        work(3).sum().item()
    except Exception as error:
        show(type(error).__name__)
    sys.exit(5)
elif kind == "oom":
    try:
        torch.empty(300 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        show(type(error).__name__)
    show(work().sum().item() > 0)
elif kind == "illegal":
    import cupy
    kernel = cupy.RawKernel('extern "C" __global__ void bad(int *p) { *(int *)0x10 = 1; }', "bad")
    try:
        kernel((1,), (1,), (0,))
        cupy.cuda.runtime.deviceSynchronize()
    except Exception as error:
        show(type(error).__name__)
    sys.exit(6)
elif kind == "sysexit":
    work(2000)
    sys.exit(3)
elif kind == "osexit":
    work(2000)
    os._exit(4)
elif kind in ("sigint", "sigterm", "sigkill"):
    number = getattr(signal, kind.upper())
    work(500)
    threading.Timer(1.0, lambda: os.kill(os.getpid(), number)).start()
    while True:
        work(50).sum().item()
elif kind == "forkchild":
    work()
    pids = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            import json, decimal, sqlite3, xml.dom.minidom
            os._exit(9)
        pids.append(pid)
        work(20)
    show([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
elif kind == "threads":
    out = [None] * 16
    def one(n):
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            for _ in range(10):
                out[n] = work(100).sum()
        s.synchronize()
    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    [t.start() for t in threads]; [t.join() for t in threads]
    show([float(x) for x in out])
elif kind == "manythreads":
    # Threads that come and go, each with one piece of work.
    total = []
    def one():
        total.append(float(work(5).sum()))
    for _ in range(40):
        threads = [threading.Thread(target=one) for _ in range(10)]
        [t.start() for t in threads]; [t.join() for t in threads]
    show(len(total), set(total))
elif kind == "nested":
    code = "import torch; x = torch.ones(10, device='cuda'); print(x.sum().item())"
    work()
    for _ in range(2):
        show(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
elif kind == "shell":
    show(subprocess.run("for i in 1 2 3; do echo $i; done | sort -r", shell=True, capture_output=True, text=True).stdout)
    work()
elif kind == "exec":
    work()
    torch.cuda.synchronize()
    if len(sys.argv) < 3:
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    show("again")
elif kind == "reset":
    from cuda.bindings import runtime
    import numpy
    for _ in range(3):
        err, p = runtime.cudaMalloc(1 << 20)
        show(runtime.cudaMemset(p, 1, 1 << 20)[0], runtime.cudaDeviceSynchronize()[0], runtime.cudaDeviceReset()[0])
elif kind == "ipc":
    import torch.multiprocessing as mp
    def child(queue, back):
        total = 0.0
        for _ in range(5):
            x = queue.get()
            total += float((x * 2).sum())
            del x
        back.put(total)
    context = mp.get_context("fork" if False else "spawn")
    if __name__ == "__main__":
        import ipc_child
        queue, back = context.Queue(), context.Queue()
        p = context.Process(target=ipc_child.child, args=(queue, back))
        p.start()
        kept = [torch.full((1000,), float(n), device="cuda") for n in range(5)]
        for x in kept:
            queue.put(x)
        show(back.get())
        p.join()
        show(p.exitcode)
elif kind in ("expandable", "async", "default"):
    held, peak = [], 0
    for n in range(60):
        held.append(torch.empty((n % 7 + 1) << 22, dtype=torch.uint8, device="cuda"))
        if n % 3 == 2:
            held.pop(0)
        if n == 40:
            held.clear()
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    show("peak", torch.cuda.max_memory_reserved())
elif kind == "capture":
    graphs = []
    x = torch.ones(512, device="cuda")
    stop = False
    def other():
        y = torch.ones(64, pin_memory=True)
        while not stop:
            torch.cuda.Event().query()
            time.sleep(0)
    t = threading.Thread(target=other); t.start()
    for n in range(30):
        g = torch.cuda.CUDAGraph()
        s = torch.cuda.Stream()
        with torch.cuda.graph(g, stream=s, capture_error_mode="thread_local"):
            y = x
            for _ in range(20):
                y = y + 1
        graphs.append((g, y))
    stop = True; t.join()
    for _ in range(200):
        for g, y in graphs:
            g.replay()
    show(sorted({float(y.sum()) for g, y in graphs}))
elif kind == "deep":
    x = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    t = time.perf_counter()
    for _ in range(3000):
        y = x @ x
    torch.cuda.synchronize()
    show("launches", 3000)
elif kind == "priorities":
    low, high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-5)
    for _ in range(50):
        with torch.cuda.stream(low):
            a = work(20)
        with torch.cuda.stream(high):
            high.wait_stream(low)
            b = a + 1
    torch.cuda.synchronize()
    show(float(b.sum()))
elif kind == "profiler":
    with torch.profiler.profile() as prof:
        work(100).sum().item()
    names = {e.key for e in prof.key_averages()}
    show(any("gemm" in n or "sgemm" in n or "cutlass" in n for n in names))
    show(sum(e.count for e in prof.key_averages() if e.key == "aten::matmul"))
elif kind == "hooks":
    # Libraries that are loaded and unloaded again while the GPU works.
    import _ctypes
    libs = ["libm.so.6", "libresolv.so.2", "libutil.so.1", "libanl.so.1"]
    for n in range(200):
        handle = ctypes.CDLL(libs[n % 4])
        work(5)
        _ctypes.dlclose(handle._handle)
    show("ok")
