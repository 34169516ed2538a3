"""What is measured: the cells, with their targets."""

from __future__ import annotations

from benchmarks.cells.base import Cell, Length, Quantity, Skipped
from benchmarks.cells.catalogue import CELLS

__all__ = ["CELLS", "Cell", "Length", "Quantity", "Skipped"]
