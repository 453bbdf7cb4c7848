"""reduced_gradients.json: gradients as an optimizer is given them."""
import os
import sys
import textwrap
import unittest

try:
    import torch
    import torch.distributed
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)
if not torch.distributed.is_available():
    print("PyTorch comes without torch.distributed: skipped")
    sys.exit(77)

from distributed_test import EPILOGUE, PROLOGUE
from shim_case import ShimCase

MODEL = """
def net():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))

def batch(rank):
    return torch.arange(8.0).view(2, 4) * (rank + 1)
"""
NAME = "Module.%s0.Linear.parameters_grad"


class ReducedGradients(ShimCase):
    def run_two(self, code, **options):
        return self.run_code(MODEL + textwrap.dedent(code) + EPILOGUE, prologue=PROLOGUE, **options)

    def gradient(self, dump, rank, prefix="", reduced=""):
        name = (NAME % prefix) + reduced
        return dump.tensor(name + ".weight.pt", 0, "rank%d" % rank)

    def file(self, dump, rank):
        return dump.data(0, "rank%d" % rank, "reduced_gradients.json")

    def has_file(self, dump, rank="rank0"):
        return os.path.exists(dump.path("step0", rank, "reduced_gradients.json"))

    def test_they_are_the_mean_of_what_the_ranks_computed(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = nn.parallel.DistributedDataParallel(net())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                debugger.start(model=model)
                model(batch(rank)).sum().backward()
                optimizer.step(); optimizer.zero_grad()
                debugger.stop(); debugger.step()
        """, task="tensor", level="L0")
        own = [self.gradient(dump, rank, "module.") for rank in (0, 1)]
        self.assertFalse(torch.equal(own[0], own[1]))
        for rank in (0, 1):
            self.assertTrue(torch.allclose(self.gradient(dump, rank, "module.", ".reduced"), (own[0] + own[1]) / 2))
            [described] = self.file(dump, rank)["Module.module.0.Linear.parameters_grad.reduced"]["weight"]
            self.assertEqual((described["shape"], described["data_name"]),
                             ([6, 4], "Module.module.0.Linear.parameters_grad.reduced.weight.pt"))
            self.assertEqual(len(self.file(dump, rank)), 2)  # modules with parameters
            self.assertFalse([name for name in dump.names(0, "rank%d" % rank) if "reduced" in name])

    def test_exchange_and_clipping_by_the_script_are_in_them(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = net()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                debugger.start(model=model)
                model(batch(rank)).sum().backward()
                debugger.stop()
                for parameter in model.parameters(): dist.all_reduce(parameter.grad)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step(); optimizer.zero_grad()
                debugger.step()
        """, task="tensor", level="mix")
        summed = self.gradient(dump, 0) + self.gradient(dump, 1)
        given = self.gradient(dump, 0, reduced=".reduced")
        factor = given.norm() / summed.norm()
        self.assertTrue(torch.allclose(given, summed * factor, atol=1e-7))
        self.assertLess(float(factor), 0.5)

    def test_a_step_that_ends_before_the_optimizer_has_what_a_wrapper_exchanged(self):
        code = """
            def work(rank, debugger):
                join(rank)
                model = %s
                debugger.start(model=model)
                model(batch(rank)).sum().backward()
                debugger.stop(); debugger.step()
                torch.optim.SGD(model.parameters(), lr=0.1).step()
        """
        dump = self.run_two(code % "nn.parallel.DistributedDataParallel(net())", task="tensor", level="L0")
        mean = (self.gradient(dump, 0, "module.") + self.gradient(dump, 1, "module.")) / 2
        self.assertTrue(torch.allclose(self.gradient(dump, 1, "module.", ".reduced"), mean))
        # Without one nothing tells whether they have been exchanged.
        self.assertFalse(self.has_file(self.run_two(code % "net()", task="tensor", level="L0")))

    def test_an_optimizer_gives_those_of_its_own_parameters(self):
        if int(torch.__version__.split(".")[0]) < 2:
            self.skipTest("before PyTorch 2.0 nothing tells which optimizer steps")
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = net()
                first, second = (torch.optim.SGD(model[at].parameters(), lr=0.1) for at in (0, 2))
                debugger.start(model=model)
                model(batch(rank)).sum().backward()
                first.step()
                for parameter in model.parameters(): parameter.grad += 1
                second.step()
                debugger.stop(); debugger.step()
        """, task="tensor", level="L0")
        self.assertTrue(torch.equal(self.gradient(dump, 0, reduced=".reduced"), self.gradient(dump, 0)))
        later = [dump.tensor("Module.2.Linear.parameters_grad%s.weight.pt" % end, 0, "rank0") for end in ("", ".reduced")]
        self.assertTrue(torch.equal(later[1], later[0] + 1))

    ONE_PROCESS = """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        debugger.start(model=model)
        for part in range(%d):
            model(batch(part)).sum().backward()
        %s
        optimizer.step()
        debugger.stop(); debugger.step()
    """

    def run_one(self, parts, change="", **options):
        return self.run_code(MODEL + textwrap.dedent(self.ONE_PROCESS % (parts, change)), **options)

    def given(self, dump, name="0"):
        return [dump.tensor("Module.%s.Linear.parameters_grad%s.weight.pt" % (name, end), 0, "rank") for end in ("", ".reduced")]

    def test_one_process_that_is_given_what_was_computed_has_none(self):
        self.assertFalse(self.has_file(self.run_one(1, task="tensor", level="L0"), "rank"))

    def test_one_process_has_what_clipping_left(self):
        for level in ("L0", "mix"):
            dump = self.run_one(1, "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)", task="tensor", level=level)
            computed, given = self.given(dump)
            factor = given.norm() / computed.norm()
            self.assertLess(float(factor), 0.9)
            self.assertTrue(torch.allclose(given, computed * factor))

    def test_one_process_has_what_micro_batches_accumulated(self):
        computed, given = self.given(self.run_one(2, task="tensor", level="L0"))
        self.assertTrue(torch.equal(computed, given))  # the last pass is recorded with those before

    def test_one_process_has_what_replaced_a_gradient(self):
        dump = self.run_one(1, "model[0].weight.grad = model[0].weight.grad * 2", task="tensor", level="L0")
        computed, given = self.given(dump)
        self.assertTrue(torch.equal(given, computed * 2))
        self.assertTrue(torch.equal(*self.given(dump, "2")))

    def test_one_process_has_what_copies_are_given(self):
        # As Megatron does: gradients are added up beside the parameters, and copies are updated.
        dump = self.run_code(MODEL + textwrap.dedent("""
            model = net()
            for parameter in model.parameters():
                parameter.main_grad = torch.zeros_like(parameter)
                parameter.main_param = parameter.detach().clone()
            optimizer = torch.optim.SGD([parameter.main_param for parameter in model.parameters()], lr=0.1)
            debugger.start(model=model)
            for part in range(2):
                model(batch(part)).sum().backward()
                for parameter in model.parameters():
                    parameter.main_grad += parameter.grad
                    parameter.grad = None
            for parameter in model.parameters():
                parameter.main_param.grad = parameter.main_grad
            optimizer.step()
            debugger.stop(); debugger.step()
        """), task="tensor", level="L0")
        computed, given = self.given(dump)
        self.assertFalse(torch.equal(computed, given))

    def test_a_list_of_modules_holds_for_them(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = net()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                debugger.start(model=model)
                model(batch(rank)).sum().backward()
                optimizer.step()
                debugger.stop(); debugger.step()
        """, level="L0", statistics={"list": ["2.Linear"]})
        self.assertEqual(list(self.file(dump, 0)), ["Module.2.Linear.parameters_grad.reduced"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
