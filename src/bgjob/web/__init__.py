"""The HTTP face: MCP over Streamable HTTP, for many clients at once.

It performs on the api what the protocol makes of a client's messages, as the MCP face does over stdio. Only
`bgjob serve` imports starlette and uvicorn, by way of `server`.

    server        the server: starts, listens, and stops when it is told to
    listen        where it listens: an address or a unix socket
    servers       which servers of a home run now, and where a browser finds them
    connection    one connection: slow and idle clients are ended
    app           what is served at which path
    access        who may ask: Host, Origin, token, in this order; of the page: page.guard
    tokens        the file of tokens: what each may do
    services      performs the requests of a token, with its rights and its rules
    mcp_endpoint  /mcp: one message a POST
    body          the body of a request, bounded in size and time
    replies       the answer to a request: as JSON, or as a stream of events
    metrics       /metrics: what Prometheus is told
"""
