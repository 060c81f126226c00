"""The MCP face: the tools, over stdio."""
