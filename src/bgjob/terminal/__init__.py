"""Pure: what a terminal shows, and what its keys send.

Only the verbs (api) import it.

    screen       the end of a log, replayed to a screen
    full_screen  whether the end of a log is a screen or text
    emulator     the parser: bytes to operations on a page
    page         the page: drawing, cursor, scrolling, modes
    cells        the cells of a page, as pyte keeps them
    style        what makes text stand out: reverse video, backgrounds
    size         how large a terminal may be
    keys         keys by name, as the bytes that an xterm sends
"""
