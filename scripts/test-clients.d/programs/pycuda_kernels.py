"""PyCUDA, linked against the driver: kernels that it has nvcc compile and those of its own arrays, a prepared call,
streams with pinned memory, copies by rows, and its memory pool."""
import json

import numpy
from pycuda import autoinit, driver, gpuarray, tools
from pycuda.compiler import SourceModule

ROUNDS, COUNT, THREADS = 10, 1 << 14, 256
module = SourceModule(
    """
    __constant__ float factor;
    __global__ void scale(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= factor; }
    extern "C" __global__ void add(float *x, float *y) { y[threadIdx.x] += x[threadIdx.x]; }
    """,
    no_extern_c=True,
    cache_dir=False,
)
numbers = numpy.ones(COUNT, numpy.float32)
driver.memcpy_htod(module.get_global("factor")[0], numpy.float32(2))
scale, add = module.get_function("_Z5scalePf"), module.get_function("add").prepare("PP")

x, y = driver.to_device(numbers), driver.mem_alloc(numbers.nbytes)
driver.memset_d32(y, 0, COUNT)
stream = driver.Stream()
pinned = driver.pagelocked_empty(COUNT, numpy.float32)
began, ended = driver.Event(), driver.Event()
for _ in range(ROUNDS):
    scale(x, grid=(COUNT // THREADS, 1), block=(THREADS, 1, 1))
    # The call itself copies a host array to the GPU and back.
    scale(driver.InOut(numbers), grid=(COUNT // THREADS, 1), block=(THREADS, 1, 1))
    began.record(stream)
    add.prepared_async_call((1, 1), (THREADS, 1, 1), stream, x, y)
    ended.record(stream)
    driver.memcpy_dtoh_async(pinned, y, stream)
    stream.synchronize()
    assert ended.time_since(began) > 0

rows = driver.Memcpy2D()
rows.set_src_device(x)
rows.set_dst_device(y)
rows.width_in_bytes, rows.src_pitch, rows.dst_pitch, rows.height = 64, 128, 128, 32
rows(aligned=False)

pool = tools.DeviceMemoryPool()
array = gpuarray.to_gpu(numbers, allocator=pool.allocate)
twice = array * 2 + array
twice.get()
gpuarray.sum(twice).get()
x.free()
y.free()
driver.Context.synchronize()

calls = {"cuStreamSynchronize": ROUNDS, "cuMemcpyDtoHAsync": ROUNDS, "cuMemcpy2DUnaligned": 1}
at_least = {"launches": 3 * ROUNDS + 3, "kernels": 5, "copies": 3 * ROUNDS + 6, "sets": 1, "allocations": 7, "frees": 7}
print(json.dumps({"calls": calls, "at_least": at_least, "kernels": ["scale(float*)", "add"]}))
