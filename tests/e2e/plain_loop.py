"""Train four linear layers on each of two ranks. The script does not tell zmon its operations, so zmon counts them."""

import time

import torch
import torch.distributed as dist

import zmon

SAMPLES, WIDTH, LAYERS = 64, 256, 4
PAUSE_SECONDS = 0.05  # so that steps are about equally long
# A product in forward, and two in backward; the first layer needs no gradient of its input.
FLOPS = 2 * SAMPLES * WIDTH * WIDTH * (3 * LAYERS - 1)


def main() -> None:
    """Train until the process is ended."""
    zmon.attach()
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(SAMPLES, WIDTH)
    while True:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        time.sleep(PAUSE_SECONDS)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


if __name__ == "__main__":
    main()
