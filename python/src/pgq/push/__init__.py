"""The push worker: what is published to a topic is sent to an HTTP endpoint, in batches.

``pgq push --config push.toml`` runs it. PUSH.md says what it promises and how it is set up.
"""

from __future__ import annotations

from pgq.push._config import Config, ConfigError, Push, load, parse
from pgq.push._figures import Figures
from pgq.push._running import PushWorker, run
from pgq.push._worker import PushError

__all__ = [
    "Config",
    "ConfigError",
    "Figures",
    "Push",
    "PushError",
    "PushWorker",
    "load",
    "parse",
    "run",
]
