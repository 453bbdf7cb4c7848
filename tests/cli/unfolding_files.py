"""Writes small files that unfold to gigabytes into the current folder: for memory_limits.test."""
import struct
import zipfile


def pt(name, pickle):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/data.pkl", pickle)


n = 30000000
pt("dicts.pt", b"\x80\x02" + b"}" * n + b".")
pt("lists.pt", b"\x80\x02(" + b"]" * n + b"l.")
pt("nested.pt", b"\x80\x02" + b"]" * (n // 6) + b"a" * (n // 6 - 1) + b".")
with zipfile.ZipFile("header.npz", "w", zipfile.ZIP_DEFLATED) as file:
    with file.open("a.npy", "w", force_zip64=True) as member:
        member.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1000000000))
        for _ in range(1000):
            member.write(b" " * 1000000)
with open("alias.yaml", "w") as file:
    file.write("a0: &a0 [" + ", ".join("x" * 9) + "]\n")
    for i in range(1, 12):
        file.write("a%d: &a%d [%s]\n" % (i, i, ", ".join(["*a%d" % (i - 1)] * 9)))
