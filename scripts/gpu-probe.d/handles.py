"""CUfunction and CUkernel: which calls accept which, what their names are, and which of them the node of a captured
launch contains.

Queries in the form of the other kind run in processes of their own: some drivers may crash.
"""
import ctypes
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p

from children import child as ask
from cuda import CAPTURE_GLOBAL, EMPTY, PTX, Context, CudaError

REGISTERS = 4  # cuda.h: CU_FUNC_ATTRIBUTE_NUM_REGS
# The matching queries, and those in the other form. `kernel_handles` in the simulated driver stands for the results of
# these four.
MATCHING = (
    ("cuFuncGetName", "CUfunction"),
    ("cuFuncGetName", "CUfunction of CUkernel"),
    ("cuKernelGetName", "CUkernel"),
    ("cuFuncGetAttribute", "CUfunction"),
    ("cuKernelGetAttribute", "CUkernel"),
)
OTHER = (
    ("cuFuncGetName", "CUkernel"),
    ("cuKernelGetName", "CUfunction"),
    ("cuFuncGetAttribute", "CUkernel"),
    ("cuKernelGetAttribute", "CUfunction"),
)


class KernelNode(ctypes.Structure):
    """cuda.h: CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("func", c_void_p),
        ("dimensions", c_uint * 7),
        ("arguments", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("context", c_void_p),
    ]


def load(cuda):
    """Returns a handle of each kind, by its label in the answers."""
    driver, library = cuda.driver, c_void_p()
    for image in PTX:
        code = driver.result("cuLibraryLoadData", byref(library), image, 0, 0, 0, 0, 0, 0)
        if code == 0:
            break
    else:
        raise CudaError("cuLibraryLoadData", code)
    kernel = driver.out(c_void_p, "cuLibraryGetKernel", library, c_char_p(EMPTY.encode()))
    of_kernel = driver.out(c_void_p, "cuKernelGetFunction", kernel)
    return {"CUfunction": cuda.empty_function, "CUkernel": kernel, "CUfunction of CUkernel": of_kernel}


def answer(cuda, function, handle):
    """Returns a query's result and answer."""
    if not cuda.driver.function(function):
        return "not exported"
    if function.endswith("Name"):
        text = c_char_p()
        code = cuda.driver.result(function, byref(text), handle)
        return {"result": code, "answer": text.value.decode() if code == 0 and text.value else None}
    value, device = c_int(), (cuda.device,) if function.startswith("cuKernel") else ()
    code = cuda.driver.result(function, byref(value), REGISTERS, handle, *device)
    return {"result": code, "answer": value.value if code == 0 else None}


def child(question, report):
    cuda = Context()
    function, _, label = question.partition(" ")
    handle = load(cuda)[label]
    report({"result": "none: the call crashed"})
    report({"result": answer(cuda, function, handle)})


def captured(cuda, handles, stream):
    """Returns what the two fields of the node of a captured launch of a CUkernel contain."""
    driver, node, count, parameters = cuda.driver, c_void_p(), ctypes.c_size_t(1), KernelNode()
    driver.call("cuStreamBeginCapture_v2", stream, CAPTURE_GLOBAL)
    driver.call("cuLaunchKernel", *cuda.launch_arguments(stream, function=handles["CUkernel"]))
    graph = c_void_p()
    driver.call("cuStreamEndCapture", stream, byref(graph))
    driver.call("cuGraphGetNodes", graph, byref(node), byref(count))
    driver.call("cuGraphKernelNodeGetParams_v2", node, byref(parameters))
    label = {handle: label for label, handle in handles.items()} | {None: None}
    found = {field: label.get(getattr(parameters, field), "another handle") for field in ("func", "kern")}
    driver.call("cuGraphDestroy", graph)
    return found


def run(report):
    cuda = Context()
    driver, stream = cuda.driver, cuda.stream()
    handles = load(cuda)
    found = {"distinct_handles": len(set(handles.values())), "launch": {}, "occupancy": {}, "questions": {}, "other_form": {}}
    for label, handle in handles.items():
        found["launch"][label] = driver.result("cuLaunchKernel", *cuda.launch_arguments(stream, function=handle))
        blocks = c_int()
        code = driver.result("cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(blocks), handle, 32, 0)
        found["occupancy"][label] = {"result": code, "blocks": blocks.value}
    cuda.synchronize(stream)
    for function, label in MATCHING:
        found["questions"][f"{function}({label})"] = answer(cuda, function, handles[label])
    report(found)
    found["captured"] = captured(cuda, handles, stream)
    report(found)
    for function, label in OTHER:
        found["other_form"][f"{function}({label})"] = ask("handles", f"{function} {label}", 10)
        report(found)


def words(found):
    rows = found.get("other_form", {}).items()
    other = "; ".join(f"{question}: {row.get('error', row.get('result'))}" for question, row in rows)
    return [f"launch: {found['launch']}; captured: {found.get('captured')}; {other}"]
