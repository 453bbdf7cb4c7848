"""Features of single layers: their numbers against float64 formulas, and that the training does not see them."""
import json
import math
import os
import sys
import unittest
from textwrap import dedent

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from monitor_case import ForkedMonitorCase

# Two attentions of one kind, a mixture of experts, and an embedding, which is no linear layer.
MODEL = """
import json

class Scores(nn.Module):
    def forward(self, query, key, value):
        return value + query.mean() + key.mean()

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.scores = Scores()

    def forward(self, x):                                   # [s, b, 8] -> 2 heads of 4
        query, key, value = self.project(x).view(x.shape[0], x.shape[1], 2, 12).split(4, dim=-1)
        return x + self.scores(query * 3, key=key * 3, value=value).reshape(x.shape)

class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        return F.linear(x, self.weight), None

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.layers = nn.ModuleList([Block(), Block()])
        self.router = Router()
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits, _ = self.router(x)
        return self.norm(x).sum() + logits.softmax(-1).max(-1).values.sum()

def train(model, optimizer, steps=2, micro_steps=1, context=None):
    for step in range(steps):
        for micro_step in range(micro_steps):
            torch.manual_seed(100 * step + micro_step)
            tokens = torch.randint(0, 10, (5, 2))
            if context is None:
                loss = model(tokens)
            else:
                with context():
                    loss = model(tokens)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
# Keeps what goes through the layers in float64, by hooks of its own.
RECORDED = """
seen = []

def keep(name):
    def hook(module, args, output):
        tensors = [value.detach().double().tolist() for value in (output if isinstance(output, tuple) else (output,))
                   if value is not None]
        seen.append([name, tensors])
    return hook
"""
TARGETS = {"attention_hook": ["layers.1.scores"], "linear_hook": [], "moe_router_weight_hook": ["router"],
           "moe_router_logit_hook": ["router"]}


def features(**more):
    return dict({"recording_l2_features": True, "l2_targets": TARGETS, "ndigits": 12}, **more)


def softmax(row):
    largest = max(row)
    powers = [math.exp(value - largest) for value in row]
    return [power / sum(powers) for power in powers]


def entropy(shares):
    return -sum(share * math.log(share) for share in shares if share > 0)


def causal(query, key):
    """(entropy, softmax_max) of lists [rows][d] and [columns][d]."""
    entropies, largest = [], []
    for number, row in enumerate(query):
        scores = [sum(a * b for a, b in zip(row, other)) / math.sqrt(len(row)) for other in key[:number + 1]]
        shares = softmax(scores)
        entropies.append(entropy(shares))
        largest.append(max(shares))
    return sum(entropies) / len(query), sum(largest) / len(query)


class Numbers(ForkedMonitorCase):
    def near(self, text, expected, digits=5):
        self.assertAlmostEqual(float(text), expected, digits)

    def attention_case(self, order, code):
        written = self.run_code(code, features(sa_order=order, l2_targets={"attention_hook": ["attention"]}))
        with open(os.path.join(written.folder, "seen.json"), encoding="utf-8") as file:
            calls = json.load(file)
        rows = written.rows("attention_hook_0-0.csv")
        self.assertEqual(list(rows[0]), ["vpp_stage", "name", "step", "micro_step", "entropy", "softmax_max"])
        self.assertEqual([(row["name"], row["micro_step"]) for row in rows],
                         [("attention", str(number)) for number in range(len(calls))])
        for row, (query, key) in zip(rows, calls):
            expected = causal(query, key)
            self.near(row["entropy"], expected[0])
            self.near(row["softmax_max"], expected[1])

    ATTENTION = """
        import json
        from msprobe.pytorch.monitor import feature_numbers
        feature_numbers._SCORES = %d
        class Attention(nn.Module):
            def forward(self, query, key, mask):
                return query + key.mean()
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(()))
                self.attention = Attention()
            def forward(self, query, key):
                return self.attention(query * self.weight, key, "causal").sum()
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        TrainerMon("config.json").set_monitor(model, optimizer, grad_acc_steps=2)
        seen = []
        for micro_step in range(2):
            query, key = torch.randn(%s).mul_(3).to(%s), torch.randn(%s).mul_(2).to(%s)
            model(query, key).backward()
            seen.append([tensor.detach()%s.double().tolist() for tensor in (query, key)])
        optimizer.step()
        json.dump(seen, open("seen.json", "w"))
    """

    def test_attention_is_that_of_the_first_head_of_the_first_batch_under_a_causal_mask(self):
        self.attention_case("s,b,h,d", self.ATTENTION % (1 << 22, "7, 2, 3, 8", "torch.float32", "7, 2, 3, 8",
                                                         "torch.float32", "[:, 0, 0]"))

    def test_the_batch_may_come_first_and_keys_may_have_fewer_heads(self):
        self.attention_case("b,s,h,d", self.ATTENTION % (1 << 22, "2, 7, 4, 8", "torch.float32", "2, 7, 2, 8",
                                                         "torch.float32", "[0, :, 0]"))

    def test_half_precision_is_widened_before_the_product(self):
        self.attention_case("s,b,h,d", self.ATTENTION % (1 << 22, "7, 2, 3, 8", "torch.bfloat16", "7, 2, 3, 8",
                                                         "torch.bfloat16", "[:, 0, 0]"))

    def test_long_sequences_go_through_in_blocks_of_rows(self):
        self.attention_case("s,b,h,d", self.ATTENTION % (26, "9, 1, 1, 8", "torch.float32", "13, 1, 1, 8",
                                                         "torch.float32", "[:, 0, 0]"))

    def test_fewer_keys_than_queries_leave_the_mask_at_the_top_left(self):
        self.attention_case("s,b,h,d", self.ATTENTION % (8, "9, 1, 1, 8", "torch.float32", "4, 1, 1, 8",
                                                         "torch.float32", "[:, 0, 0]"))

    def test_experts_are_told_by_their_router(self):
        written = self.run_code(MODEL + RECORDED + dedent("""
            model = Model()
            weight = model.router.weight.detach().double().tolist()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer, grad_acc_steps=2)
            model.router.register_forward_hook(keep("router"))
            train(model, optimizer, 1, 2)
            json.dump([weight, seen], open("seen.json", "w"))
        """), features())
        with open(os.path.join(written.folder, "seen.json"), encoding="utf-8") as file:
            experts, calls = json.load(file)
        cosines = []
        for i in range(3):
            for j in range(i):
                product = sum(a * b for a, b in zip(experts[i], experts[j]))
                cosines.append(product / math.dist(experts[i], [0] * 8) / math.dist(experts[j], [0] * 8))
        (row,) = written.rows("moe_router_weight_hook_0-0.csv")
        self.assertEqual(list(row), ["vpp_stage", "name", "step", "router_weight_similarity"])
        self.near(row["router_weight_similarity"], sum(cosines) / 3, 6)
        rows = written.rows("moe_router_logit_hook_0-0.csv")
        self.assertEqual([row["micro_step"] for row in rows], ["0", "1"])
        for row, (_, (logits,)) in zip(rows, calls):
            entropies = [entropy(softmax(token)) for batch in logits for token in batch]
            self.near(row["per_token_expert_entropy"], sum(entropies) / len(entropies), 6)

    def test_the_spectrum_of_every_linear_layer_is_recorded_at_the_last_micro_step(self):
        written = self.run_code(MODEL + dedent("""
            model = Model()
            with torch.no_grad():
                for block in model.layers:  # one direction far above the others
                    block.project.weight.add_(torch.outer(torch.ones(24), torch.ones(8)))
            norms = []
            for module in (model.layers[0].project, model.layers[1].project, model.router):
                weight = module.weight.detach().double()
                norms.append([torch.linalg.svdvals(weight)[0].item(), torch.linalg.norm(weight).item()])
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer, grad_acc_steps=2)
            train(model, optimizer, 1, 2)
            json.dump(norms, open("norms.json", "w"))
        """), features())
        with open(os.path.join(written.folder, "norms.json"), encoding="utf-8") as file:
            norms = json.load(file)
        rows = written.rows("linear_hook_0-0.csv")
        self.assertEqual(list(rows[0]), ["vpp_stage", "name", "step", "sr", "kernel_norm"])
        self.assertEqual([row["name"] for row in rows], ["0.project", "1.project", "router"])
        for row, (largest, norm) in zip(rows, norms):
            self.assertLessEqual(float(row["kernel_norm"]), largest * (1 + 1e-6))
            self.near(float(row["sr"]) * float(row["kernel_norm"]) / norm, 1)
        for row, (largest, _) in zip(rows[:2], norms):
            self.near(float(row["kernel_norm"]) / largest, 1)

    def test_no_matrix_and_no_pair_of_experts_are_zeros_and_one_expert_of_no_chance_is_no_nan(self):
        written = self.run_code("""
            class Gate(nn.Module):
                def __init__(self, *shape):
                    super().__init__()
                    self.weight = nn.Parameter(torch.zeros(*shape))
                def forward(self, x):
                    return torch.stack([x, x - float("inf"), x], -1) * 1.0 + self.weight.sum()
            model = nn.ModuleDict({"flat": Gate(4), "single": Gate(1, 4), "zero": Gate(2, 4)})
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer)
            for name in model:
                model[name](torch.ones(2))
            optimizer.step()
        """, features(l2_targets={name: ["flat", "single", "zero"] for name in
                                  ("linear_hook", "moe_router_weight_hook", "moe_router_logit_hook")}))
        self.assertEqual([row["sr"] + " " + row["kernel_norm"] for row in written.rows("linear_hook_0-0.csv")],
                         ["0.0 0.0"] * 3)
        self.assertEqual([float(row["router_weight_similarity"])
                          for row in written.rows("moe_router_weight_hook_0-0.csv")], [0] * 3)
        for row in written.rows("moe_router_logit_hook_0-0.csv"):
            self.near(row["per_token_expert_entropy"], math.log(2), 6)

    def test_nan_is_not_hidden(self):
        written = self.run_code(MODEL + dedent("""
            model = Model()
            with torch.no_grad():
                model.layers[1].project.weight[0, 0] = float("nan")
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer)
            train(model, optimizer, 1)
        """), features())
        (row,) = written.rows("attention_hook_0-0.csv")
        self.assertEqual((row["entropy"], row["softmax_max"]), ("nan", "nan"))
        rows = written.rows("linear_hook_0-0.csv")
        self.assertEqual([row["sr"] == "nan" and row["kernel_norm"] == "nan" for row in rows], [False, True, False])
        (row,) = written.rows("moe_router_logit_hook_0-0.csv")
        self.assertEqual(row["per_token_expert_entropy"], "nan")


class Training(ForkedMonitorCase):
    def test_parameters_and_random_numbers_are_those_of_a_training_without_us(self):
        code = MODEL + dedent("""
            import sys
            model = Model()
            optimizer = torch.optim.Adam(model.parameters(), 0.01)
            if sys.argv[1] == "watched":
                TrainerMon("config.json").set_monitor(model, optimizer)
            train(model, optimizer, 3, context=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
            torch.save([dict(model.named_parameters()), torch.get_rng_state()], "state.pt")
        """)
        states = []
        for argument in ("watched", "alone"):
            written = self.run_code(code, features(), arguments=[argument])
            states.append(torch.load(os.path.join(written.folder, "state.pt")))
            self.assertEqual(bool(written.ranks()), argument == "watched")
        (parameters, random), (others, other_random) = states
        self.assertTrue(torch.equal(random, other_random))
        for name, parameter in parameters.items():
            self.assertTrue(torch.equal(parameter, others[name]), name)

    def test_autocast_does_not_lower_the_precision_of_features(self):
        rows = []
        for context in ("None", "lambda: torch.autocast('cpu', dtype=torch.bfloat16)"):
            written = self.run_code(MODEL + dedent("""
                model = Model()
                optimizer = torch.optim.SGD(model.parameters(), 0.0)
                TrainerMon("config.json").set_monitor(model, optimizer)
                train(model, optimizer, 1, context=%s)
            """) % context, features())
            rows.append(written.rows("linear_hook_0-0.csv"))
        self.assertEqual(rows[0], rows[1])
        self.assertEqual(len(rows[0]), 3)

    def test_only_selected_steps_are_hooked_and_recorded(self):
        written = self.run_code(MODEL + dedent("""
            model = Model()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            calls = ModuleCalls.of(nn.Module)
            TrainerMon("config.json").set_monitor(model, optimizer)
            for step in range(4):
                assert (calls._slot is not None) == (step == 2), step
                train(model, optimizer, 1)
        """), features(start_step=2, step_interval=50))
        self.assertEqual(sorted(written.tables()), ["%s_2-2.csv" % name for name in sorted(TARGETS)])

    def test_activations_are_recorded_beside_only_where_they_are_asked_for(self):
        written = self.run_code(MODEL + dedent("""
            model = Model()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer)
            train(model, optimizer, 1)
        """), features(xy_distribution=True, targets={"norm": {}}))
        self.assertEqual(written.names("actv_0-0.csv"), ["norm.input", "norm.output"])
        self.assertEqual(written.names("attention_hook_0-0.csv"), ["layers.1.scores"])

    def test_an_attention_of_another_form_is_told_once_and_the_training_goes_on(self):
        written = self.run_code("""
            class Attention(nn.Module):
                def forward(self, query, key):
                    return query * key
            model = nn.Sequential(nn.Linear(4, 4), Attention())
            model[1].forward = lambda x: x * x
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer)
            for step in range(3):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            print("trained")
        """, features(l2_targets={"attention_hook": ["1"], "linear_hook": ["0"]}))
        self.assertEqual(written.said.count("has no query and key among its inputs"), 1, written.said)
        self.assertIn("trained", written.said)
        self.assertEqual(sorted(written.tables()), ["linear_hook_%d-%d.csv" % (step, step) for step in range(3)])

    def test_recomputed_activations_are_recorded_once(self):
        written = self.run_code(MODEL + dedent("""
            from torch.utils.checkpoint import checkpoint
            class Recomputed(Model):
                def forward(self, tokens):
                    x = self.embedding(tokens)
                    for layer in self.layers:
                        x = checkpoint(layer, x, use_reentrant=False)
                    return self.router(x)[0].sum()
            model = Recomputed()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            TrainerMon("config.json").set_monitor(model, optimizer)
            train(model, optimizer, 1)
        """), features())
        self.assertEqual(len(written.rows("attention_hook_0-0.csv")), 1)
        self.assertEqual(len(written.rows("linear_hook_0-0.csv")), 3)


if __name__ == "__main__":
    unittest.main()
