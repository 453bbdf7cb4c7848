"""Streams of an accelerator, whichever it is."""
import _thread
import contextlib

import torch


def current_stream(device):
    """None on devices without streams."""
    accelerator = None if device.type == "cpu" else getattr(torch, device.type, None)
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


def in_streams_of(tensors):
    """A context in which work of another thread is queued where this thread queues its own: {device of a tensor: its current stream}."""
    streams = {tensor.device: current_stream(tensor.device) for tensor in tensors if tensor.device.type not in ("cpu", "meta")}

    @contextlib.contextmanager
    def entered():
        with contextlib.ExitStack() as stack:
            for device, stream in streams.items():
                if stream is not None:
                    stack.enter_context(getattr(torch, device.type).stream(stream))
            yield

    return entered()


def made_aside(make):
    """A tensor for as long as a capture: made by a thread of its own, because this one may be in a mode (inference, a pool of memory that
    belongs to a graph) which that tensor must not belong to. It can be used on every stream."""
    made = []

    def run():
        made.append(make())
        stream = current_stream(made[0].device)
        if stream is not None:
            stream.synchronize()

    in_own_thread(run)
    return made[0]


def in_own_thread(work):
    """Runs work() to its end in another thread. Python does not hear of it: a thread of autograd that waits here would stay in its list."""
    ended, raised = _thread.allocate_lock(), []
    ended.acquire()

    def run():
        try:
            work()
        except BaseException as error:
            raised.append(error)
        finally:
            ended.release()

    _thread.start_new_thread(run, ())
    with ended:
        pass
    if raised:
        raise raised[0]
