"""A synchronous hybrid-parallel DLRM trainer: `torchrun --nproc-per-node R -m trainer --preset demo`.

    __main__.py   the command line
    config.py     presets, a YAML file, --set a.b=c
    train.py      the training step, one visible block, and the loop around it
    model.py      bottom MLP, dot interaction, top MLP
    embedding.py  the tables of a rank: placement, lookup, exact row-wise AdaGrad
    exchange.py   the all-to-alls between samples' ranks and tables' ranks
    batch.py      what a rank trains on in one step, and what a source of it must offer
    synthetic.py  samples out of thin air, with a signal in them
    criteo.py     samples out of a Criteo-Kaggle TSV
    progress.py   loss, normalized entropy and speed, for people
    world.py      who am I among the ranks, and how we meet
    errors.py     what can go wrong, in one line each

After ZionEX (arXiv 2104.05158): dense layers are replicated and data-parallel, embedding tables are placed
whole on one rank each, and all-to-alls carry ids to the tables and pooled vectors back. It uses zmon only
by its public door.
"""
