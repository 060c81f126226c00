"""A job's output, for those who read it: from the log's bytes to the text of an answer.

The verbs (api), the watcher and the command line import it.

    log_reader    reads a log by offsets: pieces, gaps, both streams in one order
    log_segments  the segments of a log on disk, and their bytes
    log_end       how a log ends: its last line, a prompt
    log_kept      what is kept of a deleted segment, as a segment with holes
    log_runs      which stream wrote the bytes of a segment, and when
    log_lines     a log as whole lines, forward or backward
    line_pages    some whole lines before or after any place
    line_match    which of some lines match a pattern, as printed or as shown
    merged        a log as one plain file
    log_search    finds lines in a log
    log_watch     matches a log against the patterns of watches, as it grows
    excerpt       what an answer shows of a log: all, or head and tail
    tail          the last lines of a stream
    last_lines    where the last lines of a log begin
    timeline      both streams in one order, with times
    begun         what begins before a part of a stream and ends in it
    pieces        pieces of a stream: cut, joined, merged with notes
    fitted        an excerpt as an answer has it: cleaned, within its budget
    text          from bytes to text, and notes about the rest
    cleaner       output without escape sequences and hidden characters
    pty_text      what was printed on a terminal, as lines that can be read
    tty_text      text for a person's terminal
"""
