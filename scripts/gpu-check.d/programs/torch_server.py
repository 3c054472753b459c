"""An inference server of two threads with a stream each: requests come through a queue, and answers go back to the
host."""
import queue
import threading

import steady

import torch
from torch import nn

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
requests, answers = queue.Queue(), queue.Queue()


def serve():
    stream = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        while (request := requests.get()) is not None:
            answers.put(model(request.cuda(non_blocking=True)).cpu())


threads = [threading.Thread(target=serve, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
batch = torch.randn(32, 512)


def step():
    for _ in range(4):
        requests.put(batch)
    for _ in range(4):
        answers.get()


steady.measure("torch_server", step, torch.cuda.synchronize, ["torch"])
for _ in threads:
    requests.put(None)
for thread in threads:
    thread.join()
