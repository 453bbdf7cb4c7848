"""Compiled graphs, kernel by kernel: which result of torch.compile is not what its operators give?

    from msprobe.pytorch import compile_check

    compile_check.start(output="./compile_checked")   # before the first compiled call
    train()
    compile_check.stop()                              # writes compile_checked/compile_check.csv

`msprobe compile_check -- python3 train.py` does the same for a script as it is, and answers.
"""
_watch = None


def start(output="./compile_checked", step=(0,), graph=None, kernel=None, seconds=None, megabytes=None, repro=None,
          against=None):
    """Checks graphs that inductor compiles from here on.

    output: folder of compile_check.csv; with ranks of its own folder rank<N>.
    step: numbers of the calls of each graph to check, from 0; None: all. With changing shapes also the first call of up to three
        of them.
    graph, kernel: names of graphs ("0/0", "0/0 backward") and of kernels; None: all.
    seconds, megabytes: what checking may take in all, and for one kernel.
    repro: a folder for kernels alone, those that are wrong or, with `kernel`, those chosen: source, inputs and run.py, which says again
        what was said here.
    against: "eager" also holds the outputs of whole graphs against their operators run one by one.
    Raises RuntimeError where a check is running already. Where this PyTorch is built otherwise than those that are known, a message says so, and
    nothing is checked.
    """
    global _watch
    from msprobe.pytorch.compile_check.watch import Watch
    if against not in (None, "eager"):
        raise ValueError("against: 'eager' or None")
    if _watch is not None:
        raise RuntimeError("compile_check is running already: call stop() first")
    watch = Watch(str(output), None if step is None else [step] if isinstance(step, int) else list(step), graph, kernel, seconds, megabytes,
                  None if repro is None else str(repro), against)
    watch.install()
    _watch = watch


def stop():
    """Writes the table; graphs run as they would without a check from here on. Nothing where none is running."""
    global _watch
    if _watch is not None:
        _watch.close()
    _watch = None
