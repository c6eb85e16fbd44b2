"""The threads and requests of a program of Curtail's, in gdb.

    (gdb) source crates/fiber/gdb/curtail.py
    (gdb) curtail threads          one line for each that is suspended: number, context, what, where
    (gdb) curtail bt 3             the stack of number 3
    (gdb) curtail bt all

For a process that runs (not for a core file): the registers of the selected thread are replaced for a
moment. Those that run now are on the kernel's threads: `thread apply all bt`.

Needs the program's symbols, and no debugging information. The layouts are those of `SLABS`
(crates/fiber/src/overflow.rs), of the beginning of `Context`, and of what `curtail_switch` saves
(crates/fiber/src/switch.rs).
"""

import re
import struct

import gdb

COLOURS, COLOUR_STEP, GUARD = 16, 256, 1 << 20
SAVED = ("r15", "r14", "r13", "r12", "rbx", "rbp", "pc")


def words(address, count):
    memory = gdb.selected_inferior().read_memory(address, 8 * count)
    return struct.unpack(f"<{count}Q", memory.tobytes())


def symbol(name):
    """Where a static variable lies, with debugging information or without."""
    listed = gdb.execute(f"info variables {name}", to_string=True)
    for line in listed.splitlines():
        found = re.match(r"(0x[0-9a-f]+) +(\S+)", line)
        if found and re.fullmatch(rf"{name}(::h[0-9a-f]+)?", found[2]):
            return int(found[1], 16)
    return int(gdb.parse_and_eval(f"(unsigned long)&'{name}'"))


def slots():
    """The low ends and sizes of all stacks that were ever mapped."""
    (count,) = words(symbol("curtail_fiber::overflow::COUNT"), 1)
    for index in range(count):
        low, size, number = words(symbol("curtail_fiber::overflow::SLABS") + 24 * index, 3)
        for slot in range(number):
            yield low + slot * size, size


def suspended():
    """The context and saved stack pointer of each stack that something is suspended on. (The context of
    what runs has none.)"""
    for low, size in slots():
        for colour in range(COLOURS):
            end = low + size - colour * COLOUR_STEP
            try:
                (context,) = words(end - 16, 1)
                sp, _, flags, shown = words(context, 4)
            except gdb.MemoryError:
                continue
            in_task, kind = flags >> 32 & 0xFF, flags >> 40 & 0xFF
            inside = low + GUARD <= sp < end - 16
            if shown == context and inside and in_task == 1 and kind in (1, 2):
                yield context, sp, "request" if kind == 1 else "thread"
                break


def where(sp):
    """The functions on the stack, as gdb finds them."""
    gdb.newest_frame().select()
    names = ("rsp",) + SAVED
    before = {name: int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in names}
    try:
        for name, value in zip(SAVED, words(sp + 16, 7)):
            gdb.execute(f"set ${name} = {value}")
        gdb.execute(f"set $rsp = {sp + 72}")
        return gdb.execute("bt", to_string=True)
    finally:
        gdb.newest_frame().select()
        for name, value in before.items():
            gdb.execute(f"set ${name} = {value}")


class Curtail(gdb.Command):
    """Threads and requests of Curtail's: `curtail threads`, `curtail bt NUMBER|all`."""

    def __init__(self):
        super().__init__("curtail", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        language = gdb.parameter("language")
        # Expressions here are C's, also where the program stands in a function of Rust.
        gdb.execute("set language c")
        try:
            self.answer(argument.split())
        finally:
            gdb.execute(f"set language {language}")

    def answer(self, asked):
        found = list(suspended())
        if asked == ["threads"]:
            for number, (context, sp, kind) in enumerate(found):
                frame = gdb.execute(f"info symbol {words(sp + 64, 1)[0]}", to_string=True)
                print(f"{number:4} {context:#x} {kind:8} {frame.strip()}")
        elif asked[:1] == ["bt"] and len(asked) == 2:
            chosen = range(len(found)) if asked[1] == "all" else [int(asked[1])]
            for number in chosen:
                context, sp, kind = found[number]
                print(f"{number} {context:#x} {kind}\n{where(sp)}")
        else:
            raise gdb.GdbError("curtail threads | curtail bt NUMBER|all")


Curtail()
