"""What lies in a page (`--format html`): blocks of data, each base 85 of a raw deflate stream."""
import re
import struct
import zlib

DIGITS = "!#%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~"
BLOCK = re.compile(r'(<script type="text/plain" id="(\w+)">)(.*?)(</script>)')


def unpacked(text):
    data = bytearray()
    for i in range(0, len(text), 5):
        group = 0
        for k in range(5):
            group = group * 85 + (DIGITS.index(text[i + k]) if i + k < len(text) else 84)
        data += struct.pack(">I", group)[: min(4, len(text) - i - 1)]
    return zlib.decompress(bytes(data), -15)


def blocks_of(page):
    """{id: bytes} of the page's text."""
    return {block.group(2): unpacked(block.group(3)) for block in BLOCK.finditer(page)}


def with_plain_blocks(page):
    """The page's bytes with each block as it was before it was packed."""
    return re.sub(BLOCK.pattern.encode(), lambda block: block[1] + unpacked(block[3].decode("ascii")) + block[4], page)
