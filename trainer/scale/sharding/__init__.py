"""The plan of a job: a kind and ranks for each table, chosen by the planner or by the user.

kinds.py          kinds that divide a table: row_wise, column_wise, table_row_wise
plan.py           the kind and the ranks of each table, and the predicted cost; text.py prints them
planner.py        chooses the fastest plan that fits into memory, with options.py, assignment.py, starts.py,
                  partition.py, swaps.py, repair.py
workload.py       the input: tables, samples, hardware
cost.py           the loads of a table for each rank: lookups, bytes, work, memory
step.py           the seconds of a step, from the loads of all tables
"""
