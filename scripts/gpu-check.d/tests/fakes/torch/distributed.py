"""torch.distributed with one rank."""
from torch.device import launch


def is_nccl_available():
    return True


def init_process_group(backend, init_method, rank, world_size):
    assert (backend, rank, world_size) == ("nccl", 0, 1) and init_method.startswith("file://")


class Work:
    def wait(self):
        pass


def all_reduce(_, async_op):
    launch("nccl_10us")
    return Work()


def broadcast(_, src):
    launch("nccl_10us")


def destroy_process_group():
    pass
