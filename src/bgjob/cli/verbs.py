"""Every command: its file in this folder, and what it is for. In the order in which the help shows them.

A file has `add_arguments(parser)` and `run(options, environ)`, which returns the exit code. It is imported when
its command is used. A file that serves several commands finds the one that was typed in `options.verb`.
"""

# here and not from clients.table: the parser of every command would import it
CLIENTS = ("claude", "codex", "gemini", "opencode", "cursor", "vscode")

# heading: {command: (file, what it does)}
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "start and look": {
        "run": ("run", "start a job and print its id; -it enters it, --wait waits for it"),
        "ps": ("ps", "list jobs: who waits for you, what runs, what ended"),
        "status": ("status", "everything that is known of a job"),
        "logs": ("logs", "print what jobs printed; -f follows"),
        "grep": ("grep", "find lines in what jobs printed"),
        "wait": ("wait", "wait until jobs end, print, listen or ask"),
        "events": ("events", "what happened to jobs, newest last"),
        "top": ("top", "a live view of all jobs"),
    },
    "enter and steer": {
        "attach": ("attach", "enter a job: its terminal, or its stdin"),
        "send": ("send", "type text or keys into a job"),
        "kill": ("kill", "stop jobs and everything they started"),
        "signal": ("signal", "send a job's processes one signal"),
        "pause": ("signal", "stop a job's processes until it is resumed"),
        "resume": ("signal", "let a paused job go on"),
        "restart": ("restart", "stop a job and start it again, as a new job"),
        "rerun": ("restart", "start the same command again, as a new job"),
        "priority": ("priority", "move a job within the queue"),
        "open": ("open", "open the port of a job in the browser"),
        "rm": ("rm", "remove ended jobs with their output"),
        "clean": ("clean", "remove ended jobs that are older than they are to be kept"),
    },
    "set up": {
        "client": ("client", "add bgjob to an MCP client, remove it, check it"),
        "targets": ("targets", "other machines that jobs run on: what is free, what is wrong"),
        "notify": ("notify", "how you are told of jobs: show, add, remove, test"),
        "config": ("config", "each setting, its value, and where it comes from"),
        "doctor": ("doctor", "what of this machine bgjob can use, and what is missing"),
        "completion": ("completion", "completion of commands and jobs for bash, zsh or fish"),
        "man": ("man", "this command line as a man page"),
    },
    "serve": {
        "mcp": ("mcp", "serve MCP on stdin and stdout"),
        "serve": ("serve", "serve MCP over HTTP, for many clients, and the page of all jobs"),
        "page": ("page", "open the page of bgjob serve in the browser: every job, live"),
        "token": ("token", "tokens for bgjob serve: add, list, remove"),
        "agent": ("agent", "serve another machine's bgjob on stdin and stdout, which starts it by itself"),
        "hook": ("hook_command", "for the hooks of a client: tell its model which jobs have ended"),
    },
}
VERBS = {verb: row for verbs in GROUPS.values() for verb, row in verbs.items()}
