"""Transformers: 80 tokens are generated three times by a small GPT-2, with its key-value cache. NO_CUDNN: without cuDNN's attention."""
import os
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel
if os.environ.get("NO_CUDNN"):
    torch.backends.cuda.enable_cudnn_sdp(False)
model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=256, n_embd=512, n_layer=8, n_head=8, eos_token_id=None, bos_token_id=None)).cuda().half().eval()
prompt = torch.randint(0, 1000, (1, 16), device="cuda")
for round in range(3):
    began = time.perf_counter()
    with torch.no_grad():
        out = model.generate(prompt, max_new_tokens=80, min_new_tokens=80, do_sample=True, pad_token_id=0)
    print(out.shape, out[0, -1].item(), f"{time.perf_counter() - began:.2f} s")
