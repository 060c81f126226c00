"""The page: every job, live, in the browser. Its files are in `static`; here is what they ask for.

It holds no logic of its own: its requests are performed by the api, as those of tools and command line are.

    site      the page as a whole: its paths
    files     its files, as they are sent
    guard     which requests may be of the page: Origin, header, login
    logins    one-time keys and logins, in the home
    reads     what it reads: a job, its log, what happened, the store
    endpoint  one request: what it asks, the right that it needs, the answer as JSON
"""
