"""The one error of this package."""

__all__ = ["EmbeddedServerError"]


class EmbeddedServerError(RuntimeError):
    """The embedded server cannot be found, started or reached; the message says what to do."""
