"""A synchronous hybrid-parallel DLRM trainer: `torchrun --nproc-per-node R -m trainer --preset demo`.

    train.py        the training step, in one block; loop.py calls it to the end of a run, and evaluates
    config.py       the configuration of training; keys.py changes it: a YAML file, --set a.b=c
    dense.py        bottom MLP, interaction, top MLP; flat.py: the all-reduce of their gradients
    sharding.py     which rank holds which table; registry.py names the kinds and kernels
    tables.py       the sharded tables; replicated.py: those with a copy on every rank; kernel.py: lookup, exact update
    exchange.py     the all-to-alls between the ranks of the samples and the ranks of the rows: routing.py,
                    id_exchange.py, vectors.py (their order), all_to_all.py
    optimizers.py   updates of dense and sparse parameters; schedule.py has the learning rates
    batch.py        the samples of a rank in one step; loader.py reads them ahead, synthetic.py generates them
    checkpoint.py   plain checkpoints, for the same ranks and placements
    quality.py      metrics of the predictions; progress.py prints them
    work.py         operations and memory traffic of a step; faults.py: an error of one rank ends all
    world.py        the rank's position among all ranks; errors.py: the errors, one line each
    scale/          all else: other kinds of sharding, the planner, Criteo, FBGEMM, checkpoints, and the commands

The design follows ZionEX (arXiv 2104.05158). Dense layers are replicated and data-parallel. Embedding tables are
sharded over the ranks; all-to-alls carry ids to the tables and pooled vectors back. There are no parameter servers,
and every update is exact. The trainer uses only the public API of zmon.
"""
