"""Runs tests in the emulated machine, each in a process of its own as nextest does, and writes what failed."""

import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(sys.argv[1])
TIMEOUT = 900
"""Seconds: an emulated processor is many times slower than a real one."""


def loopback_up():
    with socket.socket() as any_socket:
        siocsifflags, iff_up = 0x8914, 1
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh14x", b"lo", iff_up))


def run(binary, name):
    """Returns whether a test passed, its seconds, and what it printed."""
    began = time.monotonic()
    command = [binary, "--exact", name, "--nocapture"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT, cwd=ROOT / "tests", check=False)
        return done.returncode == 0, time.monotonic() - began, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return False, TIMEOUT, (late.stdout or b"").decode(errors="replace") + "\nit took too long\n"


def main():
    os.environ["TMPDIR"] = "/tmp"
    loopback_up()
    lines = (RESULTS / "tests").read_text().splitlines()
    wanted = tuple(line for line in lines if line and line[0] not in "#-")
    left_out = tuple(line[1:].strip() for line in lines if line.startswith("-"))
    jobs = []
    for binary in sorted((ROOT / "target/tests").iterdir()):
        listed = subprocess.run([binary, "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout
        names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        whole = {name: f"{binary.name}::{name}" for name in names}
        jobs += [(binary, name) for name in names if whole[name].startswith(wanted) and not whole[name].startswith(left_out)]
    page = os.sysconf("SC_PAGESIZE")
    print(f"{os.uname().machine}, Linux {os.uname().release}, pages of {page} bytes, {len(jobs)} tests", flush=True)
    if not jobs or page != int((RESULTS / "page_bytes").read_text()):
        sys.exit("this is not what was asked for")
    failed = 0
    with open(RESULTS / "results", "a", encoding="utf-8") as results, ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(run, *job): job for job in jobs}
        for future in as_completed(running):
            binary, name = running[future]
            passed, seconds, output = future.result()
            failed += not passed
            line = f"{'pass' if passed else 'FAIL'} {seconds:7.1f} s {binary.name}::{name}"
            print(line, flush=True)
            results.write(line + "\n" + ("" if passed else output + "\n"))
            results.flush()
    (RESULTS / "failed").write_text(f"{failed}\n")


main()
