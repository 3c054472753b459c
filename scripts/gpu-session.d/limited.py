"""Runs a command that may hang, crash or never end: whatever it does, the caller goes on."""
import json
import os
import signal
import subprocess
import tempfile
import time

# A process in the driver may ignore SIGKILL. This is the longest that the caller waits for one to end, in seconds.
REAP_SECONDS = 3
# How often the caller is called back while a command runs, in seconds.
BEAT_SECONDS = 15


class Ended:
    """The result of a command: its exit code (None: it was stopped, or never started), why it failed, and what it
    printed."""

    def __init__(self, code, why, output="", errors=""):
        self.code, self.why, self.output, self.errors = code, why, output, errors

    def last_error(self):
        """Returns the last line of stderr, or an empty text."""
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else ""

    def words(self):
        """Returns why it failed, with the last line of stderr; None if it did not fail."""
        if self.why and self.last_error():
            return f"{self.why}: {self.last_error()}"
        return self.why


def _ended(code):
    if code == 0:
        return None
    try:
        return f"exit {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _stop(process):
    """Kills a whole process group, and waits briefly for its leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(REAP_SECONDS)
        return "stopped"
    except subprocess.TimeoutExpired:
        return "cannot be stopped, left behind"


def _wait(process, seconds, beat):
    """Returns its exit code. Meanwhile `beat` is called regularly, and must not take long."""
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        try:
            return process.wait(min(left, BEAT_SECONDS))
        except subprocess.TimeoutExpired:
            if left <= BEAT_SECONDS:
                raise
        beat()


def run(command, seconds, environment=None, folder=None, beat=lambda: None):
    """Runs a command in a process group of its own, for at most this many seconds."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            return Ended(None, str(error))
        try:
            code = _wait(process, seconds, beat)
            why = _ended(code)
        except subprocess.TimeoutExpired:
            code, why = None, f"{_stop(process)} after {seconds:.0f} s"
        except BaseException:
            _stop(process)
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ended(code, why, *texts)


def last_document(text):
    """Returns the last line of a text that is a JSON object; None if there is none."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def write(path, text):
    """Writes a file in one step: a reader finds the old file or the whole new one."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)
