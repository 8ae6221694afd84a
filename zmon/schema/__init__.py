"""Every shape that crosses a process border: frozen data, and nothing that touches the outside.

Times are seconds, amounts bytes; `None` means unknown and is never written as 0. What crosses the wire is these
dataclasses as JSON: field names are the contract.
"""
