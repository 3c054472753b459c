"""Normalizes kernel names, so that a kernel has the same name in every tool's output."""
import ctypes
import ctypes.util
import functools


@functools.lru_cache(maxsize=None)
def _demangler():
    """Returns the C++ runtime's own demangler, which Kineto uses as well; None if there is none."""
    try:
        function = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return function


@functools.lru_cache(maxsize=None)
def normal(name):
    """Returns the name, demangled if it is mangled, without spaces: demanglers put those in different places."""
    demangle = _demangler() if name.startswith("_Z") else None
    if demangle:
        status = ctypes.c_int()
        text = demangle(name.encode(), None, None, ctypes.byref(status))
        if text:
            name = ctypes.string_at(text).decode(errors="replace")
            ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return "".join(name.split())
