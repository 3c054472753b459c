"""The machine that the GPU is in: kernel, clocks, container, and the Linux calls that a profiler of this kind relies
on."""
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import signal
import time

SEGMENT_BYTES = 2_400_000_000
MADV_POPULATE_WRITE = 23  # Linux 5.14
MADV_WIPEONFORK = 18  # Linux 4.14
WCLONE = -0x80000000
CLONE = {"x86_64": 56, "aarch64": 220}


def read(path, limit=4000):
    try:
        with open(path, errors="replace") as file:
            return file.read(limit).strip()
    except OSError as error:
        return f"({errno.errorcode.get(error.errno, error.errno)})"


def attempt(what):
    """Returns a check's result, or why it could not be made."""
    try:
        return what()
    except Exception as error:  # the checks are independent
        return {"error": f"{type(error).__name__}: {error}"}


def memfd():
    started = time.perf_counter_ns()
    fd = os.memfd_create("gpu-probe", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SEGMENT_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    mapped = time.perf_counter_ns()
    memory = mmap.mmap(fd, SEGMENT_BYTES)
    done = time.perf_counter_ns()
    try:
        os.ftruncate(fd, 4096)
        holds = False
    except OSError:
        holds = True
    length = 256 << 10
    started_populate = time.perf_counter_ns()
    populate = attempt(lambda: memory.madvise(MADV_POPULATE_WRITE, 0, length) or "ok")
    populated = time.perf_counter_ns()
    memory[SEGMENT_BYTES - 1] = 1
    return {
        "bytes": SEGMENT_BYTES,
        "create_size_and_seal_ns": mapped - started,
        "map_ns": done - mapped,
        "seals_hold": holds,
        "populate_write_256_KiB": populate,
        "populate_ns": populated - started_populate,
        "blocks_after": os.fstat(fd).st_blocks,
    }


def clone_without_signal():
    """Checks that a child whose exit sends no signal is invisible to wait(-1) and is reaped with __WCLONE."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = libc.syscall(*map(ctypes.c_long, (CLONE[platform.machine()], 0, 0, 0, 0, 0)))
    if child == 0:
        os._exit(7)
    if child < 0:
        return {"error": os.strerror(ctypes.get_errno())}
    time.sleep(0.05)
    try:
        plain = list(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        plain = "ECHILD"
    pid, status = os.waitpid(child, WCLONE)
    return {"wait_any": plain, "reaped": pid == child, "exit": os.waitstatus_to_exitcode(status)}


def pidfd():
    fd = os.pidfd_open(os.getpid())
    os.close(fd)
    return "ok"


def file_size_limit():
    """Checks what enlarging a memfd beyond RLIMIT_FSIZE does to a child."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            os.ftruncate(os.memfd_create("gpu-probe"), 2 << 20)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wipe_on_fork():
    """Returns what a forked child finds in a page that is to be wiped: 0 if the system wipes it."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(MADV_WIPEONFORK)
    memory[0] = 7
    child = os.fork()
    if child == 0:
        os._exit(memory[0])
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"child_finds": found, "works": found == 0 and memory[0] == 7}


def clocks():
    flags = next((line for line in read("/proc/cpuinfo", 20000).splitlines() if line.startswith("flags")), "")
    names = ("constant_tsc", "nonstop_tsc", "tsc_known_freq", "tsc_reliable", "rdtscp", "hypervisor")
    base = "/sys/devices/system/clocksource/clocksource0/"
    return {
        "flags": {name: name in flags.split() for name in names},
        "clocksource": read(base + "current_clocksource"),
        "available": read(base + "available_clocksource"),
    }


def sleep_lateness():
    """Returns how late a 200 us sleep returns, us."""
    late = []
    for _ in range(400):
        started = time.perf_counter_ns()
        time.sleep(200e-6)
        late.append((time.perf_counter_ns() - started - 200_000) / 1000)
    late.sort()
    return {"median": late[200], "p99": late[395], "max": late[-1]}


def run(report):
    model = next((line for line in read("/proc/cpuinfo", 20000).splitlines() if line.startswith("model name")), "")
    report(
        {
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "libc": " ".join(platform.libc_ver()),
            "cpu": model.partition(":")[2].strip(),
            "cpus": {"online": os.cpu_count(), "allowed": len(os.sched_getaffinity(0))},
            "clocks": attempt(clocks),
            "sleep_200us_late_us": attempt(sleep_lateness),
            "memfd": attempt(memfd),
            "pidfd_open": attempt(pidfd),
            "MADV_WIPEONFORK": attempt(wipe_on_fork),
            "clone_without_signal": attempt(clone_without_signal),
            "ftruncate_beyond_RLIMIT_FSIZE_exits": attempt(file_size_limit),
            "RLIMIT_FSIZE": resource.getrlimit(resource.RLIMIT_FSIZE),
            "RLIMIT_MEMLOCK": resource.getrlimit(resource.RLIMIT_MEMLOCK),
            "maps_readable": len(read("/proc/self/maps")) > 100,
            "overcommit_memory": read("/proc/sys/vm/overcommit_memory"),
            "ptrace_scope": read("/proc/sys/kernel/yama/ptrace_scope"),
            "nvidia_kernel_module": read("/proc/driver/nvidia/version"),
            "container": {
                "dockerenv": os.path.exists("/.dockerenv"),
                "pid": os.getpid(),
                "init": read("/proc/1/comm"),
                "cgroup": read("/proc/1/cgroup", 300),
                "cpu_max": read("/sys/fs/cgroup/cpu.max"),
                "status": [
                    line
                    for line in read("/proc/self/status", 8000).splitlines()
                    if line.startswith(("Seccomp:", "CapEff:", "NoNewPrivs:", "NSpid:"))
                ],
                "dev_shm": read("/proc/mounts", 20000).count("/dev/shm"),
            },
            "environment": {
                name: value
                for name, value in os.environ.items()
                if name.startswith(("CUDA_", "NVIDIA_")) or name in ("LD_PRELOAD", "LD_LIBRARY_PATH")
            },
        }
    )


def words(found):
    return [
        f"{found['kernel']}, {found['libc']}, {found['cpus']['allowed']} CPUs, clock {found['clocks'].get('clocksource')}",
        f"MADV_WIPEONFORK: {found['MADV_WIPEONFORK']}",
        f"memfd: {found['memfd']}",
    ]
