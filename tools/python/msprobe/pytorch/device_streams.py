"""Streams of an accelerator, whichever it is."""
import threading

import torch


def current_stream(device):
    """None on devices without streams."""
    accelerator = getattr(torch, device.type, None)
    return accelerator.current_stream(device) if hasattr(accelerator, "current_stream") else None


def handle_of_stream(device):
    """The number by which libraries know the current stream."""
    if device.type == "cuda":
        return torch._C._cuda_getCurrentRawStream(device.index or 0)   # a tenth of what the object costs
    return getattr(current_stream(device), device.type + "_stream", 0)


def wait_for_streams(streams, device):
    """What is queued from now on runs behind what these have done: {handle: stream}, emptied."""
    current = handle_of_stream(device)
    for handle, stream in streams.items():
        if handle != current and stream is not None:
            current_stream(device).wait_stream(stream)
    streams.clear()


def made_aside(make):
    """A tensor for as long as a capture: made by a thread of its own, because this one may be in a mode (inference, a pool of memory that
    belongs to a graph) which that tensor must not belong to. It can be used on every stream."""
    made = []

    def run():
        made.append(make())
        stream = current_stream(made[0].device)
        if stream is not None:
            stream.synchronize()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    return made[0]
