"""Train a GAN: discriminator and generator, one after the other, each with its own optimizer and backward pass.

Usage: `torchrun --nproc-per-node 2 gan.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
from tally import Tally, ddp_construction, ddp_rebuild, size
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
BATCH, NOISE, DATA = 16, 8, 2


def main() -> None:
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(NOISE, 32), nn.ReLU(), nn.Linear(32, DATA))
    discriminator = nn.Sequential(nn.Linear(DATA, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    for module in (generator, discriminator):
        ddp_construction(tally, module)
    net_g, net_d = DistributedDataParallel(generator), DistributedDataParallel(discriminator)
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    real_label, fake_label = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    torch.manual_seed(tally.rank)
    for _ in range(STEPS):
        # train the discriminator to separate real from fake
        real = torch.randn(BATCH, DATA) + 3
        with torch.no_grad():
            fake = net_g(torch.randn(BATCH, NOISE))
        optimizer_d.zero_grad()
        loss_d = criterion(net_d(torch.cat([real, fake])), torch.cat([real_label, fake_label]))
        loss_d.backward()
        optimizer_d.step()

        # train the generator to fool the discriminator
        optimizer_g.zero_grad()
        loss_g = criterion(net_d(net_g(torch.randn(BATCH, NOISE))), real_label)
        loss_g.backward()
        optimizer_g.step()

        tally.steps += 1
        for module in (discriminator, discriminator, generator):  # the generator's loss goes through both
            tally.op("all_reduce", size(*module.parameters()), size(*module.parameters()))
        if tally.rank == 0:
            print(f"step {tally.steps} d {loss_d.item():.4f} g {loss_g.item():.4f}", flush=True)
    for module in (generator, discriminator):
        ddp_rebuild(tally, module)

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
