"""What the worker, the consumer and the producer share; nothing here is for others."""
