"""Prints what the machine says about itself before anything loads CUDA. Prints the JSON again after each answer: the
last line counts."""
import importlib.metadata
import json
import os
import platform
import shutil
import sys

import limited

# No fact is worth more time than this; nvidia-smi may hang if a driver is broken.
SECONDS = 12
PACKAGES = ("torch", "triton", "jax", "cupy-cuda13x", "numba", "numba-cuda", "warp-lang", "nvidia-nccl-cu13", "numpy")
SMI = "name,uuid,driver_version,compute_cap,memory.total,compute_mode,persistence_mode,mig.mode.current,clocks.sm,clocks.max.sm"


def ask(*command):
    """Returns a command's output, or why there is none."""
    if not (os.access(command[0], os.X_OK) or shutil.which(command[0])):
        return {"error": "not there"}
    ended = limited.run(command, SECONDS)
    return ended.output.strip()[-6000:] if ended.code == 0 else {"error": ended.words(), "output": ended.output[-2000:]}


def versions():
    """Returns versions of packages without importing them."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def questions(gpuspy):
    """Lists the commands, the most informative first."""
    yield "uname -r", platform.release
    yield "uname -a", lambda: " ".join(platform.uname())
    yield "driver", lambda: ask("cat", "/proc/driver/nvidia/version")
    yield "glibc", lambda: " ".join(platform.libc_ver())
    yield "nvidia-smi", lambda: ask("nvidia-smi", f"--query-gpu={SMI}", "--format=csv")
    yield "nvidia-smi, all", lambda: ask("nvidia-smi")
    yield "python", lambda: sys.version
    yield "packages", versions
    yield "gpuspy", lambda: ask(gpuspy, "--version")
    yield "nvcc", lambda: ask(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version")
    yield "gcc", lambda: ask("gcc", "--version")
    yield "cpus", lambda: ask("lscpu")
    yield "libcuda", lambda: ask("ldconfig", "-p")


def main():
    found = {}
    for name, question in questions(sys.argv[1]):
        try:
            found[name] = question()
        except Exception as error:  # a missing fact must not prevent the others
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
