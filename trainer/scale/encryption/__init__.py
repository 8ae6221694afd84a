"""Encrypted files: samples and checkpoints are plain only in memory.

    key.py    the master key: from a file, a variable or a command; it wraps a random key for each file
    file.py   a file in chunks of AES-256-GCM, written as a stream and read at any place
    files.py  the files of a data set, plain or encrypted
    rotate.py the command that changes the master key

`cryptography` does the work; it is the extra `encryption`. The rows of `embedding.tier.folder` are not encrypted:
they are rewritten in place, and a chunk that is encrypted again under one key needs a new nonce each time.
"""
