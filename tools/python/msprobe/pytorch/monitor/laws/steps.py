"""The laws of one optimizer's step, on samples of what it owns: before it, after it, and from step to step.

moved            what has a gradient that is large enough to be seen in the parameter's number format has changed, what has none has not
gradient_scale   gradients are one factor times what autograd accumulated, the same for all parameters
optimizer_state  a new moment is the decayed old one and its share of the gradient; between steps moments stay as they are
frozen           what takes no gradient stays, unless it follows another parameter (a moving average, a copied target)

Tolerances are bounds of rounding: a number of steps of the format (samples.epsilon) times the absolute sum of what was added. Nothing else
is tolerated, and nothing is judged where the sample has no gradient above that bound.
"""
import torch

from msprobe.pytorch.monitor import optimizers
from msprobe.pytorch.monitor.laws.samples import Rows, epsilon, is_plain, local, picked

_MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum")
_MASTERS = ("master", "main_param", "fp32_param", "master_param", "master_weight")


def members(optimizer):
    """The innermost optimizers, which have the parameter groups that are really updated."""
    found, stack, seen = [], [optimizer], set()
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        inner = getattr(one, "chained_optimizers", None) or ([one.optimizer] if hasattr(getattr(one, "optimizer", None), "step") else [])
        if inner:
            stack.extend(reversed(list(inner)))
        elif getattr(one, "param_groups", None):
            found.append(one)
    return found


def _number(value, otherwise=0.0):
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 else otherwise
    return float(value) if isinstance(value, (int, float)) else otherwise


class Step:
    """One innermost optimizer, from step to step."""

    def __init__(self, laws, optimizer, named):
        self._laws = laws
        self._report = laws.report
        self.optimizer = optimizer
        self._named = named            # {id: (tensor, name)} of the model's parameters
        self._key = None
        self.owned = []
        self.names = []
        self.rows = None
        self._links = []               # (parameter of the model, place of its master among the owned)
        self._moments_after = {}
        self._before = None
        self._fits = {}                # how often the rule of a custom optimizer's moments held
        self._ones = 0                 # steps so far in which gradients were what was accumulated
        self._counts = {}              # steps that the optimizer counted for each
        self._given = None             # gradients of the step before
        self._last = None              # parameters after the last step

    # ---- what there is ----

    def look(self):
        groups = [(group, tensor) for group in self.optimizer.param_groups for tensor in group["params"]]
        key = tuple(id(tensor) for _, tensor in groups)
        self.groups = [group for group, tensor in groups if is_plain(tensor)]
        if key == self._key:
            return
        self._key = key
        self.owned = [tensor for _, tensor in groups if is_plain(tensor)]
        self.rows = Rows(self.owned)
        self.names, self._links = self._name()
        self.link_of = {place: parameter for parameter, place in self._links}
        self._counts = {}
        self._moments_after = {}
        self._last = None

    def _name(self):
        names, links = [], []
        own = {id(tensor) for tensor in self.owned}
        free = [(parameter, name) for key, (parameter, name) in self._named.items() if key not in own and is_plain(parameter)]
        pointed = {id(getattr(parameter, mark)): (parameter, name) for parameter, name in free
                   for mark in _MASTERS if isinstance(getattr(parameter, mark, None), torch.Tensor)}
        for place, tensor in enumerate(self.owned):
            known = self._named.get(id(tensor))
            if known is not None:
                names.append(known[1])
                continue
            found = pointed.get(id(tensor))
            if found is None:
                found = next((pair for pair in free if local(pair[0]).shape == local(tensor).shape
                              and torch.equal(picked(tensor).to(pair[0].dtype).cpu(), picked(pair[0]).cpu())), None)
            if found is None:
                names.append("parameter %d of %s" % (place, type(self.optimizer).__name__))
                continue
            free = [pair for pair in free if pair[0] is not found[0]]
            names.append(found[1])
            links.append((found[0], place))
        return names, links

    @property
    def is_of_pytorch(self):
        """Whether the step is one of PyTorch's own, whose arithmetic is known."""
        return type(self.optimizer).__module__.startswith("torch.optim") and type(self.optimizer).step.__module__.startswith("torch.optim")

    # ---- around the step ----

    def before(self, step):
        self.look()
        if not self.owned:
            self._report.leave_out("moved", "%s has no parameters here whose elements can be read" % type(self.optimizer).__name__)
            self._before = None
            return
        gradients = [optimizers.own_gradient(tensor, True) if tensor.grad is None else tensor.grad for tensor in self.owned]
        sparse = [gradient is not None and local(gradient).layout != torch.strided for gradient in gradients]
        held, has = self.rows.gather([None if one else gradient for gradient, one in zip(gradients, sparse)])
        scale = getattr(self.optimizer, "grad_scale", None)
        if scale is not None:
            held = held / _number(scale, 1.0)
        values, _ = self.rows.gather(self.owned, "value")
        states = self._states()
        moments = {name: self.rows.gather(tensors, name) for name, tensors in states.items()}
        self.values_before, self.gradients_before = values, held
        self._before = (values, held, has, sparse, moments, [gradient is None for gradient in gradients])
        self._check_links(step)
        self._check_moments_stay(step, states, moments)
        if self._report.wants("gradient_scale"):
            self._check_scale(step, held, has)

    def _states(self):
        state = getattr(self.optimizer, "state", None) or {}
        of = [state.get(tensor) or {} if tensor in state else {} for tensor in self.owned]
        found = {}
        for name in _MOMENTS:
            tensors = [one.get(name) if isinstance(one.get(name), torch.Tensor) and is_plain(one[name])
                       and local(one[name]).numel() == local(tensor).numel() else None for one, tensor in zip(of, self.owned)]
            if any(tensor is not None for tensor in tensors):
                found[name] = tensors
        return found

    def after(self, step):
        if self._before is None:
            return
        values, held, has, sparse, moments, without = self._before
        self._before = None
        new, _ = self.rows.gather(self.owned, "value")
        states = self._states()
        new_moments = {name: self.rows.gather(tensors, name) for name, tensors in states.items()}
        self._moments_after = {name: (vector, present, [None if tensor is None else tensor.data_ptr() for tensor in states[name]])
                               for name, (vector, present) in new_moments.items()}
        self.values_after, self.gradients, self.has = new, held, has
        changed = self.rows.any(new != values)
        skipped = self._was_skipped(held, changed, moments, new_moments)
        if self._report.wants("moved"):
            if skipped:
                self._report.leave_out("moved", "the optimizer left everything as it was: a step it skipped")
            else:
                self._check_moved(step, values, new, held, has, sparse, without, changed, new_moments)
        if self._report.wants("optimizer_state") and not skipped:
            self._check_moments(step, values, held, has, moments, new_moments)
        self._last = new

    def _was_skipped(self, held, changed, moments, new_moments):
        if not bool(torch.isfinite(held).all()) or _number(getattr(self.optimizer, "found_inf", None)):
            return True
        if bool(changed.any()):
            return False
        for name, (vector, _) in new_moments.items():
            if name not in moments or bool((moments[name][0] != vector).any()):
                return False
        return not self.is_of_pytorch

    # ---- moved ----

    def _expected_change(self, held, new_moments):
        """A lower bound of what the step changes in each element, from its rate and the state after it."""
        rate = self.rows.spread([_number(group.get("lr"), 0.0) for group in self.groups])
        least = self.rows.spread([_number(group.get("eps"), 1e-8) for group in self.groups]) if self.groups else rate
        if "exp_avg" in new_moments:
            if "exp_avg_sq" in new_moments:
                return 0.05 * rate * new_moments["exp_avg"][0].abs() / (new_moments["exp_avg_sq"][0].clamp_min(0).sqrt() + least)
            return 0.05 * rate * new_moments["exp_avg"][0].abs().clamp_max(1)
        if "momentum_buffer" in new_moments:
            # With few parameters that have one, those without go by their gradient.
            buffer, present = new_moments["momentum_buffer"]
            shown = self.rows.spread([float(one) for one in present])
            return 0.1 * rate * (shown * buffer.abs() + (1 - shown) * held.abs())
        for name in ("square_avg", "sum"):
            if name in new_moments:
                return 0.05 * rate * held.abs() / (new_moments[name][0].clamp_min(0).sqrt() + least)
        return rate * held.abs() * (0.5 if self.is_of_pytorch else 1e-3)

    def _check_moved(self, step, values, new, held, has, sparse, without, changed, new_moments):
        steps = self.rows.spread([epsilon(local(tensor).dtype) for tensor in self.owned])
        expected = self._expected_change(held, new_moments)
        visible = (expected > 2 * steps * values.abs().clamp_min(1e-37)) & (held != 0)
        due = self.rows.any(visible)
        for index in (due & ~changed).nonzero().flatten().tolist():
            if has[index]:
                most = float(self.rows.part(expected, index).max())
                self._report.broken(step, "moved", self.names[index], 0.0, most,
                                    "the parameter has a gradient and a rate of %.3g, and the step left it as it was"
                                    % _number(self.groups[index].get("lr")))
        for index in changed.nonzero().flatten().tolist():
            if without[index] and self.owned[index].requires_grad and not self._is_written_elsewhere():
                part = (self.rows.part(new, index) - self.rows.part(values, index)).abs().max()
                self._report.broken(step, "moved", self.names[index], float(part), 0.0,
                                    "the parameter has no gradient in this step, and the step changed it")
        self._check_orphans(step, without, changed)
        self._report.checked("moved", int(due.sum()) + sum(without))
        quiet = len(self.owned) - int(due.sum()) - sum(without)
        if quiet:
            self._report.leave_out("moved", "rate 0, no gradient in the sample, or a change that the number format cannot hold")

    def _check_orphans(self, step, without, changed):
        """What the optimizer owns is no longer what the model uses: a layer that was made anew after the optimizer."""
        if not any(one and not moved for one, moved in zip(without, changed.tolist())):
            return
        owned = self._laws.owned()
        free = [(parameter, name) for parameter, name in self._named.values()
                if id(parameter) not in owned and parameter.requires_grad and parameter.grad is not None and is_plain(parameter)]
        for index, tensor in enumerate(self.owned):
            if not without[index] or bool(changed[index]) or id(tensor) in self._named:
                continue
            found = next((pair for pair in free if local(pair[0]).shape == local(tensor).shape and bool(picked(pair[0].grad).any())), None)
            if found is not None:
                free = [pair for pair in free if pair[0] is not found[0]]
                self._report.broken(step, "moved", found[1], 0.0, None, "the parameter has a gradient, and the optimizer owns a tensor of its size "
                                    "that the model does not use: it was made anew after the optimizer")

    def _is_written_elsewhere(self):
        """Optimizers that take gradients from elsewhere than .grad."""
        return all(tensor.grad is None for tensor in self.owned)

    def _check_links(self, step):
        """A parameter that is a copy of a master follows it; told at the next step."""
        if not self._report.wants("moved") or self._last is None:
            return
        for parameter, place in self._links:
            master = picked(self.owned[place])
            copy = picked(parameter)
            if not torch.equal(master.to(copy.dtype).cpu(), copy.cpu()):
                far = float((master.double().cpu() - copy.double().cpu()).abs().max())
                if far <= epsilon(copy.dtype) * float(master.abs().max()):
                    continue  # rounded in another way
                self._report.broken(step, "moved", self.names[place], far, 0.0,
                                    "the optimizer's copy of the parameter moved, and the model's was not made equal to it")
        self._report.checked("moved", len(self._links))

    # ---- gradient_scale ----

    def _check_scale(self, step, held, has):
        """The optimizer is given one factor times what autograd accumulated."""
        incoming, rows = self._laws.incoming, self.rows
        found, bounds, wholes, seen = {}, {}, [], {}
        for index, tensor in enumerate(self.owned):
            model = tensor if index not in self.link_of else self.link_of[index]
            slot = incoming.slots.get(id(model))
            if slot is None or slot.total is None or slot.count < 1 or not has[index]:
                continue
            if slot.changed is not None and (self._laws.alone or self._agree(incoming, slot)):
                self._report.broken(step, "gradient_scale", self.names[index], slot.changed, 1.0,
                                    "between two backward passes of a step what was accumulated was multiplied by %.4g: "
                                    "micro-batches do not count alike" % slot.changed)
            if not self._laws.alone or slot.total.numel() != rows.sizes[index]:
                continue
            given = optimizers.own_gradient(tensor, True) if tensor.grad is None else tensor.grad
            # Each addition rounds once to the format of the gradient, a change of it once more.
            seen[index] = (slot, (slot.count + 6) * max(epsilon(local(model).dtype), epsilon(given.dtype)))
        if seen:
            self._fit(held, seen, found, bounds, wholes)
        if not self._laws.alone:
            self._report.leave_out("gradient_scale", "several processes: see reduction")
            return
        if not wholes:
            self._report.leave_out("gradient_scale", "no gradient was seen where autograd accumulates it")
            return
        common = self._common(found, bounds)
        last, self._given = self._given, (held, has)
        if last is not None and len(found) * 2 < len(wholes) and self._holds_the_last(step, held, last, wholes):
            return
        if common is None or len(common[1]) * 5 < len(wholes) * 3:
            self._report.leave_out("gradient_scale", "the gradients have no factor in common: they are changed one by one")
            return
        factor, alike = common
        if len(wholes) == 1:
            self._report.leave_out("gradient_scale", "one parameter alone")
        others = [index for index in wholes if index not in alike]
        if self._are_whole_parts(others, found, factor):
            self._report.leave_out("gradient_scale", "a part of the model has a smaller factor of its own")
            others = []
        for index in others:
            value = found.get(index)
            text = ("its gradient is %.6g times what was accumulated, that of the others %.6g times" % (value, factor) if value is not None
                    else "its gradient is not a multiple of what was accumulated, that of the others is, by %.6g" % factor)
            self._report.broken(step, "gradient_scale", self.names[index], value, factor, text)
        self._report.checked("gradient_scale", len(wholes))
        self._check_factor(step, factor)
        self._laws.note_factor(step, factor)

    def _fit(self, held, seen, found, bounds, wholes):
        """The factor of each gradient over what was accumulated, as far as it is one within rounding."""
        rows = self.rows
        empty = [torch.zeros(size) for size in rows.sizes]
        sum_, _ = rows.gather([seen[index][0].total if index in seen else empty[index] for index in range(rows.count)])
        size, _ = rows.gather([seen[index][0].size if index in seen else empty[index] for index in range(rows.count)])
        unit = [seen[index][1] if index in seen else 0.0 for index in range(rows.count)]
        square, finite = rows.sums(sum_ * sum_), ~rows.any(~(torch.isfinite(held) & torch.isfinite(sum_)))
        factor = rows.sums(held * sum_) / square
        spread = rows.spread(factor)
        half = rows.spread([6e-8 if one > 6e-4 else 0.0 for one in unit])   # the smallest numbers of half precision
        allowed = rows.spread(unit) * size * spread.abs() + 2e-7 * spread.abs() + 1e-30 + half
        wrong = rows.any((held - spread * sum_).abs() > allowed)
        judged = (finite & (square > 0)).tolist()
        for index, (value, is_wrong) in enumerate(zip(factor.tolist(), wrong.tolist())):
            if index in seen and judged[index]:
                wholes.append(index)
                if not is_wrong:
                    found[index] = value
                    bounds[index] = unit[index] + 1e-6

    def _check_factor(self, step, factor):
        """Without a loss scale nothing makes all gradients larger: a clip makes them smaller, a scale would have been there from the start."""
        is_one = abs(factor - 1) <= 1e-5
        if self._ones >= 2 and factor > 1.001:
            self._report.broken(step, "gradient_scale", "", factor, 1.0,
                                "all gradients are %.6g times what was accumulated, in the steps before they were just that" % factor)
        self._ones = self._ones + 1 if is_one else self._ones if factor < 1 else 0

    def _holds_the_last(self, step, held, last, wholes):
        """Whether what is given is this step's sum by one factor and all that was given before on top: accumulators of a script's own
        without zeroing. A gradient that keeps a part of it has a momentum."""
        incoming, rows = self._laws.incoming, self.rows
        sums = [incoming.slots[id(self.link_of.get(index, self.owned[index]))].total.double().cpu() for index in wholes]
        now, sum_ = torch.cat([rows.part(held, index) for index in wholes]), torch.cat(sums)
        old = torch.cat([rows.part(last[0], index) for index in wholes])
        ss, so, oo = float((sum_ * sum_).sum()), float((sum_ * old).sum()), float((old * old).sum())
        determinant = ss * oo - so * so
        if not determinant > 1e-6 * ss * oo or not self._report.wants("zeroed"):
            return False
        sn, on = float((sum_ * now).sum()), float((old * now).sum())
        factor, kept = (sn * oo - on * so) / determinant, (on * ss - sn * so) / determinant
        error = float((now - factor * sum_ - kept * old).norm())
        if abs(kept - 1) > 1e-3 or error > 1e-3 * float(now.norm()):
            return False
        for index in wholes:
            self._report.broken(step, "zeroed", self.names[index], float(rows.part(last[0], index).norm()), 0.0,
                                "the gradient that the optimizer is given has that of the step before in it")
        return True

    @staticmethod
    def _common(found, bounds):
        """(factor, {index}) that most have."""
        best = None
        values = sorted(found.values())
        for value in {values[len(values) * part // 8] for part in range(8)} if values else ():
            alike = {index for index, other in found.items()
                     if abs(other - value) <= (bounds[index] + 1e-5) * max(abs(value), abs(other)) + 1e-30}
            if best is None or len(alike) > len(best[1]):
                best = (value, alike)
        return best

    def _agree(self, incoming, slot):
        """With other ranks at work, of a few elements any change is a multiple: several parameters have to have the same."""
        alike = [other for other in incoming.slots.values() if other.changed is not None and other.total is not None
                 and other.total.numel() >= 8 and abs(other.changed - slot.changed) <= 1e-3 * abs(slot.changed)]
        return len(alike) >= 2

    def _are_whole_parts(self, others, found, factor):
        """Gradients of whole parts of a model are made smaller by right: a backbone that learns slower."""
        values = [found.get(index) for index in others]
        if len(others) < 2 or any(value is None for value in values) or max(values) - min(values) > 1e-4 * abs(max(values)):
            return False
        if not 0 < values[0] < abs(factor):
            return False
        tops = {self.names[index].split(".")[0] for index in others}
        return all(index in others for index in range(len(self.names)) if self.names[index].split(".")[0] in tops)

    # ---- optimizer_state ----

    def _rules(self, values, held):
        """[(name, decay, share of the gradient as a vector, its size)] by group settings; None for what has no known rule."""
        def by(key, otherwise=0.0, at=None):
            picks = []
            for group in self.groups:
                value = group.get(key, otherwise)
                picks.append(_number(value[at] if at is not None and isinstance(value, (list, tuple)) and len(value) > at else value, otherwise))
            return self.rows.spread(picks)

        kind = next((base.__name__ for base in type(self.optimizer).__mro__ if base.__module__.startswith("torch.optim")), "")
        decoupled = kind == "AdamW" or not self.is_of_pytorch
        sign = 1 - 2 * by("maximize")
        loss = by("weight_decay") * (0 if decoupled else 1)
        if any("decoupled_weight_decay" in group for group in self.groups):
            loss = loss * (1 - by("decoupled_weight_decay"))
        gradient = sign * held + loss * values
        size = held.abs() + loss * values.abs()
        rules = {}
        if any("betas" in group for group in self.groups):
            first, second = by("betas", 0.9, 0), by("betas", 0.999, 1)
            rules["exp_avg"] = (first, (1 - first) * gradient, (1 - first) * size)
            rules["exp_avg_sq"] = (second, (1 - second) * gradient * gradient, (1 - second) * size * size)
        if kind == "SGD":
            keep = by("momentum")
            rules["momentum_buffer"] = (keep, (1 - by("dampening")) * gradient, (1 - by("dampening")) * size)
        if kind == "RMSprop":
            keep = by("alpha", 0.99)
            rules["square_avg"] = (keep, (1 - keep) * gradient * gradient, (1 - keep) * size * size)
        if kind == "Adadelta":
            keep = by("rho", 0.9)
            rules["square_avg"] = (keep, (1 - keep) * gradient * gradient, (1 - keep) * size * size)
        if kind == "Adagrad":
            rules["sum"] = (torch.ones_like(gradient), gradient * gradient, size * size)
        return rules, gradient, size

    def _check_counts(self, step, has):
        """A step counts as one: moments are corrected by it."""
        state = getattr(self.optimizer, "state", None) or {}
        before, self._counts = self._counts, {}
        for index, tensor in enumerate(self.owned):
            count = state[tensor].get("step") if tensor in state else None
            if isinstance(count, torch.Tensor) and (count.numel() != 1 or count.device.type != "cpu"):
                continue
            if isinstance(count, (int, float, torch.Tensor)):
                self._counts[index] = float(count)
                last = before.get(index)
                if last is not None and has[index] and self._counts[index] != last + 1 and not self._laws.was_loaded and self.is_of_pytorch:
                    self._report.broken(step, "optimizer_state", self.names[index], self._counts[index], last + 1,
                                        "the optimizer counted %g steps of the parameter before this one and %g after it" % (last, self._counts[index]))

    def _check_moments(self, step, values, held, has, moments, new_moments):
        self._check_counts(step, has)
        rules, gradient, size = self._rules(values, held)
        for name, (new, present) in new_moments.items():
            rule = rules.get(name)
            if rule is None:
                self._report.leave_out("optimizer_state", "the rule of %s is not known" % name)
                continue
            old, there = moments.get(name, (torch.zeros_like(new), [False] * self.rows.count))
            keep, share, share_size = rule
            if name == "momentum_buffer":
                # A buffer begins as the gradient itself.
                first = self.rows.spread([float(not one) for one in there])
                share = first * gradient + (1 - first) * share
                share_size = first * size + (1 - first) * share_size
            expected = keep * old + share
            steps = self.rows.spread([max(epsilon(local(tensor).dtype), 2.0 ** -23) for tensor in self.owned])
            if any(tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16) for tensor in self._states().get(name, ())):
                steps = steps.clamp_min(2.0 ** -7)
            allowed = 16 * steps * ((keep * old).abs() + share_size) + 1e-37
            far = self.rows.any((new - expected).abs() > allowed)
            judged = [index for index in range(self.rows.count) if present[index] and has[index]]
            wrong = [index for index in judged if bool(far[index])]
            self._judge_moments(step, name, judged, wrong, new, expected, old, gradient)

    def _judge_moments(self, step, name, judged, wrong, new, expected, old, gradient):
        fits = self._fits.get(name, 0)
        if not self.is_of_pytorch and judged:
            if not wrong:
                self._fits[name] = fits + 1
            elif fits < 2 and len(wrong) * 2 >= len(judged):
                # Another rule than this one: all that is certain is that it does not ignore gradients.
                wrong = [index for index in wrong if bool((self.rows.part(new, index) == self.rows.part(old, index)).all())
                         and bool(self.rows.part(gradient, index).any())]
                if len(wrong) * 2 >= len(judged):
                    wrong = []
                self._report.leave_out("optimizer_state", "%s makes %s by a rule of its own" % (type(self.optimizer).__name__, name))
        for index in wrong:
            part, due = self.rows.part(new, index), self.rows.part(expected, index)
            place = int((part - due).abs().argmax())
            why = "stayed as it was" if bool((part == self.rows.part(old, index)).all()) else "does not follow the gradient"
            self._report.broken(step, "optimizer_state", self.names[index], float(part[place]), float(due[place]),
                                "%s %s: it is not its decayed self and its share of the gradient" % (name, why))
        self._report.checked("optimizer_state", len(judged))

    def _check_moments_stay(self, step, states, moments):
        """Nobody writes moments between two steps; a state that was loaded or made anew has other tensors."""
        if not self._report.wants("optimizer_state") or self._laws.was_loaded:
            return
        for name, (last, present, addresses) in self._moments_after.items():
            if name not in moments:
                continue
            now, there = moments[name]
            same = [index for index in range(self.rows.count) if present[index] and there[index]
                    and states[name][index].data_ptr() == addresses[index]]
            differs = self.rows.any((now != last) & ~((now != now) & (last != last)))
            wrong = [index for index in same if bool(differs[index])]
            if wrong and len(wrong) == len(same) and len(same) > 1:
                self._report.leave_out("optimizer_state", "%s was set anew for all parameters between two steps" % name)
                continue
            for index in wrong:
                self._report.broken(step, "optimizer_state", self.names[index], float(self.rows.part(now, index).abs().max()),
                                    float(self.rows.part(last, index).abs().max()), "%s was changed between two steps" % name)
