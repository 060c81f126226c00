"""The Model Context Protocol as a server speaks it, without input and output: messages in, messages out.

Every released revision at once: those that begin with a handshake (2024-11-05 to 2025-11-25) and those whose
requests stand alone (2026-07-28). Each request says which revision it is of; both kinds may come over one
connection. A rule names its section of the specification (modelcontextprotocol.io/specification/2026-07-28).

    jsonrpc        messages: read, checked, written
    revisions      the revisions, and what tells them apart
    methods        the methods that a client may call, of each kind
    server         what a server is: its name, its capabilities, its methods
    connection     one client: what it sends becomes answers, requests to perform, cancellations
    request        a request to perform, and the messages that answer it
    tasks          answers that come later
    subscriptions  what a client wants to be told, and the notifications that tell it
    http           what the protocol asks of HTTP: headers that repeat the body, status codes
"""
