"""The bundled trainer beside facebookresearch/dlrm and TorchRec: two processes train with all of them in turns.

    python -m bench.rivals --dlrm PATH

`job` is a rank, `start` the weights and batches that are the same for all, `dlrm` and `torchrec` run the rivals' own
code: their models, exchanges, optimizers and pipelines.
"""
