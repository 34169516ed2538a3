"""Puts the migration scripts of the repository into the wheel, as pgq/migrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MigrationsHook(BuildHookInterface[Any]):
    """In a source distribution the scripts are already inside the package: nothing to do there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        migrations = Path(self.root).parent / "migrations"
        if version != "editable" and migrations.is_dir():
            build_data["force_include"][str(migrations)] = "pgq/migrations"
