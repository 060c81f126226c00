"""Pure: what a terminal shows, and what its keys send.

The verbs (api) import it, and the command line for a person who is attached.

    screen       the end of a log, replayed to a screen
    full_screen  whether a screen tells more than the text
    emulator     the parser: bytes to operations on a page
    page         the page: drawing, cursor, scrolling, modes
    painting     a terminal's state as bytes that bring another terminal into it
    live         what of a job's bytes passes to a person's terminal
    input_modes  modes that change what a terminal sends
    replies      what a terminal sends by itself
    cells        the cells of a page, as pyte keeps them
    style        how a cell looks, and which texts stand out
    size         how large a terminal may be
    keys         keys by name, as the bytes that an xterm sends
"""
