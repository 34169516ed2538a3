"""pgq: a message broker inside PostgreSQL."""
