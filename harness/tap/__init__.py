"""The tap: a loopback proxy that stands where the gateway believes the provider is; witness, fault and mutation injector."""

from harness.tap.fault import (
    FAULT_KINDS,
    Announce,
    Duplicate,
    Empty,
    Fault,
    GzipBomb,
    Hang,
    Html,
    InvalidJson,
    IsError,
    Latency,
    Oversize,
    Reset,
    RpcError,
    Status,
    StubReply,
    Truncated,
    WrongId,
    make_fault,
)
from harness.tap.mount import Mount
from harness.tap.mutate import MUTATION_KINDS, SIX_KINDS, Mutation, mutate_tool
from harness.tap.operations import Operation
from harness.tap.server import Tap
from harness.tap.witness import Sequencer, Stray

__all__ = [
    "FAULT_KINDS",
    "MUTATION_KINDS",
    "SIX_KINDS",
    "Announce",
    "Duplicate",
    "Empty",
    "Fault",
    "GzipBomb",
    "Hang",
    "Html",
    "InvalidJson",
    "IsError",
    "Latency",
    "Mount",
    "Mutation",
    "Operation",
    "Oversize",
    "Reset",
    "RpcError",
    "Sequencer",
    "Status",
    "Stray",
    "StubReply",
    "Tap",
    "Truncated",
    "WrongId",
    "make_fault",
    "mutate_tool",
]
