"""The data types that processes exchange. Frozen data only; nothing here touches files, network or clock.

Times are seconds and amounts are bytes. `None` means unknown and is never written as 0. These dataclasses are sent as
JSON, so their field names are part of the protocol.

`names` has the words of the wire, `measures` what is counted in a step, and `steps` the one shape of steps.
`job_snapshot` is the input of detectors, `finding` and `evidence` are their output. `api/` has the HTTP answers.
"""
