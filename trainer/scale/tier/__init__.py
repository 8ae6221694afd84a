"""Tables larger than memory: their rows are in a file of each rank and group, and a cache has those that are used.

row_file.py  the rows on the disk
slots.py     which rows are in the cache, and which leave it
kernel.py    lookup and update, bit-equal to those of rows in memory
"""
