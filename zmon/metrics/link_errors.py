"""Choose the error counters of a link that /metrics shows: at most ten, since a port of an RDMA card has thirty.

The others stay in the agent's snapshot. Detectors and the capsules of incidents compare all of them.
"""

from __future__ import annotations

from zmon.schema.host import NicSample

MAX_COUNTERS = 10  # a link has at most 14 series: these, bytes both ways, its state and its speed

# The counters that come first, by transport: lost and repeated packets, then congestion. Others follow by name.
_FIRST = {
    transport: tuple(" ".join(names).split())
    for transport, names in {
        "infiniband": (
            "link_downed link_error_recovery symbol_error port_rcv_errors port_xmit_discards port_xmit_wait",
            "out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err",  # mlx5
        ),
        "roce": (
            # mlx5
            "out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err out_of_buffer np_cnp_sent",
            "rp_cnp_handled np_ecn_marked_roce_packets port_rcv_errors port_xmit_discards",
            # bnxt_re
            "to_retransmits seq_err_naks_rcvd max_retry_exceeded rnr_naks_rcvd unrecoverable_err oos_drop_count",
            "rx_out_of_buffer rx_cnp_pkts tx_cnp_pkts rx_ecn_marked_pkts",
            # irdma
            "RetransSegs tcpRetransSegs RxECNMrkd cnpSent cnpHandled InProtoErrors tcpInProtoErrors",
        ),
    }.items()
}


def shown_errors(link: NicSample) -> dict[str, int]:
    """Return the counters of the link that the page shows."""
    first = _FIRST.get(link.transport, ())
    ranked = sorted(link.errors, key=lambda name: (first.index(name) if name in first else len(first), name))
    shown = set(ranked[:MAX_COUNTERS])
    return {name: count for name, count in link.errors.items() if name in shown}
