"""The MCP face: the tools, over stdio.

It parses and renders, and decides nothing: each tool is one call of the api. Only the CLI imports it.

    server       the MCP server: handlers of the protocol
    stdio        messages over stdin and stdout
    tools        the tools: signature, description and one call each
    registry     declares tools, checks arguments and calls them
    arguments    arguments as clients and models send them
    schema       input schemas, and what is wrong with an argument
    results      the answers of the tools about one job, as models
    listings     their answers about many jobs
    fields       how the nouns of the api become fields: times, signals, phases
    answer_text  an answer as text
"""
