"""How to install what an extra of the package brings."""

from __future__ import annotations

import re
import shlex

__all__ = ["install"]


def install(extras: str) -> str:
    """The command; it names the libraries, because the package itself may be on no index."""
    from importlib.metadata import PackageNotFoundError, requires

    name = f"install the extra {extras}"
    try:
        found = requires("pgq-sql") or []
    except PackageNotFoundError:  # run from its sources
        return name
    of_these = re.compile(rf"extra == ['\"]({extras.replace(',', '|')})['\"]")
    wanted = {one.partition(";")[0].strip() for one in found if of_these.search(one)}
    return f"{name}: pip install {shlex.join(sorted(wanted))}"
