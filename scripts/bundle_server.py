"""The entry point of the MCP bundle. A host may leave placeholders in the variables that it sets."""

import os

from bgjob.cli import main

for name in [name for name in os.environ if name.startswith("MCP_BG_")]:
    if os.environ[name].startswith("${user_config."):
        del os.environ[name]
if "MCP_BG_WORKING_DIR" in os.environ:
    os.environ["MCP_BG_WORKING_DIR"] = os.path.expandvars(os.environ["MCP_BG_WORKING_DIR"])

main(["mcp"])
