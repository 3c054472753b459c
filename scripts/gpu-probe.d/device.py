"""Describes the driver and its devices."""
import ctypes
import shutil
from ctypes import c_int, c_size_t

import limited
from cuda import CudaError, Driver

# cuda.h: CUdevice_attribute
ATTRIBUTES = {
    "capability_major": 75,
    "capability_minor": 76,
    "multiprocessors": 16,
    "threads_per_multiprocessor": 39,
    "clock_khz": 13,
    "async_engines": 40,
    "compute_mode": 20,
    "stream_wait_values": 92,
    "integrated": 18,
    "managed_memory": 83,
    "stream_priorities": 78,
}


def run(report):
    driver = Driver()
    found = {"driver_version": driver.version(), "devices": []}
    for ordinal in range(driver.out(c_int, "cuDeviceGetCount")):
        device = driver.out(c_int, "cuDeviceGet", ordinal)
        entry = {"name": driver.device_name(device), "attributes": {}}
        uuid = (ctypes.c_ubyte * 16)()
        entry["uuid"] = bytes(uuid).hex() if driver.result("cuDeviceGetUuid", uuid, device) == 0 else None
        try:
            entry["memory_bytes"] = driver.out(c_size_t, "cuDeviceTotalMem_v2", device)
        except CudaError as error:
            entry["memory_bytes"] = str(error)
        for name, number in ATTRIBUTES.items():
            value = c_int()
            code = driver.result("cuDeviceGetAttribute", ctypes.byref(value), number, device)
            entry["attributes"][name] = value.value if code == 0 else f"result {code}"
        found["devices"].append(entry)
        report(found)
    with open("/proc/self/maps") as maps:
        found["library"] = sorted({line.split()[-1] for line in maps if "libcuda" in line})
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,compute_mode,persistence_mode,clocks.sm,clocks.max.sm,mig.mode.current"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        ended = limited.run(command, 15)
        found["nvidia_smi"] = (ended.output or ended.errors or ended.why).strip()
    report(found)


def words(found):
    return [f"{device['name']}, driver API {found['driver_version']}, {found['library']}" for device in found["devices"]]
