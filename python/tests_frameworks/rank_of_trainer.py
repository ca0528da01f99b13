"""One of two ranks of the Trainer. Writes the rows that it gets to <folder>/<rank>.json."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import forebay as fb
import torch
import torch.distributed as dist
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments


class Model(PreTrainedModel):
    """Keeps the numbers of the rows that it gets."""

    config_class = PretrainedConfig

    def __init__(self, config) -> None:
        super().__init__(config)
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list = []
        self.post_init()

    def forward(self, id, **_):
        self.seen.append(id.tolist())
        return {"loss": self.layer(id[:, None].float() / 100).mean()}


folder, dispatch = Path(sys.argv[1]), sys.argv[2] == "True"


def run(resume=None, **options) -> list:
    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        use_cpu=True,
        report_to=[],
        per_device_train_batch_size=4,
        max_steps=8,
        save_steps=3,
        logging_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        accelerator_config={"dispatch_batches": dispatch},
    )
    model = Model(PretrainedConfig())
    trainer = Trainer(model, arguments, train_dataset=fb.range(32).shuffle().to_torch(seed=1, **options))
    trainer.train(resume_from_checkpoint=resume)
    return model.seen


out = {"whole": run(), "resumed": run(str(folder / "out" / "checkpoint-6"))}
try:
    run(consumers=(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])))
except fb.errors.InvalidPipelineError as error:
    out["refused"] = str(error)
(folder / f"{os.environ['RANK']}.json").write_text(json.dumps(out))
dist.barrier()
dist.destroy_process_group()
