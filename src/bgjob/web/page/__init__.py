"""The page: every job, live, in the browser. Its files are in `static`; here is what they ask for.

It holds no logic of its own: its requests are performed by the api, as those of tools and command line are.

    site      the page as a whole: its paths
    files     its files, as they are sent
    guard     who may ask for the page: Host, Origin, header, login, in this order
    logins    one-time keys and logins, in the home
    reads     what it reads: a job, its log, what happened, the store
    endpoint  one request: what it asks, the right that it needs, the answer as JSON
    streams   the streams of all open pages, and what a page does in the job that its stream shows
    stream    /api/stream: all that an open page is told
    live      all jobs, live, for all pages together
    row_list  all jobs as rows, with versions: a page is sent what has changed
    rows      one job as a row
    samples   CPU and memory of the jobs that run, over the last ten minutes
    viewer    one page in one job: a thread tells it what the job prints, and types what it sends
    actions   what a page does to jobs: start, answer, kill and so on
    words     errors in the words of the page
    views     what a page is shown of a job: its terminal, or that its log has grown
    event_queue  events of a stream, from a thread to the page
"""
