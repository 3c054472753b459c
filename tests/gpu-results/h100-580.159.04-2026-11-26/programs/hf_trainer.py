"""Transformers: its Trainer with a small GPT-2, two workers and bfloat16."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2000
    def __getitem__(self, at):
        ids = torch.randint(0, 1000, (128,), generator=torch.Generator().manual_seed(at))
        return {"input_ids": ids, "labels": ids}

def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=128, n_embd=256, n_layer=4, n_head=4))
    arguments = TrainingArguments(output_dir="/tmp/hf", max_steps=80, per_device_train_batch_size=8, logging_steps=10,
                                  report_to=[], save_strategy="no", bf16=True, dataloader_num_workers=2)
    trainer = Trainer(model=model, args=arguments, train_dataset=Rows())
    trainer.train()

main()
