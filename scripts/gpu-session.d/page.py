"""Prints the session on one page, for people: what the machine is, what each step found, what failed."""
import importlib
import os


def first_line(value):
    """Formats a fact in one line."""
    if isinstance(value, dict):
        return value.get("error") or "?"
    return str(value).strip().splitlines()[0] if str(value).strip() else "(nothing)"


def facts(found):
    gpu = found.get("nvidia-smi")
    gpu = gpu.splitlines()[-1] if isinstance(gpu, str) and gpu else first_line(gpu)
    lines = [f"{name:12}{first_line(found[name])}" for name in ("uname -r", "driver", "glibc", "gpuspy") if name in found]
    lines.append(f"{'GPU':12}{gpu}")
    packages = found.get("packages") or {}
    lines.append(f"{'packages':12}" + ", ".join(f"{name} {version}" for name, version in packages.items() if version))
    return lines


def answers(row):
    """Formats a step's results in lines."""
    found = row["found"]
    if row["step"] == "facts" and found:
        return facts(found)
    if row["step"] == "doctor":
        return [line for line in row.get("output", "").splitlines() if line.strip()][-12:]
    if row["step"].startswith("probe ") and found:
        words = getattr(importlib.import_module(row["step"].partition(" ")[2]), "words", None)
        return words(found) if words else []
    return []


def guarded(row):
    """Does the same; a result of unexpected form is reported as such, and is in the JSON all the same."""
    try:
        return answers(row)
    except Exception as error:
        return [f"(the page cannot show this answer: {type(error).__name__}: {error})"]


def check_table(folder):
    try:
        with open(os.path.join(folder, "check", "gpu-check.txt"), encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError:
        return []


def page(about, rows, folder):
    lines = [f"gpu-session  {about['date']}, {about['seconds']:.0f} s of {about['budget_s']:.0f} s", ""]
    for row in rows:
        bad = row["ended"] or (row["found"] or {}).get("error")
        lines.append(f"{row['step']:22}{row['seconds']:6.1f} s  {'FAILED: ' + str(bad) if bad else 'ok'}")
        lines.extend(f"    {line}" for line in guarded(row))
        if row["step"] == "check":
            lines.extend(f"    {line}" for line in check_table(folder))
    return "\n".join(line.rstrip() for line in lines) + "\n"
