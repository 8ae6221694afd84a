"""A plan of three tables on two ranks, with a prediction."""

from trainer.scale.sharding.plan import Memory, Plan, RankLoad
from trainer.sharding import Placement

ROWS = (10, 4, 6)
PLACEMENTS = (Placement("table_wise", (1,)), Placement("row_wise", (0, 1)), Placement("data_parallel", (0, 1)))
LOADS = (
    RankLoad(
        tables=(1, 2),
        lookups=15,
        sent_bytes=2_000,
        received_bytes=3_000,
        reduced_bytes=400,
        seconds=0.0015,
        memory=Memory(base=1_000_000, weights=4_000, state=500, batch=60),
    ),
    RankLoad(
        tables=(0, 1, 2),
        lookups=25,
        sent_bytes=2_100,
        received_bytes=3_100,
        reduced_bytes=400,
        seconds=0.0025,
        memory=Memory(base=1_000_000, weights=8_000, state=1_000, batch=70),
    ),
)
PLAN = Plan(2, PLACEMENTS, LOADS)
