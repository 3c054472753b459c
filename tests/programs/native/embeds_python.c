// Runs a script in an interpreter of its own and ends that, as often as the argument says.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static const char script[] =
    "import ctypes\n"
    "runtime = ctypes.CDLL('libcudart.so.12')\n"
    "runtime.cudaMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]\n"
    "block = ctypes.c_void_p()\n"
    "assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096)) == 0\n"
    "\n"
    "def step():\n"
    "    assert runtime.cudaMemset(block, 0, 64) == 0\n"
    "\n"
    "for _ in range(3):\n"
    "    step()\n";

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        Py_Initialize();
        PyObject *code = Py_CompileString(script, "/scripts/train.py", Py_file_input);
        PyObject *names = PyDict_New();
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins());
        PyObject *result = code ? PyEval_EvalCode(code, names, names) : NULL;
        if (!result) {
            PyErr_Print();
            return 1;
        }
        Py_FinalizeEx();
    }
    return 0;
}
