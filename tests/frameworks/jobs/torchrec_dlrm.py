"""Train a small DLRM with TorchRec.

The embedding tables are sharded, and their optimizer runs inside the backward pass. The dense layers have another
optimizer.

Usage: `torchrun --nproc-per-node 2 torchrec_dlrm.py OUT`.
"""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import torch
import torch.distributed as dist
from counting import Count
from rows import BATCH, MIDDLE, STEPS
from torch.utils.data import DataLoader, IterableDataset
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.models.dlrm import DLRM, DLRMTrain
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

TABLES = 4
ROWS = 1000  # of each table
DENSE = 8  # dense features of a sample
CPU = torch.device("cpu")


class Batches(IterableDataset):
    """Random batches, which differ between the ranks."""

    def __init__(self, num_batches: int) -> None:
        self.num_batches = num_batches

    def __iter__(self) -> Iterator[SimpleNamespace]:
        for _ in range(self.num_batches):
            lengths = torch.ones(TABLES * BATCH, dtype=torch.int64)
            values = torch.randint(ROWS, (TABLES * BATCH,))
            features = KeyedJaggedTensor([f"f{table}" for table in range(TABLES)], values, lengths=lengths)
            labels = torch.randint(2, (BATCH,)).float()
            yield SimpleNamespace(dense_features=torch.randn(BATCH, DENSE), sparse_features=features, labels=labels)


def dlrm() -> DLRMTrain:
    """Return the model, whose tables have no memory until they are sharded."""
    tables = [
        EmbeddingBagConfig(name=f"t{table}", embedding_dim=16, num_embeddings=ROWS, feature_names=[f"f{table}"])
        for table in range(TABLES)
    ]
    collection = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
    return DLRMTrain(DLRM(collection, DENSE, [32, 16], [32, 1], CPU))


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    torch.manual_seed(dist.get_rank())
    model = dlrm()
    apply_optimizer_in_backward(torch.optim.SGD, model.model.sparse_arch.parameters(), {"lr": 0.02})
    model = DistributedModelParallel(model, device=CPU)
    dense = dict(in_backward_optimizer_filter(model.named_parameters()))
    wrapper = KeyedOptimizerWrapper(dense, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
    optimizer = CombinedOptimizer([model.fused_optimizer, wrapper])
    for batch in DataLoader(Batches(STEPS), batch_size=None):
        optimizer.zero_grad()
        loss, _ = model(batch)
        loss.backward()
        optimizer.step()
        count.steps += 1
        if count.steps == MIDDLE:
            model.eval()
            with torch.no_grad():
                for held_out in Batches(20):
                    model(held_out)
            model.train()
            count.evaluations += 1
            torch.save(model.state_dict(), count.out / f"model-{dist.get_rank()}.pt")
            count.checkpoints += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
