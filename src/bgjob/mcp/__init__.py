"""The MCP face: the seven tools over stdio."""
