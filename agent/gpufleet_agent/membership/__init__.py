"""Who is in the cluster, who is alive, and what each says of itself (SWIM, Lifeguard, gossip)."""

from gpufleet_agent.membership.codec import Malformed
from gpufleet_agent.membership.core import Membership
from gpufleet_agent.membership.events import (
    Changed,
    Conflict,
    Effect,
    Event,
    FactsChanged,
    Finished,
    Leave,
    Persist,
    Persisted,
    Received,
    Send,
    Start,
    Wake,
)
from gpufleet_agent.membership.local import Config
from gpufleet_agent.membership.records import Facts, Health, Row, Status, Verdict

__all__ = [
    "Changed",
    "Config",
    "Conflict",
    "Effect",
    "Event",
    "Facts",
    "FactsChanged",
    "Finished",
    "Health",
    "Leave",
    "Malformed",
    "Membership",
    "Persist",
    "Persisted",
    "Received",
    "Row",
    "Send",
    "Start",
    "Status",
    "Verdict",
    "Wake",
]
