"""Why is the GPU idle? The gpuspy program, installed beside this package: `gpuspy run -- python train.py`."""
