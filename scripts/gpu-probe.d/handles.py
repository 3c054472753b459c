"""CUfunction and CUkernel: which calls take which, and what they are called."""
import ctypes
from ctypes import c_char_p, c_void_p

from cuda import PTX, Context, CudaError


def name_of(cuda, function, handle):
    if not cuda.driver.function(function):
        return "not exported"
    text = c_char_p()
    code = cuda.driver.result(function, ctypes.byref(text), handle)
    return {"result": code, "name": text.value.decode() if code == 0 and text.value else None}


def run(report):
    cuda = Context()
    driver, stream = cuda.driver, cuda.stream()
    library = c_void_p()
    for image in PTX:
        code = driver.result("cuLibraryLoadData", ctypes.byref(library), image, 0, 0, 0, 0, 0, 0)
        if code == 0:
            break
    else:
        raise CudaError("cuLibraryLoadData", code)
    kernel = driver.out(c_void_p, "cuLibraryGetKernel", library, c_char_p(b"probe_empty_1us"))
    of_kernel = driver.out(c_void_p, "cuKernelGetFunction", kernel)
    handles = {"CUfunction": cuda.empty_function, "CUkernel": kernel, "CUfunction of CUkernel": of_kernel}
    found = {"distinct_handles": len(set(handles.values())), "launch": {}, "names": {}}
    for label, handle in handles.items():
        code = driver.result("cuLaunchKernel", *cuda.launch_arguments(stream, function=handle))
        found["launch"][label] = code
        report(found)
    cuda.synchronize(stream)
    # The matching calls first; a handle of the wrong kind may be the end of the process, and then this is still told.
    for label, function in (
        ("CUfunction", "cuFuncGetName"),
        ("CUfunction of CUkernel", "cuFuncGetName"),
        ("CUkernel", "cuKernelGetName"),
        ("CUkernel", "cuFuncGetName"),
        ("CUfunction", "cuKernelGetName"),
    ):
        report({**found, "next": f"{function}({label})"})
        found["names"][f"{function}({label})"] = name_of(cuda, function, handles[label])
    report(found)


def words(found):
    return [f"launch: {found['launch']}; cuFuncGetName(CUkernel): {found['names'].get('cuFuncGetName(CUkernel)')}"]
