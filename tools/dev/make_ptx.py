#!/usr/bin/env python3
"""Translates src/device/cuda/statistics.cu into statistics.ptx, which the build uses: building msprobe needs no CUDA.

usage: tools/dev/make_ptx.py LIBNVRTC     the path of NVIDIA's libnvrtc.so of CUDA 11.7, whose code drivers from 515 on read
       tools/dev/make_ptx.py --check      whether the one was made of the other
"""
import ctypes
import hashlib
import os
import re
import sys

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "device", "cuda")
SOURCE, RESULT = os.path.join(FOLDER, "statistics.cu"), os.path.join(FOLDER, "statistics.ptx")
OPTIONS = [b"--gpu-architecture=compute_60", b"--std=c++14"]


def source():
    with open(SOURCE, "rb") as file:
        return file.read()


def translate(path, text):
    """The assembler text of NVIDIA's virtual machine."""
    nvrtc = ctypes.CDLL(path)
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"statistics.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        sys.exit("error: " + log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value.decode("ascii")


def main():
    text = source()
    digest = hashlib.sha256(text).hexdigest()
    if sys.argv[1:] == ["--check"]:
        with open(RESULT, encoding="ascii") as file:
            if digest not in file.read():
                sys.exit("error: %s was not made of %s\n  hint: tools/dev/make_ptx.py" % (RESULT, SOURCE))
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ptx = translate(sys.argv[1], text)
    ptx = re.sub(r"^//.*\n", "", ptx, flags=re.MULTILINE).strip()
    with open(RESULT + ".new", "w", encoding="ascii") as file:
        file.write("// Made by tools/dev/make_ptx.py of statistics.cu:\n// %s\n" % digest)
        file.writelines(line.rstrip() + "\n" for line in ptx.splitlines() if line.strip())
    os.replace(RESULT + ".new", RESULT)


if __name__ == "__main__":
    main()
