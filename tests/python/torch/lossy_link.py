"""A cable between two hosts that delays and loses packets, for kernels without `tc netem`.

usage: lossy_link.py INTERFACE INTERFACE   what comes in at one goes out at the other 15 to 25 ms later, but every 20th frame is
                                       lost; prints "ready", then a line for each that was
       lossy_link.py --plain INTERFACE     packets leave this interface as they would a wire: of its size, with their checksums
"""
import ctypes
import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 0x0003          # ETH_P_ALL of <linux/if_ether.h>
SET_OPTION = 0x8946             # SIOCETHTOOL of <linux/sockios.h>
OFFLOADS = (0x17, 0x1f, 0x24)   # ETHTOOL_STXCSUM, ETHTOOL_STSO and ETHTOOL_SGSO of <linux/ethtool.h>


def make_plain(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for offload in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", offload, 0))
            fcntl.ioctl(control, SET_OPTION, struct.pack("16sP16x", interface.encode(), ctypes.addressof(value)))


def carry(names):
    ends = []
    for name in names:
        ends.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)))
        ends[-1].bind((name, 0))
    print("ready", flush=True)
    draw = random.Random(1)
    on_the_way = []   # (when it arrives, a number that keeps equal moments apart, where, the frame)
    number = 0
    while True:
        wait = max(0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        for end in select.select(ends, [], [], wait)[0]:
            frame, source = end.recvfrom(65536)
            if source[2] == socket.PACKET_OUTGOING:
                continue
            number += 1
            if number % 20 == 0:
                print("lost", flush=True)
                continue
            heapq.heappush(on_the_way, (time.monotonic() + draw.uniform(0.015, 0.025), number, ends[1 - ends.index(end)], frame))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(on_the_way)
            end.send(frame)


if __name__ == "__main__":
    if sys.argv[1] == "--plain":
        make_plain(sys.argv[2])
    else:
        carry(sys.argv[1:])
