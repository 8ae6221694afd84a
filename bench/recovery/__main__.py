"""The time that a training takes under faults, with and without acts of zmon, compared with one without faults.

    python -m bench.recovery [--arms ARM…] [--every SECONDS]

The bundled trainer runs under torchrun. The faults freeze (SIGSTOP) and kill (SIGKILL) a rank in turns. The rank and
the moment are drawn.

    calm              no faults; it gives the number of steps, which all other arms take too
    acts              --faults faults
    no-acts           one fault of each kind: without acts, a frozen rank waits for torch's timeout of a collective, and
                      a recovery counts no more than the cap
    …-shared-store    the same, but all launches use one store of torchrun, so a new rank may read a dead one's address

A run of all arms takes three times the faults × the seconds between them, and twice the cap.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from torch.distributed.constants import default_pg_timeout

from bench.recovery.arm import Arm, Sizes, run_arm
from bench.recovery.figures import CALM, KINDS, ArmRun, lines
from bench.recovery.policy import POLICY
from bench.rows import load_line, parser_of
from lab.drills.session import open_stage
from zmon.errors import ZmonError


def arms(faults: int) -> tuple[Arm, ...]:
    """Return all arms, in the order in which they are run; an arm with all faults has this number of them."""
    in_turns = tuple(islice(cycle(KINDS), faults))
    once = tuple(sorted(KINDS, reverse=True))  # the frozen rank comes last, because nothing can follow it
    return (
        Arm(CALM, kinds=(), acts=False),
        Arm("acts", in_turns, acts=True),
        Arm("acts-shared-store", in_turns, acts=True, has_own_store=False),
        Arm("no-acts", once, acts=False),
        Arm("no-acts-shared-store", once, acts=False, has_own_store=False),
    )


def main() -> int:
    """Run the arms, and print the tables."""
    parser = parser_of(__doc__)
    names = [arm.name for arm in arms(0)]
    parser.add_argument("--arms", nargs="+", choices=names, default=names, metavar="ARM", help=" · ".join(names))
    parser.add_argument("--every", type=float, default=303.0, help="seconds between two faults (303)")
    parser.add_argument("--faults", type=int, default=6, help="faults of an arm (6)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of the job (2)")
    parser.add_argument("--step-seconds", type=float, default=0.25, help="seconds that a step waits (0.25)")
    parser.add_argument("--cap", type=float, default=600.0, help="seconds after which a recovery is given up (600)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the struck ranks and moments (1)")
    options = parser.parse_args()
    sizes = Sizes(options.every, options.faults, options.ranks, options.step_seconds, options.cap, options.seed)
    print(f"{sizes}; torch's timeout of a collective: {default_pg_timeout.total_seconds():g} s", flush=True)
    runs: list[ArmRun] = []
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as name:
        policy = Path(name) / "policy.yaml"
        policy.write_text(POLICY)
        for arm in (arm for arm in arms(sizes.faults) if arm.name in options.arms):
            num_steps = next((run.num_steps for run in runs if run.name == CALM), None)
            try:
                with open_stage("host", Path(name) / arm.name, policy if arm.acts else None) as stage:
                    runs.append(run_arm(arm, sizes, stage, num_steps))
            except ZmonError as error:
                print(f"{arm.name}: {error}", file=sys.stderr)
                return 1
    print(*lines(runs, sizes.every), sep="\n")
    print(load_line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
