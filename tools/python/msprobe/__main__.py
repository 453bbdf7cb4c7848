"""`python3 -m msprobe ...` is `msprobe ...`, where the folder of the program is not on PATH."""
import os
import sys

from msprobe import _program

if __name__ == "__main__":
    try:
        program = _program.find()
    except FileNotFoundError as error:
        sys.exit("error: %s" % error)
    os.execv(program, [program] + sys.argv[1:])
