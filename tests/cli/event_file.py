"""TensorBoard's event files, read without TensorBoard: frames with their checksums, and the scalars in them."""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(field number, value) of a protobuf message; nested messages as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind)
            size = varint() if size is None else size
            value = message[at:at + size]
            at += size
        yield key >> 3, value


def read_events(path, check_crc=True):
    """[(tag, step, value)] of an event file; an exception where its frame is wrong."""
    return parse_events(path.read_bytes(), check_crc, path)


def parse_events(data, check_crc=True, path="events"):
    at, events = 0, []
    while at < len(data):
        size, size_crc = struct.unpack_from("<QI", data, at)
        message = data[at + 12:at + 12 + size]
        crc, = struct.unpack_from("<I", data, at + 12 + size)
        if check_crc and (size_crc != masked(data[at:at + 8]) or crc != masked(message)):
            raise ValueError("%s: checksum at byte %d" % (path, at))
        at += 16 + size
        step, tag, value = 0, None, None
        for number, content in fields(message):
            if number == 2:
                step = content
            elif number == 5:
                for _, item in fields(content):
                    for inner, part in fields(item):
                        if inner == 1:
                            tag = part.decode()
                        elif inner == 2:
                            value, = struct.unpack("<f", part)
        if tag is not None:
            events.append((tag, step, value))
    return events
