"""The MCP face: the tools, over stdio.

It performs on the api what the protocol makes of a client's messages, and decides nothing: each tool is one
call of the api.

    server         what bgjob tells of itself, and the start over stdio
    stdio          the transport: messages over stdin and stdout
    workers        threads for requests that take long
    stderr         the log of the server
    service        performs requests
    caller         the client of one request: its progress, its cancellation
    news_line      the line `news` of an answer
    tasks          waits that go on as tasks
    tools          the tools: signature, description and one call each
    resources      jobs as resources: listed and read
    uris           their URIs
    subscriptions  tells clients what has changed
    completions    completes ids and names of jobs
    registry       declares tools, checks arguments and calls them
    schema         derives tools.json from the tools; not at run time
    target_schema  what clients see of targets, where there are some
    arguments      arguments as clients and models send them
    complaints     what is wrong with them, in words
    results        the answers of the tools about one job
    listings       their answers about many jobs
    fields         how the nouns of the api become fields: times, signals, phases
    answers        an answer as structured content and as text
    answer_text    an answer as text
"""
