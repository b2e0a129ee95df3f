"""gdb commands for kernels on the emulator. The threads of a block are fibers, and gdb sees only the running one.

    (gdb) source src/emulator/gdb.py
    (gdb) fibers        location of each thread of the block, equal ones grouped
    (gdb) fiber 5       stack of thread 5

The emulator must be built with debug information (-DCMAKE_BUILD_TYPE=Debug), for x86-64. Both commands show the block
that the selected OS thread runs.
"""

import itertools

import gdb

# Offsets in bytes, from the stack pointer of a suspended fiber, of the registers that Boost.Context saved, and the size
# of all saved registers.
SAVED = {"rbp": 0x30, "rip": 0x38}
SAVED_BYTES = 0x40


def threads():
    """Returns the running thread's address and the emulated threads of the block, by number.

    Raises gdb.GdbError outside kernels.
    """
    running = gdb.parse_and_eval("emulator::this_thread")
    if int(running) == 0:
        raise gdb.GdbError("this OS thread runs no kernel: choose another with `thread`, or stop in a kernel")
    block = running["block"].cast(gdb.lookup_type("emulator::Block").pointer())
    first = block["threads_"]["_M_impl"]["_M_start"]
    found = [(first + number).dereference()["_M_t"]["_M_t"] for number in range(int(block["size_"]))]
    head = gdb.lookup_type("emulator::Thread").pointer()
    return int(running), [each.address.cast(head.pointer()).dereference() for each in found]


def place(thread, running):
    """Returns the state and location of a thread as text."""
    state = str(thread["state"]).rpartition("::")[2]
    if int(thread) == running:
        return "runs"
    if state in ("ready", "running", "finished") or not thread["line"]:
        return state
    file = thread["file"].string().rpartition("/")[2]
    return f"{state}: {thread['operation'].string()} in {file}:{int(thread['line'])}"


class Fibers(gdb.Command):
    """Show the location of each thread of the block."""

    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        running, found = threads()
        places = [(place(thread, running), number) for number, thread in enumerate(found)]
        for where, group in itertools.groupby(places, key=lambda each: each[0]):
            numbers = [number for _, number in group]
            span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
            gdb.write(f"{span:>9}  {where}\n")


class Fiber(gdb.Command):
    """Show the stack of a thread of the block: fiber NUMBER."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        running, found = threads()
        if not argument.isdigit() or int(argument) >= len(found):
            raise gdb.GdbError(f"fiber: give the number of a thread of the block, 0 to {len(found) - 1}")
        thread = found[int(argument)]
        if int(thread) == running:
            gdb.execute("backtrace")
            return
        context = int(thread["fiber"]["context_"])
        if context == 0:
            raise gdb.GdbError(f"thread {argument} has not begun")
        show_from(context)


def show_from(context):
    """Prints the stack that begins at a saved context, and restores the registers."""
    frame = gdb.selected_frame()
    if frame.architecture().name() != "i386:x86-64":
        raise gdb.GdbError("fiber: only the registers of x86-64 are known")
    gdb.newest_frame().select()
    word = gdb.lookup_type("unsigned long").pointer()
    there = {name: int(gdb.Value(context + offset).cast(word).dereference()) for name, offset in SAVED.items()}
    there["rsp"] = context + SAVED_BYTES
    here = {name: int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in there}
    try:
        move(there)
        gdb.execute("backtrace")
    finally:
        move(here)
        frame.select()


def move(registers):
    for name, value in registers.items():
        gdb.execute(f"set ${name} = {value}", to_string=True)


Fibers()
Fiber()
