"""Operations of programs, and how a walk ends.

An instruction is four numbers: the operation, and what it works on, a, b and c. Where nothing is said of a
it is -1, for no stream.
"""

from __future__ import annotations

__all__ = [
    "BAD_BLOCK",
    "BAD_BRANCH",
    "BAD_COUNT",
    "BAD_NUMBER",
    "BAD_SIZE",
    "BLOCKS",
    "CUT",
    "DONE",
    "END",
    "FILL",
    "FIXED",
    "FULL",
    "JUMP",
    "LAST_READING",
    "LONG_NUMBER",
    "NEXT",
    "NUMBER",
    "OPTIONAL",
    "REFUSE",
    "SIZED",
    "UNFILLED",
    "UNION",
    "UNSYNCED",
    "WHY",
    "WIDTH",
]

WIDTH = 4
"""Numbers of an instruction."""

NUMBER = 1
"""Reads a number from b to c and puts it into stream a; -1 = none, here and in all that follow."""
SIZED = 2
"""Reads a length; puts where so many bytes begin into stream a and the length into the next one."""
OPTIONAL = 3
"""Reads the branch of a union, puts whether it is b into stream a, and goes to c where it is not."""
UNION = 4
"""Reads the branch of a union, which must be below b, and goes to that one of the jumps that follow."""
LAST_READING = UNION
"""Operations up to here read a number first."""
NEXT = 5
"""Begins the next item of an array or map, of c bytes at least. Where there is none, puts the number of items
into stream a and goes to b."""
BLOCKS = 6
"""Begins an array or map."""
JUMP = 7
"""Goes to b."""
FILL = 8
"""Puts 0 into stream a."""
FIXED = 9
"""Puts where b bytes begin into stream a."""
REFUSE = 10
"""Ends the walk: a union has no such branch."""
END = 11
"""Ends an entry."""

DONE = 0
"""All entries were read."""
FULL = 1
"""A stream has no room; the entry is to be read again once it has."""
CUT = -1
LONG_NUMBER = -2
BAD_BRANCH = -3
BAD_SIZE = -4
BAD_COUNT = -5
BAD_NUMBER = -6
UNFILLED = -7
BAD_BLOCK = -8
UNSYNCED = -9
WHY = {
    CUT: "a value runs out of its block",
    LONG_NUMBER: "a number takes more than 64 bits",
    BAD_BRANCH: "a union has no branch of that number",
    BAD_SIZE: "a length is negative, or goes beyond its block",
    BAD_COUNT: "an array, a map or a block says more items than its bytes can hold",
    BAD_NUMBER: "an int takes more than 32 bits, or an enum has no symbol of that number",
    UNFILLED: "a block has more bytes than its entries take",
    BAD_BLOCK: "a block says a negative number of entries, or more bytes than the file has",
    UNSYNCED: "a block does not end with the file's sync marker",
}
"""Reasons for which a walk ends early."""
