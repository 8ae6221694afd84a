"""Tables larger than memory: their rows are in a file of each rank and group, and a cache has those that are used.

row_file.py    the rows on the disk; many_calls.py reads or writes thousands of them in one system call
slots.py       the rows in the cache, and those that leave it
kernel.py      lookup and update, bit-equal to the results of rows in memory
memory.py      the memory of each group of tables
"""
