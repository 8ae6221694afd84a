"""The asynchronous training that ZionEX replaced, beside the synchronous trainer, on the same model and samples.

    python -m bench.asynchronous [--seeds N] [--steps N] [--workers N …]

ZionEX's predecessor (arXiv 2104.05158, section 2) trained with parameter servers. Its workers update embedding rows
without locks (Hogwild, arXiv 1106.5730). They average their dense layers elastically in the background (EASGD, arXiv
1412.6651, as in ShadowSync, arXiv 2003.03477). Here, shared memory takes the place of the servers.

    shared     the tables and the center of the dense layers
    worker     one worker
    readers    the processes that generate samples for all workers
    job        starts readers and workers, and evaluates the model
    ranks      trains the same model synchronously
    report     compares the two
"""
