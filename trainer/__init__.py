"""A synchronous hybrid-parallel DLRM trainer: `torchrun --nproc-per-node R -m trainer --preset demo`.

    __main__.py    the command line
    presets.py     well-known models
    config.py      the whole configuration; keys.py changes it: a YAML file, --set a.b=c
                   plain_yaml.py
    run.py         a run from its first step to its last
    train.py       the training step, in one block
    model/         the dense layers: bottom MLP, interaction, top MLP; the all-reduce of their gradients
    embedding/     the embedding tables: lookups, exact updates
    exchange.py    the all-to-alls between the ranks of the samples and the ranks of the rows
                   routing.py, id_exchange.py (ids), vectors.py (order of vectors), host_reduction.py, all_to_all.py
    sharding/      how tables are distributed over the ranks; planning.py chooses for this run
    plan.py        plans a job of any size without running it: dry_run.py, published.py
    optimizers.py  updates of dense and sparse parameters; schedule.py has the learning rates
    batch.py       the samples of a rank in one step; the interface of their source
    loader.py      reads batches ahead of training
    synthetic.py   generated samples that can be learned
    criteo.py      samples from Criteo rows; prepare.py writes them to the files of shards.py
    evaluate.py    evaluation on held-out samples; quality.py has the metrics
    checkpoint/    saves and loads checkpoints; state.py has their tensors
    disk.py        flushes files to the disk
    progress.py    prints loss, normalized entropy and speed
    world.py       the rank's position among all ranks; the process group
    errors.py      the errors, one line each

The design follows ZionEX (arXiv 2104.05158). Dense layers are replicated and data-parallel. Embedding tables are
sharded over the ranks; all-to-alls carry ids to the tables and pooled vectors back. There are no parameter servers,
and every update is exact. The trainer uses only the public API of zmon.
"""
