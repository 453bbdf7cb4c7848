"""Key data of a reinforcement learning (responses, rewards, log probabilities) in files that
`msprobe rl_compare` holds against those of another run.

    from msprobe.core import SingleSave
    SingleSave("./dump_path", fmk="pytorch")
    SingleSave.save({"response": tensor, "pair": [tensor, tensor], "parts": {"a": tensor}})
    SingleSave.step()
"""
import json
import os
import sys

_FRAMEWORKS = ("pytorch", "mindspore")


def _warn(text):
    sys.stderr.write("msprobe: warning: %s\n" % text)


class _PyTorch:
    def __init__(self):
        import torch
        self._torch = torch

    def is_tensor(self, value):
        return isinstance(value, self._torch.Tensor)

    def array(self, tensor):
        """The elements as a numpy array; formats that numpy lacks become float32."""
        tensor = tensor.detach().cpu().resolve_conj()
        if tensor.dtype == self._torch.bfloat16 or "float8" in str(tensor.dtype):
            tensor = tensor.float()
        return tensor.numpy()

    def rank(self):
        distributed = self._torch.distributed
        started = distributed.is_available() and distributed.is_initialized()
        return distributed.get_rank() if started else 0


class _MindSpore:
    def __init__(self):
        import mindspore
        self._mindspore = mindspore

    def is_tensor(self, value):
        return isinstance(value, self._mindspore.Tensor)

    def array(self, tensor):
        """The elements as a numpy array; bfloat16 becomes float32."""
        if "BFloat16" in str(tensor.dtype):
            tensor = tensor.astype(self._mindspore.float32)
        return tensor.asnumpy()

    def rank(self):
        try:
            from mindspore.communication import get_rank
            return get_rank()
        except (ImportError, RuntimeError, ValueError):
            return 0


def _statistics(array):
    """Of all elements as float64, rounded where the data was float32 or narrower."""
    import numpy
    facts = {"max": None, "min": None, "mean": None, "norm": None, "shape": list(array.shape)}
    if array.size:
        wide = (numpy.abs(array) if array.dtype.kind == "c" else array).astype(numpy.float64)
        narrow = numpy.float64 if array.dtype == numpy.float64 else numpy.float32
        flat = wide.reshape(-1)
        facts.update(max=float(flat.max()), min=float(flat.min()), mean=float(narrow(flat.mean())),
                     norm=float(narrow(numpy.sqrt(numpy.dot(flat, flat)))))
    return facts


class SingleSave:
    """One per process: the first folder counts, later calls give the same object."""

    _instance = None

    def __new__(cls, dump_path, fmk="pytorch"):
        if cls._instance is None:
            if fmk not in _FRAMEWORKS:
                raise ValueError("fmk must be pytorch or mindspore, not %r" % (fmk,))
            instance = super().__new__(cls)
            instance._framework = _PyTorch() if fmk == "pytorch" else _MindSpore()
            instance._folder = os.fspath(dump_path)
            instance._step = 0
            instance._calls = {}  # of save, by key, since the step began
            cls._instance = instance
        return cls._instance

    @classmethod
    def _get(cls):
        if cls._instance is None:
            raise RuntimeError('SingleSave has no folder yet: call SingleSave("./dump_path") first')
        return cls._instance

    @classmethod
    def save(cls, data):
        """Stores {key: tensor, list or dict of tensors}; calls for a key are numbered as micro
        steps within the step."""
        self = cls._get()
        for key, value in self._members(data):
            micro_step = self._calls.get(key, 0)
            if self._store(key, value, "micro_step%d" % micro_step):
                self._calls[key] = micro_step + 1

    @classmethod
    def save_ex(cls, data, micro_batch=None):
        """The same under a micro step of the caller's; without one for data of the whole step."""
        self = cls._get()
        for key, value in self._members(data):
            self._store(key, value, None if micro_batch is None else "micro_step%s" % micro_batch)

    @classmethod
    def step(cls):
        """The next step begins."""
        self = cls._get()
        self._step += 1
        self._calls = {}

    @classmethod
    def save_config(cls, data):
        """Stores settings beside the data, for the reader."""
        self = cls._get()
        os.makedirs(self._folder, exist_ok=True)
        self._write_json(os.path.join(self._folder, "configurations.json"), data)

    @staticmethod
    def _members(data):
        if not isinstance(data, dict):
            _warn("SingleSave takes a dict of tensors, not %s: nothing is stored"
                  % type(data).__name__)
            return []
        return list(data.items())

    def _store(self, key, value, micro_step):
        """Whether the value was one to store."""
        if not isinstance(key, str) or not key or "/" in key or key in (".", ".."):
            _warn("SingleSave: a key must be a string without a slash, not %r: skipped" % (key,))
            return False
        parts = self._parts(key, value)
        if parts is None:
            _warn("SingleSave: %s is not a tensor, list or dict of tensors but %s: skipped"
                  % (key, type(value).__name__))
            return False
        folder = os.path.join(self._folder, "data", key, "step%d" % self._step,
                              "rank%d" % self._framework.rank(), *([micro_step] if micro_step else []))
        os.makedirs(folder, exist_ok=True)
        facts = [self._write_array(os.path.join(folder, name + ".npy"), tensor)
                 for name, tensor in parts]
        if isinstance(value, dict):
            described = dict(zip(map(str, value), facts))
        else:
            described = facts if isinstance(value, (list, tuple)) else facts[0]
        self._write_json(os.path.join(folder, key + ".json"), {"data": described})
        return True

    def _parts(self, key, value):
        """[(file name without ending, tensor)], or None for what is nothing of the kind."""
        if self._framework.is_tensor(value):
            return [(key, value)]
        if isinstance(value, (list, tuple)):
            named = [("%s.%d" % (key, i), item) for i, item in enumerate(value)]
        elif isinstance(value, dict):
            named = [("%s.%s" % (key, name), item) for name, item in value.items()]
        else:
            return None
        for name, item in named:
            if not self._framework.is_tensor(item):
                raise TypeError("SingleSave: %s must be a tensor, not %s"
                                % (name, type(item).__name__))
            if "/" in name:
                raise TypeError("SingleSave: the name %r holds a slash" % name)
        return named

    def _write_array(self, path, tensor):
        import numpy
        array = self._framework.array(tensor)
        with open(path + ".tmp", "wb") as file:
            numpy.save(file, array)
        os.replace(path + ".tmp", path)
        return _statistics(array)

    @staticmethod
    def _write_json(path, data):
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(data, file, indent=4)
        os.replace(path + ".tmp", path)
