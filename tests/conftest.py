"""What every test needs of the process that runs it."""

import signal

# A shell makes what it starts in the background ignore Ctrl-C, and whatever the tests start would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
