"""The laws of a model's parameters that need no optimizer: what is frozen stays, what is tied stays tied.

A frozen parameter may follow another one: what changes it between two steps is silent where it is a mean of the old value and of another
parameter of the same size (a moving average, a target that is copied). Inside of an optimizer's step nothing may change it.
"""
import weakref

import torch

from msprobe.pytorch.monitor.laws.samples import Rows, digest, epsilon, is_plain, local, picked


class Frozen:
    def __init__(self, laws, named):
        self._laws = laws
        self._report = laws.report
        self._named = named
        self._key = None
        self._tensors = []
        self._before = self._after = None
        self._renormed = set()

    def watch(self, model):
        for module in model.modules():
            if getattr(module, "max_norm", None) is not None:   # an embedding that limits its rows when it is called
                self._renormed.update(id(parameter) for parameter in module._parameters.values())

    def _look(self):
        frozen = [(tensor, name) for tensor, name in self._named.values()
                  if not tensor.requires_grad and is_plain(tensor) and id(tensor) not in self._renormed]
        key = tuple(id(tensor) for tensor, _ in frozen)
        if key != self._key:
            self._key = key
            self._tensors = [tensor for tensor, _ in frozen]
            self._names = [name for _, name in frozen]
            self._rows = Rows(self._tensors)
            self._after = None

    def before(self, step):
        self._look()
        if not self._tensors:
            return
        self._before, _ = self._rows.gather(self._tensors, "value")
        last, self._after = self._after, None
        if last is None or self._laws.was_loaded:
            return
        changed = self._rows.any(self._before != last)
        for index in changed.nonzero().flatten().tolist():
            now, old = self._rows.part(self._before, index), self._rows.part(last, index)
            far = (now - old).abs()
            if float(far.max()) <= 4 * epsilon(local(self._tensors[index]).dtype) * float(old.abs().max()):
                self._report.leave_out("frozen", "changed by its last digits: merged and separated again")
            elif self._follows(index, now, old):
                self._report.leave_out("frozen", "it follows another parameter: a moving average or a copy")
            else:
                self._report.broken(step, "frozen", self._names[index], float(now.double().norm()), float(old.double().norm()),
                                    "the parameter takes no gradient and was changed since the last step")

    def _follows(self, index, now, old):
        size = local(self._tensors[index]).numel()
        unit = epsilon(local(self._tensors[index]).dtype)
        for tensor, _ in self._named.values():
            if tensor is self._tensors[index] or not is_plain(tensor) or local(tensor).numel() != size:
                continue
            for other in [picked(tensor).double().cpu()] + self._laws.earlier(tensor):
                way, went = other - old, now - old
                square = float((way * way).sum())
                share = float((way * went).sum()) / square if square > 0 else 0.0
                if share > 0 and bool(((went - share * way).abs() <= 16 * unit * (old.abs() + other.abs()) + 1e-30).all()):
                    return True
        return False

    def after(self, step):
        if not self._tensors or self._before is None:
            return
        self._after, _ = self._rows.gather(self._tensors, "value")
        for index in self._rows.any(self._after != self._before).nonzero().flatten().tolist():
            part = (self._rows.part(self._after, index) - self._rows.part(self._before, index)).abs()
            self._report.broken(step, "frozen", self._names[index], float(part.max()), 0.0,
                                "the parameter takes no gradient, and the optimizer's step changed it")
        self._report.checked("frozen", len(self._tensors))


class Tied:
    def __init__(self, laws):
        self._laws = laws
        self._report = laws.report
        self._sets = []        # [(reference of a module, name in it, path), ...] of one parameter
        self._differed = {}
        self._key = None
        self._digests = ()
        self._pairs = None     # (index, index): how often equal after both moved, whether their gradients differed
        self._differed = {}
        self._key = None
        self._digests = ()

    def watch(self, model, plain):
        owners = {}
        for path, module in model.named_modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    owners.setdefault(id(parameter), []).append(
                        (weakref.ref(module), name, plain(path + "." + name if path else name)))
        self._sets += [owned for owned in owners.values() if len(owned) > 1]
        self._sets += self._declared(model, owners)

    @staticmethod
    def _declared(model, owners):
        """What a configuration of transformers says: the output layer uses the input's embedding."""
        found = []
        for module in model.modules():
            config = vars(module).get("config")
            if getattr(config, "tie_word_embeddings", False) is not True:
                continue
            try:
                ends = [module.get_input_embeddings(), module.get_output_embeddings()]
            except Exception:  # models without one of them
                continue
            weights = [getattr(end, "weight", None) for end in ends]
            if all(isinstance(weight, torch.Tensor) for weight in weights) and weights[0] is not weights[1]:
                found.append([owners[id(weight)][0] for weight in weights if id(weight) in owners])
        return [pair for pair in found if len(pair) > 1]

    def check(self, step):
        for owned in self._sets:
            tensors = [(module()._parameters.get(name), path) for module, name, path in owned if module() is not None]
            tensors = [(tensor, path) for tensor, path in tensors if tensor is not None and is_plain(tensor)]
            for tensor, path in tensors[1:]:
                first = tensors[0][0]
                if tensor is first:
                    continue
                one, other = picked(first).double().cpu(), picked(tensor).double().cpu()
                if one.shape != other.shape or not torch.equal(one, other):
                    far = float((one - other).abs().max()) if one.shape == other.shape else float("nan")
                    self._report.broken(step, "tied", path, far, 0.0, "%s and %s are to be one parameter and are not equal any more"
                                        % (tensors[0][1], path))
        self._report.checked("tied", len(self._sets))

    def learn(self, step, part):
        """Copies that a script makes equal itself: equal at two steps after each moved, though their gradients differ."""
        rows, names, values, gradients = part.rows, part.names, part.values_before, part.gradients_before
        digests = [digest(rows.part(values, index)) for index in range(rows.count)]
        if self._pairs is None or self._key != part._key:
            self._key = part._key
            by, self._pairs = {}, {}
            for index, one in enumerate(digests):
                piece = rows.part(values, index)
                if piece.numel() > 1 and bool((piece != piece[0]).any()):
                    by.setdefault((one, part.owned[index].shape), []).append(index)
            for alike in by.values():
                if len(alike) <= 8:
                    self._pairs.update({(one, other): [0, False] for place, one in enumerate(alike) for other in alike[place + 1:]})
            self._digests = digests
            return
        for (one, other), state in list(self._pairs.items()):
            moved = digests[one] != self._digests[one]
            differ = not torch.equal(rows.part(gradients, one), rows.part(gradients, other))
            if digests[one] == digests[other]:
                if moved:
                    state[0] += 1
                    state[1] = state[1] or self._differed.get((one, other), False)
            elif state[0] >= 2 and state[1]:
                far = float((rows.part(values, one) - rows.part(values, other)).abs().max())
                self._report.broken(step, "tied", names[other], far, 0.0,
                                    "%s and %s were equal in the steps before, whatever their gradients, and are not any more"
                                    % (names[one], names[other]))
            else:
                del self._pairs[one, other]
                continue
            self._differed[one, other] = differ
        self._report.checked("tied", sum(1 for state in self._pairs.values() if state[0] >= 2))
        self._digests = digests
