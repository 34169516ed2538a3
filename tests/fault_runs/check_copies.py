"""What a fault run must show of Spark's streams: copies that have each message once."""

from __future__ import annotations

from collections import Counter

from fault_runs.check_log import Stored
from fault_runs.evidence import Evidence
from fault_runs.streams import COPIED, COPIES

__all__ = ["check_copies"]


def check_copies(evidence: Evidence, stored: Stored) -> None:
    """Each message is in each copy once, in the partition of its number, and nothing else is.

    The order is that of the source where the rows of each batch have been sorted.
    """
    if not any(evidence.of("stream")):
        return
    for copy in COPIES:
        for partition, names in stored[copy].items():
            where = f"{copy}/{partition}"
            copied = [names[offset] for offset in sorted(names)]
            sources = {topic: stored[topic].get(partition, {}) for topic in COPIED}
            wanted = Counter(name for source in sources.values() for name in source.values())
            lost, more = wanted - Counter(copied), Counter(copied) - wanted
            if lost or more:
                told = f"{where}: {len(lost)} lost, {[*lost][:5]}; {len(more)} more, {[*more][:5]}"
                evidence.violate("copy", told)
            for topic, source in sources.items() if copy == "by-sink" else ():
                there = set(source.values())
                if [n for n in copied if n in there] != [source[at] for at in sorted(source)]:
                    evidence.violate("copy order", f"{where} differs from {topic}")
