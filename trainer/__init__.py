"""A synchronous hybrid-parallel DLRM trainer: `torchrun --nproc-per-node R -m trainer --preset demo`.

    __main__.py    the command line
    presets.py     models that people know
    config.py      all that decides a run; keys.py changes it: a YAML file, --set a.b=c
    run.py         from the first step to the last
    train.py       the training step, one visible block
    model/         the dense part: bottom MLP, interaction, top MLP, and its gradients on their way
    embedding/     the tables: lookup, exact updates
    exchange.py    the all-to-alls between samples' ranks and rows' ranks
    sharding/      how tables are spread over ranks; planning.py chooses for this run
    optimizers.py  what a step does to the weights; schedule.py how fast
    batch.py       what a rank trains on in one step, and what a source of it must offer
    loader.py      reads batches ahead
    synthetic.py   samples out of thin air, with a signal in them
    criteo.py      samples out of Criteo rows; prepare.py makes shards.py's files of them
    evaluate.py    how good the model is on held-out samples; quality.py in which figures
    checkpoint/    keeps what is trained, and brings it back
    disk.py        what has reached the disk
    progress.py    loss, normalized entropy and speed, for people
    world.py       who am I among the ranks, and how we meet
    errors.py      what can go wrong, in one line each

After ZionEX (arXiv 2104.05158): dense layers are replicated and data-parallel, embedding tables are spread over the
ranks, and all-to-alls carry ids to the tables and pooled vectors back. No parameter servers; every update is exact. It
uses zmon only by its public door.
"""
