"""Puts the migration scripts into the package, as pgq/migrations, rendered from ``sql/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MigrationsHook(BuildHookInterface[Any]):
    """In a source distribution the scripts are already inside the package: nothing to do there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        tools = Path(self.root) / "tools"
        if not tools.is_dir():
            return
        for tool in ("build.py", "upgrade.py"):
            subprocess.run([sys.executable, tools / tool], check=True, stdout=sys.stderr)
        if version != "editable":
            to = "src/pgq/migrations" if self.target_name == "sdist" else "pgq/migrations"
            for script in (Path(self.root).parent / "migrations").glob("pgq--*.sql"):
                build_data["force_include"][str(script)] = f"{to}/{script.name}"
