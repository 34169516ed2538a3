"""House rule for Python files: they run on a system that has Python and make, and little else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.house import ROOT, refuse

# psutil knows about processes and their memory on every system
_LACKING = re.compile(r'/proc/|["\'](?:ps|pgrep|pkill|pidof|killall|lsof|fuser|ss|netstat)["\']')

_MAY = {
    "benchmarks/harness.py": "the processor's name, unknown elsewhere",
    "python/src/pgq/embedded/_leftovers.py": "the namespace of process ids, unknown to psutil",
    "tests/plans/test_kept_memory.py": "the page faults of a process, unknown to psutil",
    "tests/rules/test_programs.py": "these lines",
}


def test_processes_are_looked_at_by_psutil() -> None:
    def broken() -> Iterator[str]:
        for folder in ("python", "tests", "benchmarks"):
            for path in sorted((ROOT / folder).rglob("*.py")):
                name = str(path.relative_to(ROOT))
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    if name not in _MAY and _LACKING.search(line):
                        yield f"{name}:{number}: {line.strip()}"

    refuse(broken())
