"""The page: every job, live, in the browser. Its files are in `static`; here is what they ask for.

It holds no logic of its own: its requests are performed by the api, as those of tools and command line are.

    site      the page as a whole: its paths
    files     its files, as they are sent
    guard     who may ask for the page: Host, Origin, header, login, in this order
    logins    one-time keys and logins, in the home
    endpoint  one request: what it asks, the right that it needs, the answer as JSON
"""
