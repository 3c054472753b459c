"""A Taichi kernel, launched again and again. Taichi loads its core with RTLD_DEEPBIND."""
import os

import steady

os.environ["TI_SKIP_VERSION_CHECK"] = "ON"

import taichi

taichi.init(arch=taichi.cuda, offline_cache=False, log_level=taichi.ERROR)
if taichi.cfg.arch != taichi.cuda:
    steady.skip("taichi sees no GPU")

x = taichi.field(taichi.f32, shape=1 << 20)


@taichi.kernel
def scale(factor: taichi.f32):
    for at in x:
        x[at] *= factor


steady.measure("taichi_scale", lambda: scale(0.5), taichi.sync, ["taichi"], steps=100, launches=1)
