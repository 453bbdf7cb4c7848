"""Trainings of some steps, each with the law that is broken in it on purpose, or none: then it is one that looks as if."""
import torch
from torch import nn
from torch.nn import functional as F

PLANTED = []   # (name, law, part of the parameter's name or "", first step in which it can be seen, function)
BENIGN = []    # (name, function)


def planted(law, name="", step=0):
    def add(function):
        PLANTED.append((function.__name__, law, name, step, function))
        return function
    return add


def benign(function):
    BENIGN.append((function.__name__, function))
    return function


class Net(nn.Module):
    def __init__(self, width=12, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.one = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.two = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(width, 20)

    def forward(self, words):
        hidden = self.embed(words)
        hidden = hidden + self.two(self.drop(torch.tanh(self.one(self.norm(hidden)))))
        return self.head(hidden)


def words(count=4):
    return torch.randint(0, 20, (count, 6))


def loss_of(model, batch=None):
    batch = words() if batch is None else batch
    return F.cross_entropy(model(batch).flatten(0, -2), batch.roll(1, -1).flatten())


class Training:
    """A plain one: what a case changes is an argument or a method."""

    def __init__(self, watch, optimizer=None, model=None, steps=6, before=None, after=None, accumulate=1, zero=None, clip=None):
        self.model = model or Net()
        self.optimizer = (optimizer or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-2)))(self.model.parameters())
        watch(self.model, self.optimizer)
        for step in range(steps):
            if zero is None:
                self.optimizer.zero_grad()
            else:
                zero(self, step)
            for _ in range(accumulate):
                (loss_of(self.model) / accumulate).backward()
            if clip:
                nn.utils.clip_grad_norm_(self.model.parameters(), clip)
            if before:
                before(self, step)
            self.optimizer.step()
            if after:
                after(self, step)


# ---- zeroed ----

@planted("zeroed", "one.weight", 2)
def a_parameter_is_not_zeroed(watch):
    def zero(training, step):
        for name, parameter in training.model.named_parameters():
            if step != 2 or name != "one.weight":
                parameter.grad = None
    Training(watch, zero=zero)


@planted("zeroed", "", 1)
def zero_grad_is_forgotten(watch):
    Training(watch, zero=lambda training, step: None)


@planted("zeroed", "head", 1)
def zero_grad_of_a_part_of_the_model(watch):
    def zero(training, step):
        for part in (training.model.embed, training.model.one, training.model.norm, training.model.two):
            part.zero_grad()
    Training(watch, zero=zero)


@planted("zeroed", "", 3)
def zero_grad_is_skipped_once(watch):
    Training(watch, zero=lambda training, step: training.optimizer.zero_grad() if step != 3 else None)


@planted("zeroed", "", 1)
def accumulators_of_the_scripts_own_are_never_zeroed(watch):
    model = Net().to(torch.bfloat16)
    masters = [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
    sums = [torch.zeros_like(master) for master in masters]
    optimizer = torch.optim.AdamW(masters, lr=1e-2)
    watch(model, optimizer)
    for _ in range(4):
        loss_of(model).backward()
        for parameter, master, sum_ in zip(model.parameters(), masters, sums):
            sum_ += parameter.grad.float() / 65536
            master.grad = sum_.clone()
            parameter.grad = None
        optimizer.step()
        for parameter, master in zip(model.parameters(), masters):
            parameter.data.copy_(master.data)


# ---- moved ----

class Leaving(torch.optim.AdamW):
    """Forgets some parameters from a step on."""
    left, at, count = (), 1, 0

    def step(self, closure=None):
        kept = [(parameter, parameter.detach().clone()) for group in self.param_groups for parameter in group["params"]]
        super().step(closure)
        self.count += 1
        for index, (parameter, old) in enumerate(kept):
            if index in self.left and self.count > self.at:
                parameter.data.copy_(old)


@planted("moved", "embed.weight", 1)
def a_parameter_is_left_out_of_the_update(watch):
    def make(parameters):
        optimizer = Leaving(parameters, lr=1e-2)
        optimizer.left = (0,)
        return optimizer
    Training(watch, make)


@planted("moved", "head.bias", 3)
def the_update_of_a_bias_is_lost_later(watch):
    def make(parameters):
        optimizer = Leaving(parameters, lr=1e-2)
        optimizer.left, optimizer.at = (8,), 3
        return optimizer
    Training(watch, make)


class Decaying(torch.optim.Optimizer):
    """Decays what has no gradient, too."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.mul_(1 - group["lr"] * 0.1)
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-group["lr"])


@planted("moved", "two.weight", 2)
def a_parameter_without_a_gradient_decays(watch):
    def before(training, step):
        if step >= 2:
            training.model.two.weight.grad = None
    Training(watch, lambda parameters: Decaying(parameters, 0.1), before=before)


@planted("moved", "one.weight", 2)
def a_master_is_not_copied_back(watch):
    model = Net().to(torch.bfloat16)
    masters = [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=1.0)
    watch(model, optimizer)
    names = [name for name, _ in model.named_parameters()]
    for step in range(5):
        loss_of(model).backward()
        for parameter, master in zip(model.parameters(), masters):
            master.grad = parameter.grad.float()
            parameter.grad = None
        optimizer.step()
        for name, parameter, master in zip(names, model.parameters(), masters):
            if step == 0 or name != "one.weight":
                parameter.data.copy_(master.data)


@planted("moved", "norm.weight", 2)
def sgd_that_forgets_the_norm(watch):
    class Forgetting(torch.optim.SGD):
        count = 0

        def step(self, closure=None):
            self.count += 1
            chosen = self.param_groups[0]["params"][3]
            gradient, old = chosen.grad, chosen.detach().clone()
            result = super().step(closure)
            if self.count > 2:
                chosen.data.copy_(old)
                chosen.grad = gradient
            return result
    Training(watch, lambda parameters: Forgetting(parameters, lr=0.1))


@planted("moved", "head.weight", 0)
def a_layer_is_made_anew_after_the_optimizer(watch):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.head = nn.Linear(12, 20)
    watch(model, optimizer)
    for _ in range(3):
        model.zero_grad()
        loss_of(model).backward()
        optimizer.step()


# ---- gradient_scale ----

@planted("gradient_scale", "", 3)
def all_gradients_are_doubled_from_a_step_on(watch):
    def before(training, step):
        if step >= 3:
            for parameter in training.model.parameters():
                parameter.grad.mul_(2)
    Training(watch, before=before)


@planted("gradient_scale", "two.weight", 0)
def one_gradient_is_divided_twice(watch):
    def before(training, step):
        for parameter in training.model.parameters():
            parameter.grad.div_(8)
        training.model.two.weight.grad.div_(8)
    Training(watch, before=before)


@planted("gradient_scale", "head.weight", 2)
def one_gradient_is_doubled_from_the_third_step_on(watch):
    def before(training, step):
        if step >= 2:
            training.model.head.weight.grad.mul_(2)
    Training(watch, before=before)


@planted("gradient_scale", "", 0)
def micro_batches_divide_the_running_sum(watch):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(3):
            loss_of(model).backward()
            for parameter in model.parameters():
                parameter.grad.div_(2)
        optimizer.step()


@planted("gradient_scale", "one.bias", 1)
def a_gradient_is_not_unscaled(watch):
    def before(training, step):
        for name, parameter in training.model.named_parameters():
            if step == 0 or name != "one.bias":
                parameter.grad.div_(16)
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=0.01), before=before)


@planted("gradient_scale", "embed.weight", 1)
def part_of_a_gradient_is_overwritten(watch):
    def before(training, step):
        if step == 1:
            training.model.embed.weight.grad[:10] = 0.5
    Training(watch, before=before)


# ---- clip_norm ----

@planted("clip_norm", "", 0)
def parameters_are_in_the_list_of_a_clip_twice(watch):
    def before(training, step):
        both = list(training.model.parameters()) + list(training.model.head.parameters())
        nn.utils.clip_grad_norm_(both, 0.1)
    Training(watch, before=before)


@planted("clip_norm", "", 0)
def the_clip_comes_before_the_scale_is_taken_out(watch):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        (loss_of(model) * 1024).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for parameter in model.parameters():
            parameter.grad.div_(1024)
        optimizer.step()


# ---- optimizer_state ----

@planted("optimizer_state", "one.weight", 2)
def a_moment_is_halved_between_steps(watch):
    def after(training, step):
        if step == 1:
            training.optimizer.state[training.model.one.weight]["exp_avg"].mul_(0.5)
    Training(watch, after=after)


@planted("optimizer_state", "head.weight", 3)
def a_second_moment_is_zeroed(watch):
    def after(training, step):
        if step == 2:
            training.optimizer.state[training.model.head.weight]["exp_avg_sq"].zero_()
    Training(watch, after=after)


class StaleMoments(torch.optim.Optimizer):
    """Adam by hand; from a step on it gives one parameter's moments the gradient of another step."""

    def __init__(self, parameters, lr, what="stale"):
        super().__init__(parameters, dict(lr=lr, betas=(0.9, 0.99), eps=1e-8))
        self.count, self.what = 0, what

    @torch.no_grad()
    def step(self, closure=None):
        self.count += 1
        for group in self.param_groups:
            for index, parameter in enumerate(group["params"]):
                state = self.state[parameter]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                    state["old"] = torch.zeros_like(parameter)
                gradient = parameter.grad
                bad = self.count > 2 and index == 1
                used = state["old"] if bad and self.what == "stale" else gradient
                if not (bad and self.what == "kept"):
                    state["exp_avg"].mul_(0.9).add_(used, alpha=0.1)
                state["exp_avg_sq"].mul_(0.99).addcmul_(used, used, value=0.01)
                state["old"] = gradient.clone()
                parameter.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + 1e-8, value=-group["lr"])


@planted("optimizer_state", "one.weight", 2)
def moments_take_the_gradient_of_the_step_before(watch):
    Training(watch, lambda parameters: StaleMoments(parameters, 1e-2))


@planted("optimizer_state", "one.weight", 2)
def a_first_moment_no_longer_changes(watch):
    Training(watch, lambda parameters: StaleMoments(parameters, 1e-2, "kept"))


@planted("optimizer_state", "two.bias", 3)
def a_momentum_buffer_is_swapped(watch):
    def after(training, step):
        if step == 2:
            training.optimizer.state[training.model.two.bias]["momentum_buffer"].copy_(
                training.optimizer.state[training.model.one.bias]["momentum_buffer"])
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), after=after)


@planted("optimizer_state", "head.bias", 3)
def the_count_of_steps_is_set_back(watch):
    def after(training, step):
        if step == 2:
            state = training.optimizer.state[training.model.head.bias]
            state["step"] = torch.zeros(()) if isinstance(state["step"], torch.Tensor) else 0
    Training(watch, after=after)


@planted("optimizer_state", "embed.weight", 1)
def moments_of_an_optimizer_that_clips_inside(watch):
    class Wrong(torch.optim.AdamW):
        def step(self, closure=None):
            result = super().step(closure)
            first = self.param_groups[0]["params"][0]
            if self.state[first]["step"] == 2:
                self.state[first]["exp_avg"].add_(0.1)
            return result
    Training(watch, lambda parameters: Wrong(parameters, lr=1e-2))


# ---- frozen ----

@planted("frozen", "embed.weight", 2)
def a_frozen_embedding_decays(watch):
    model = Net()
    model.embed.weight.requires_grad_(False)

    def after(training, step):
        if step == 1:
            training.model.embed.weight.data.mul_(0.99)
    Training(watch, model=model, after=after)


@planted("frozen", "one.weight", 3)
def frozen_late_and_moved_by_a_stale_gradient(watch):
    def before(training, step):
        if step == 3:
            training.model.one.weight.requires_grad_(False)
            training.model.one.weight.grad = torch.ones_like(training.model.one.weight)
    Training(watch, before=before)


@planted("frozen", "two.weight", 2)
def a_frozen_layer_gets_noise(watch):
    model = Net()
    model.two.requires_grad_(False)

    def after(training, step):
        if step >= 1:
            training.model.two.weight.data.add_(torch.randn(12, 12) * 1e-3)
    Training(watch, model=model, after=after)


# ---- tied ----

class TiedNet(Net):
    def __init__(self):
        super().__init__()
        self.head.weight = self.embed.weight


@planted("tied", "head.weight", 3)
def an_output_layer_is_replaced(watch):
    def after(training, step):
        if step == 2:
            training.model.head.weight = nn.Parameter(training.model.embed.weight.detach().clone() + 0.1)
    Training(watch, model=TiedNet(), after=after)


@planted("tied", "head.weight", 4)
def a_copy_by_hand_is_forgotten(watch):
    model = Net()
    model.head.weight.data.copy_(model.embed.weight.data)

    def after(training, step):
        if step != 3:
            training.model.head.weight.data.copy_(training.model.embed.weight.data)
    Training(watch, model=model, after=after, steps=6)


@planted("tied", "head.weight", 2)
def a_tied_weight_becomes_a_copy_that_learns_alone(watch):
    def after(training, step):
        if step == 1:
            training.model.head.weight = nn.Parameter(training.model.embed.weight.detach().clone())
            training.optimizer.add_param_group({"params": [training.model.head.weight]})
        if step == 2:
            assert True
    Training(watch, model=TiedNet(), after=after)


# ---- trainings in which nothing is wrong ----

@benign
def a_plain_training(watch):
    Training(watch)


@benign
def dropout(watch):
    Training(watch, model=Net(dropout=0.5))


@benign
def sgd_without_momentum(watch):
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=0.1))


@benign
def sgd_with_everything(watch):
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))


@benign
def sgd_with_dampening_that_maximizes(watch):
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, dampening=0.3, maximize=True))


@benign
def further_optimizers_of_pytorch(watch):
    for kind, settings in ((torch.optim.Adam, dict(weight_decay=0.1)), (torch.optim.NAdam, {}), (torch.optim.RAdam, {}),
                           (torch.optim.Adamax, {}), (torch.optim.RMSprop, dict(momentum=0.9, centered=True)), (torch.optim.Adagrad, {}),
                           (torch.optim.Adadelta, {}), (torch.optim.ASGD, {}), (torch.optim.Rprop, {}),
                           (torch.optim.Adam, dict(amsgrad=True, maximize=True))):
        Training(watch, lambda parameters, kind=kind, settings=settings: kind(parameters, lr=1e-2, **settings), steps=4)


@benign
def micro_batches(watch):
    Training(watch, accumulate=3)


@benign
def gradients_are_filled_with_zeros(watch):
    def zero(training, step):
        for parameter in training.model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
    Training(watch, zero=zero, accumulate=2)


@benign
def a_clip_in_every_step(watch):
    Training(watch, clip=0.1)


@benign
def each_layer_is_clipped_alone(watch):
    def before(training, step):
        for parameter in training.model.parameters():
            nn.utils.clip_grad_norm_([parameter], 0.05)
    Training(watch, before=before)


@benign
def a_clip_by_value(watch):
    Training(watch, before=lambda training, step: nn.utils.clip_grad_value_(training.model.parameters(), 1e-3))


@benign
def warm_up_from_rate_zero(watch):
    def after(training, step):
        training.optimizer.param_groups[0]["lr"] = 1e-3 * step

    def make(parameters):
        return torch.optim.AdamW(parameters, lr=0.0)
    Training(watch, make, after=after)


@benign
def a_scheduler_with_warm_up(watch):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 3, 1.0))
    watch(model, optimizer)
    for _ in range(6):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        scheduler.step()


@benign
def pure_half_precision_that_hardly_moves(watch):
    Training(watch, lambda parameters: torch.optim.AdamW(parameters, lr=1e-5), model=Net().to(torch.bfloat16))


@benign
def pure_half_precision_with_sgd(watch):
    Training(watch, lambda parameters: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9), model=Net().to(torch.bfloat16), accumulate=4)


@benign
def loss_scaling_by_hand(watch):
    def zero(training, step):
        training.optimizer.zero_grad()

    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for _ in range(5):
        zero(type("", (), {"optimizer": optimizer}), 0)
        (loss_of(model) * 65536).backward()
        for parameter in model.parameters():
            parameter.grad.div_(65536)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


@benign
def loss_scaling_that_skips_a_step(watch):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for step in range(6):
        optimizer.zero_grad()
        scale = 1024.0
        (loss_of(model) * (float("inf") if step == 2 else scale)).backward()
        for parameter in model.parameters():
            parameter.grad.div_(scale)
        if all(bool(torch.isfinite(parameter.grad).all()) for parameter in model.parameters()):
            optimizer.step()


@benign
def masters_of_half_precision_by_hand(watch):
    model = Net().to(torch.bfloat16)
    masters = [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-2)
    watch(model, optimizer)
    for _ in range(5):
        model.zero_grad()
        (loss_of(model) * 128).backward()
        for parameter, master in zip(model.parameters(), masters):
            master.grad = parameter.grad.float() / 128
        nn.utils.clip_grad_norm_(masters, 0.3)
        optimizer.step()
        for parameter, master in zip(model.parameters(), masters):
            parameter.data.copy_(master.data)


@benign
def a_moving_average_beside_the_model(watch):
    import copy

    average = copy.deepcopy(Net())

    def after(training, step):
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), training.model.parameters()):
                mean.mul_(0.9).add_(parameter, alpha=0.1)
    Training(watch, after=after)


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = Net(), Net()
        self.teacher.requires_grad_(False)

    def forward(self, batch):
        return self.student(batch) + 0 * self.teacher(batch)


@benign
def a_moving_average_inside_of_the_model(watch):
    def after(training, step):
        with torch.no_grad():
            for mean, parameter in zip(training.model.teacher.parameters(), training.model.student.parameters()):
                mean.mul_(0.99).add_(parameter, alpha=0.01)
    Training(watch, model=Teacher(), after=after)


@benign
def a_target_that_is_copied_every_third_step(watch):
    def after(training, step):
        if step % 3 == 2:
            training.model.teacher.load_state_dict(training.model.student.state_dict())
    Training(watch, model=Teacher(), after=after, steps=8)


@benign
def weights_are_swapped_for_an_evaluation(watch):
    def after(training, step):
        kept = [parameter.detach().clone() for parameter in training.model.parameters()]
        with torch.no_grad():
            for parameter in training.model.parameters():
                parameter.zero_()
            training.model(words())
            for parameter, old in zip(training.model.parameters(), kept):
                parameter.copy_(old)
    Training(watch, after=after)


@benign
def frozen_parts_and_unused_ones(watch):
    model = Net()
    model.unused = nn.Linear(3, 3)
    model.embed.requires_grad_(False)
    Training(watch, model=model)


@benign
def layers_thaw_one_after_the_other(watch):
    model = Net()
    model.embed.requires_grad_(False)
    model.one.requires_grad_(False)

    def after(training, step):
        if step == 1:
            training.model.one.requires_grad_(True)
        if step == 3:
            training.model.embed.requires_grad_(True)
    Training(watch, model=model, after=after, steps=7)


@benign
def a_layer_is_frozen_during_the_training(watch):
    def after(training, step):
        if step == 2:
            training.model.embed.requires_grad_(False)
            training.model.embed.weight.grad = None
    Training(watch, after=after)


@benign
def experts_that_get_no_token(watch):
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 4)
            self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

        def forward(self, rows):
            best = self.router(rows).softmax(-1).max(-1)
            out = torch.zeros_like(rows)
            for number, expert in enumerate(self.experts):
                chosen = best.indices == number
                if chosen.any():
                    out[chosen] = expert(rows[chosen]) * best.values[chosen, None]
            return out

    model = Experts()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for step in range(6):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        model(torch.randn(3, 8)).square().mean().backward()
        optimizer.step()


@benign
def sparse_gradients(watch):
    model = nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 50))
    optimizers = [torch.optim.SparseAdam(list(model[0].parameters()), lr=1e-2), torch.optim.AdamW(model[1].parameters(), lr=1e-2)]
    watch(model, optimizers)
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(model).backward()
        for optimizer in optimizers:
            optimizer.step()


@benign
def two_players(watch):
    generator, judge_ = nn.Linear(4, 8), nn.Linear(8, 1)
    model = nn.ModuleDict({"generator": generator, "judge": judge_})
    first, second = torch.optim.Adam(generator.parameters(), lr=1e-2), torch.optim.Adam(judge_.parameters(), lr=1e-2)
    watch(model, [first, second])
    for _ in range(6):
        made = generator(torch.randn(5, 4))
        second.zero_grad()
        (judge_(made.detach()).mean() - judge_(torch.randn(5, 8)).mean()).backward()
        second.step()
        first.zero_grad()
        (-judge_(made).mean()).backward()
        first.step()


@benign
def weights_are_clamped_after_each_step(watch):
    def after(training, step):
        for parameter in training.model.parameters():
            parameter.data.clamp_(-0.1, 0.1)
    Training(watch, after=after)


@benign
def tied_weights(watch):
    Training(watch, model=TiedNet())


@benign
def copies_that_part_by_right(watch):
    model = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
    for expert in model[1:]:
        expert.load_state_dict(model[0].state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for step in range(6):
        optimizer.zero_grad()
        sum((expert(torch.randn(3, 6)) if step > 1 else expert(torch.ones(3, 6))).square().mean() for expert in model).backward()
        optimizer.step()


@benign
def a_gradient_penalty(watch):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        loss = loss_of(model)
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        (loss + 0.1 * sum(gradient.square().sum() for gradient in gradients)).backward()
        optimizer.step()


@benign
def sharpness_aware_steps(watch):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    watch(model, optimizer)
    for _ in range(5):
        batch = words()
        loss_of(model, batch).backward()
        moves = []
        with torch.no_grad():
            for parameter in model.parameters():
                moves.append(parameter.grad * 0.05)
                parameter.add_(moves[-1])
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves):
                parameter.sub_(move)
        optimizer.step()
        optimizer.zero_grad()


@benign
def a_closure_that_is_run_many_times(watch):
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    watch(model, optimizer)
    batch = words()

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        return loss
    for _ in range(4):
        optimizer.step(closure)


@benign
def noise_is_added_to_gradients(watch):
    def before(training, step):
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        for parameter in training.model.parameters():
            parameter.grad.add_(torch.randn_like(parameter), alpha=1e-3)
    Training(watch, before=before)


@benign
def a_backbone_that_learns_slower_by_its_gradients(watch):
    def before(training, step):
        for parameter in list(training.model.one.parameters()) + list(training.model.two.parameters()):
            parameter.grad.mul_(0.1)
    Training(watch, before=before)


@benign
def two_rates_and_no_decay_for_biases(watch):
    def make(parameters):
        parameters = list(parameters)
        return torch.optim.AdamW([{"params": parameters[:4], "lr": 0.0}, {"params": parameters[4:], "weight_decay": 0.0}], lr=1e-2)
    Training(watch, make)


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3):
        super().__init__(parameters, dict(lr=lr, betas=(0.9, 0.99)))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                moment = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                parameter.add_((0.9 * moment + 0.1 * parameter.grad).sign(), alpha=-group["lr"])
                moment.mul_(0.99).add_(parameter.grad, alpha=0.01)


@benign
def an_optimizer_with_a_rule_of_its_own(watch):
    Training(watch, Lion)


@benign
def moments_that_are_set_anew(watch):
    def after(training, step):
        if step == 2:
            for state in training.optimizer.state.values():
                state["exp_avg"].zero_()
                state["exp_avg_sq"].zero_()
    Training(watch, after=after)


@benign
def an_optimizer_that_steps_every_second_time(watch):
    class Patient(torch.optim.SGD):
        calls = 0

        def step(self, closure=None):
            self.calls += 1
            if self.calls % 2 == 0:
                super().step(closure)
    Training(watch, lambda parameters: Patient(parameters, lr=0.1))


@benign
def adapters_that_are_merged_for_an_evaluation(watch):
    model = Net()
    model.requires_grad_(False)
    model.down, model.up = nn.Linear(12, 2, bias=False), nn.Linear(2, 12, bias=False)
    plain = model.forward
    model.forward = lambda batch: plain(batch) + model.head(model.up(model.down(model.embed(batch))))

    def after(training, step):
        with torch.no_grad():
            delta = model.up.weight @ model.down.weight
            model.one.weight.add_(delta)
            model.one.weight.sub_(delta)
    Training(watch, lambda parameters: torch.optim.AdamW([one for one in parameters if one.requires_grad], lr=1e-2), model=model, after=after)


@benign
def embeddings_with_a_largest_norm(watch):
    model = Net()
    model.embed = nn.Embedding(20, 12, max_norm=0.5)
    model.embed.weight.requires_grad_(False)
    Training(watch, model=model)


@benign
def checkpointed_activations(watch):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Net):
        def forward(self, batch):
            hidden = self.embed(batch)
            hidden = hidden + checkpoint(lambda rows: self.two(torch.tanh(self.one(self.norm(rows)))), hidden, use_reentrant=False)
            return self.head(hidden)
    Training(watch, model=Checkpointed(0 + 12), accumulate=2)


# ---- resume ----

def _save(training, path):
    torch.save({"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}, path)


def _resumed(watch, load, make=None):
    import os

    path = os.path.join(os.environ["LAWS_FOLDER"], "checkpoint.pt")
    make = make or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-2))
    Training(watch, make, steps=3, after=lambda training, step: _save(training, path) if step == 2 else None)
    model = Net()
    optimizer = make(model.parameters())
    load(torch.load(path), model, optimizer)
    watch(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


@planted("resume", "embed.weight", 0)
def a_resume_without_moments(watch):
    _resumed(watch, lambda held, model, optimizer: model.load_state_dict(held["model"]))


@planted("resume", "one.weight", 0)
def a_resume_with_one_layer_of_its_own(watch):
    def load(held, model, optimizer):
        held["model"]["one.weight"] = torch.randn(12, 12)
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
    _resumed(watch, load)


@planted("resume", "embed.weight", 0)
def a_resume_whose_moments_were_rounded(watch):
    def load(held, model, optimizer):
        model.load_state_dict(held["model"])
        for state in held["optimizer"]["state"].values():
            state["exp_avg"] = state["exp_avg"].to(torch.bfloat16).float()
        optimizer.load_state_dict(held["optimizer"])
    _resumed(watch, load)


@planted("resume", "", 0)
def a_resume_that_loads_nothing_for_a_prefix(watch):
    def load(held, model, optimizer):
        model.load_state_dict({"module." + name: tensor for name, tensor in held["model"].items()}, strict=False)
        optimizer.load_state_dict(held["optimizer"])
    _resumed(watch, load)


@planted("resume", "", 0)
def a_resume_that_counts_steps_anew(watch):
    def load(held, model, optimizer):
        model.load_state_dict(held["model"])
        for state in held["optimizer"]["state"].values():
            state["step"] = torch.zeros(()) if isinstance(state["step"], torch.Tensor) else 0
        optimizer.load_state_dict(held["optimizer"])
    _resumed(watch, load)


@benign
def a_resume_with_everything(watch):
    def load(held, model, optimizer):
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
    _resumed(watch, load)


@benign
def weights_alone_are_taken_into_another_training(watch):
    def load(held, model, optimizer):
        model.load_state_dict({name: tensor for name, tensor in held["model"].items() if not name.startswith("head")}, strict=False)
    _resumed(watch, load)


@benign
def a_checkpoint_of_a_teacher_is_read(watch):
    def load(held, model, optimizer):
        Net().load_state_dict(held["model"])
    _resumed(watch, load)


# ---- replay ----

def replayed(function):
    function.settings = {"replay_steps": 2}
    return function


@planted("replay", "", 0)
@replayed
def random_numbers_of_a_generator_of_its_own(watch):
    generator = torch.Generator()

    class Noisy(Net):
        def forward(self, batch):
            return super().forward(batch) + torch.randn(20, generator=generator)
    Training(watch, model=Noisy())


@planted("replay", "", 2)
@replayed
def a_bit_flips_in_one_step(watch):
    calls = [0]

    class Flipping(Net):
        def forward(self, batch):
            calls[0] += 1
            out = super().forward(batch)
            return out + (torch.arange(20) == 3) * 1e-3 if calls[0] == 4 else out
    Training(watch, model=Flipping(), steps=5)


@benign
@replayed
def steps_with_dropout_are_run_again(watch):
    Training(watch, model=Net(dropout=0.5), accumulate=2)


@benign
@replayed
def steps_with_running_statistics_are_run_again(watch):
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.1), nn.Linear(6, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()
