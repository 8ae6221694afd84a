#!/bin/sh
# HealthCheckProgram of Slurm: asks the agent of this node about lasting faults of the hardware.
# It changes nothing unless ZMON_DRAIN=1, and never fails: Slurm would not tell why.
zmon=${ZMON:-/opt/zmon/bin/zmon}
reason=$(timeout 3 "$zmon" check --host 2>/dev/null)
if [ $? -eq 1 ] && [ "${ZMON_DRAIN:-0}" = 1 ]; then
  timeout 3 scontrol update "nodename=${SLURMD_NODENAME:-$(hostname -s)}" state=drain reason="zmon: $reason"
fi
exit 0
