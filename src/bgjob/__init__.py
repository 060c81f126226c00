"""bgjob: shell commands as durable background jobs, for AI agents and the humans beside them."""

__version__ = "0.1.0"
