"""Connections and heartbeats. The synchronous twin is generated from this folder."""
