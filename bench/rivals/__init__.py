"""The bundled trainer beside facebookresearch/dlrm and TorchRec: two processes train with all of them in turns.

    python -m bench.rivals --dlrm PATH

`job` is a rank, `start` has the initial weights, which are the same for all, and `dlrm` and `torchrec` run the rivals'
own code: their models, exchanges, optimizers and pipelines.
"""
