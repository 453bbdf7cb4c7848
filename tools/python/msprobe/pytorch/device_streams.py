"""Streams of an accelerator, whichever it is."""
import _thread
import contextlib
import sys

import torch


def _accelerator(device):
    """The module of PyTorch for a kind of devices; None for the host and for kinds without one."""
    return None if device.type == "cpu" else getattr(torch, device.type, None)


def current_stream(device):
    """None on devices without streams."""
    accelerator = _accelerator(device)
    return accelerator.current_stream(device) if hasattr(accelerator, "current_stream") else None


def is_recorded(device):
    """Whether a CUDA graph is being recorded: what is queued now becomes part of it, and what waits for the device ends it."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def handle_of_stream(device):
    """What tells the current stream from others of the device: on CUDA the number by which libraries know it."""
    if device.type == "cuda":
        return torch._C._cuda_getCurrentRawStream(device.index or 0)   # a tenth of what the object costs
    stream = current_stream(device)
    # Not the library's number where there is another one: on an NPU, asking for that waits until a thread of torch_npu has queued everything.
    for name in ("stream_id", "_cdata", device.type + "_stream"):
        if hasattr(stream, name):
            return getattr(stream, name)
    return 0


def wait_for_streams(streams, device):
    """What is queued from now on runs behind what these have done: {handle: stream}, emptied."""
    current = handle_of_stream(device)
    for handle, stream in streams.items():
        if handle != current and stream is not None:
            current_stream(device).wait_stream(stream)
    streams.clear()


def in_streams_of(tensors):
    """A context for another thread, in which work on the devices of these tensors is queued on the streams that are current in this one."""
    streams = {tensor.device: current_stream(tensor.device) for tensor in tensors if tensor.device.type not in ("cpu", "meta")}

    @contextlib.contextmanager
    def entered():
        with contextlib.ExitStack() as stack:
            for device, stream in streams.items():
                if stream is not None:
                    _leave_first_device(device)
                    stack.enter_context(_accelerator(device).stream(stream))
            yield

    return entered()


def _leave_first_device(device):
    """New threads begin on the first device. Coming back to it from another one takes memory of it, for every process of a machine."""
    accelerator = _accelerator(device)
    if hasattr(accelerator, "set_device"):
        accelerator.set_device(device)


def made_aside(device, make):
    """A tensor of the device for as long as a capture: made by a thread of its own, because this one may be in a mode (inference, a pool of memory that
    belongs to a graph) which that tensor must not belong to. It can be used on every stream."""
    made = []

    def run():
        _leave_first_device(device)
        made.append(make())
        stream = current_stream(device)
        if stream is not None:
            stream.synchronize()

    in_own_thread(run)
    return made[0]


def in_own_thread(work):
    """Runs work() to its end in another thread. Not by the module threading, which would put a thread of autograd that waits for it into its
    list, and leave it there."""
    if sys.is_finalizing():   # a thread that begins now may never get its turn
        raise RuntimeError("Python is ending: no thread can begin")
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
