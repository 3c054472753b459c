"""Does cuGetProcAddress return the addresses that the driver exports? For every request of requests.txt."""
import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_void_p

from cuda import Driver, SUCCESS


class DlInfo(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("address", c_void_p)]


def nearest_symbol(address):
    """Returns what the dynamic symbol tables say about an address."""
    info = DlInfo()
    if not ctypes.CDLL(None).dladdr(c_void_p(address), byref(info)) or not info.file:
        return "no loaded object"
    place = os.path.basename(info.file.decode())
    if not info.name:
        return place
    return f"{place}: {info.name.decode()}+{address - info.address:#x}"


def requests():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requests.txt")
    for line in open(path):
        if not line.startswith("#"):
            name, version, flags, export = line.split()
            yield name, int(version), int(flags), export


def run(report):
    # Before cuInit, as a runtime does.
    driver = Driver(initialise=False)
    counts = {"equal": 0, "different": 0, "no_answer": 0, "no_export": 0, "neither": 0}
    different, no_answer, no_export = [], [], []
    for name, version, flags, expected in requests():
        pointer, status = c_void_p(), c_int(-1)
        code = driver.result(
            "cuGetProcAddress_v2", c_char_p(name.encode()), byref(pointer), version, flags, byref(status)
        )
        export = driver.function(expected) if expected != "-" else None
        asked = f"{name} {version} {flags}"
        answered = code == SUCCESS and pointer.value
        if answered and export:
            kind = "equal" if pointer.value == export else "different"
            if kind == "different":
                different.append([asked, expected, nearest_symbol(pointer.value)])
        elif answered:
            kind = "no_export"
            no_export.append([asked, expected, nearest_symbol(pointer.value)])
        else:
            kind = "no_answer" if export else "neither"
            no_answer.append([asked, expected, {"result": code, "status": status.value, "export": bool(export)}])
        counts[kind] += 1
    report({"counts": counts, "different": different, "no_export": no_export, "no_answer": no_answer})


def words(found):
    return [f"cuGetProcAddress against exports: {found['counts']}"]
