"""workers.py: data loaders whose forked workers import, while the main thread launches and another thread loads libraries."""
import ctypes
import importlib
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        names = ("scipy.linalg", "pandas", "PIL.Image", "sqlite3", "cv2", "pyarrow", "sympy", "matplotlib.ft2font", "lxml.etree", "zmq")
        try:
            importlib.import_module(names[at % len(names)])
        except ImportError:
            pass
        return torch.full((256,), float(at))


stop = False


def loads():
    names = ["libm.so.6", "libresolv.so.2", "libutil.so.1", "libanl.so.1", "libnss_files.so.2", "libBrokenLocale.so.1"]
    import _ctypes
    n = 0
    while not stop:
        try:
            handle = ctypes.CDLL(names[n % len(names)])
            _ctypes.dlclose(handle._handle)
        except OSError:
            pass
        n += 1
        time.sleep(0.001)


thread = threading.Thread(target=loads)
thread.start()
total = 0.0
x = torch.zeros(256, device="cuda")
for epoch in range(4):
    for batch in DataLoader(Rows(), batch_size=4, num_workers=8):
        x += batch.cuda().sum(0)
        for _ in range(20):
            x = x * 1.0
    total += float(x[0])
stop = True
thread.join()
print(total)
