"""What ConfigChecker records beside a training."""
import json
import os
import sys
import unittest
import zipfile

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from config_check_case import PROLOGUE, ConfigCheckCase

TORCH_2 = int(torch.__version__.split(".")[0]) >= 2


class Inputs(ConfigCheckCase):
    def test_arguments_keep_their_shape(self):
        pack, _ = self.record("""
            from collections import namedtuple
            Pair = namedtuple("Pair", "left right")
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            x = torch.tensor([[0., 1., 2.]])
            model(x, [x, 3, "text", None], Pair(x, (x,)), mask=torch.ones(4, dtype=torch.bool),
                  d={"k": [torch.tensor([1.5, -2.0]), 7], 5: x.long()}, scale=2.0)
        """)
        x = self.features(2.0, 0.0, 1.0, 2.2360680103302)
        self.assertEqual(pack.dataset(), {
            "args": {"0": x, "1": {"0": x, "1": "", "2": "", "3": ""},
                     "2": {"0": x, "1": {"0": x}}},
            "kwargs": {"mask": self.features(1.0, 1.0, 1.0, 2.0),
                       "d": {"k": {"0": self.features(1.5, -2.0, -0.25, 2.5), "1": ""}, "5": x},
                       "scale": ""}})

    def test_halves_of_inputs_are_reduced_in_their_own_type(self):
        pack, _ = self.record("""
            model = Net().half()
            model.forward = lambda x, y: x
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.tensor([1.0, 1.0, 1.0009765625]).half(), torch.full((3,), 60000.0).half())
        """)
        first, second = (pack.dataset()["args"][index] for index in "01")
        self.assertEqual(first, self.features(1.0009765625, 1.0, 1.0, 1.732421875))
        self.assertEqual(second["norm"], float("inf"))
        norm = pack.weights()["first.weight"]["norm"]
        self.assertNotEqual(norm, float(torch.tensor(norm).half()))  # float32 for weights

    def test_other_numbers_are_cast_to_float32(self):
        pack, _ = self.record("""
            model = Net()
            model.forward = lambda *all: None
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.tensor([0.1, 0.2], dtype=torch.float64), torch.tensor(2**24 + 1),
                  torch.tensor([-3, 5], dtype=torch.int8), torch.tensor([True, False]),
                  torch.arange(12.).reshape(3, 4).t()[1:, ::2], torch.tensor([float("nan"), 1.]))
        """)
        given = pack.dataset()["args"]
        self.assertEqual(given["0"]["max"], 0.20000000298023224)
        self.assertEqual(given["1"], self.features(*[16777216.0] * 4))
        self.assertEqual(given["2"], self.features(5.0, -3.0, 1.0, 5.830951690673828))
        self.assertEqual(given["3"], self.features(1.0, 0.0, 0.5, 1.0))
        self.assertEqual((given["4"]["max"], given["4"]["min"]), (11.0, 1.0))
        self.assertIn(b"NaN", pack.content["dataset/step0/rank0/dataset.json"])

    def test_what_has_no_values_harms_nothing(self):
        pack, output = self.record("""
            model = Net()
            model.register_parameter("empty", nn.Parameter(torch.zeros(0)))
            model.forward = lambda *all, **named: print("forward")
            ConfigChecker(model, output_zip_path="pack.zip")
            loop = []
            loop.append(loop)
            deep = torch.ones(1)
            for _ in range(30): deep = [deep]
            class Odd(dict):
                def items(self): raise RuntimeError("no items")
            model(torch.zeros(0), torch.zeros(2, device="meta"), torch.eye(2).to_sparse(), loop,
                  deep, Odd(), {(1, 2): 3})
            model(torch.ones(2))
        """)
        self.assertEqual(output.count("forward\n"), 2, output)
        self.assertIn("no items", output)
        self.assertEqual(pack.dataset(0)["args"]["5"], "")
        self.assertEqual(pack.dataset(1)["args"]["0"]["max"], 1.0)
        self.assertNotIn("empty", pack.weights(1))

    def test_deep_values_are_left_out_and_told(self):
        pack, output = self.record("""
            model = Net()
            model.forward = lambda *all: None
            ConfigChecker(model, output_zip_path="pack.zip")
            loop = [torch.ones(1)]
            loop.append(loop)
            model(torch.zeros(0), loop)
        """)
        self.assertEqual(pack.dataset()["args"]["0"], "")
        value, depth = pack.dataset()["args"]["1"], 0
        while value != "":
            self.assertEqual(value["0"]["max"], 1.0)
            value, depth = value["1"], depth + 1
        self.assertEqual((depth, output.count("nested deeper")), (10, 1))


class OnDevices(ConfigCheckCase):
    def test_reductions_there_agree_with_those_here(self):
        """What a device would do is done by the host here: the same functions of PyTorch."""
        self.record("""
            from msprobe.core.config_check import pytorch as framework
            framework.configure()
            framework._CHUNK = 1000
            there, here = framework.Statistics(), framework.Statistics()
            tensors = [torch.randn(50, 70), torch.randn(50, 70).half(),
                       torch.randn(3, 7).bfloat16(), torch.randn(4000).double(), torch.arange(5000), torch.tensor(True),
                       torch.randn(30, 40).t()[::2], torch.tensor(-2.5), torch.randn(5) * 1j,
                       torch.full((2,), 60000.).half(), torch.tensor([float("nan"), 1.0])]
            pairs = [(here.of(tensor, half), there._reduce(tensor, half),
                      1e-2 if half and tensor.dtype in framework._HALVES else 1e-6)
                     for tensor in tensors for half in (True, False)]
            assert all(right == {} for _, right, _ in pairs)
            there.finish()
            for left, right, tolerance in pairs:
                assert list(left) == list(right) == ["max", "min", "mean", "norm"]
                for key in left:
                    assert torch.isclose(torch.tensor(left[key]), torch.tensor(right[key]),
                                         rtol=tolerance, atol=1e-6,
                                         equal_nan=True), (key, left, right)
            assert there._reduce(torch.zeros(0), True) is None
            assert there._reduce(torch.eye(2).to_sparse(), True) is None
        """)

    def test_a_device_that_fails_costs_its_own_values_only(self):
        pack, output = self.record("""
            from msprobe.core.config_check import pytorch as framework
            of = framework.Statistics.of
            def strange(self, tensor, keeps_half):
                if tensor.numel() == 2: return self._reduce(tensor, keeps_half)
                return of(self, tensor, keeps_half)
            framework.Statistics.of = strange
            def broken(*_): raise RuntimeError("the device is gone")
            stack, torch.stack = torch.stack, lambda rows: (
                broken() if rows and rows[0].dim() == 1 and len(rows[0]) == 4
                and len(rows) > 1 else stack(rows))
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3), torch.ones(2))
        """)
        self.assertIn("the device is gone", output)
        self.assertEqual(pack.dataset()["args"]["1"], {})
        self.assertEqual(list(pack.weights()), ["first.weight", "first.bias", "second.weight"])


class Steps(ConfigCheckCase):
    def test_every_forward_is_a_step_before_which_the_weights_are_seen(self):
        pack, _ = self.record("""
            model = Net()
            ConfigChecker([model], output_zip_path="pack.zip")
            for step in range(3):
                with torch.no_grad():
                    model.first.weight.fill_(step)
                model(torch.ones(1, 3))
        """)
        self.assertEqual([pack.weights(step)["first.weight"]["max"] for step in range(3)],
                         [0.0, 1.0, 2.0])
        self.assertEqual(list(pack.weights()), ["first.weight", "first.bias", "second.weight",
                                                "second.bias"])
        self.assertEqual([name for name in pack.names if name.split("/")[0] in
                          ("dataset", "weights", "random")][:3],
                         ["dataset/step0/rank0/dataset.json", "weights/step0/rank0/weight.json",
                          "random/rank0.json"])

    def test_a_limit_ends_the_recording(self):
        pack, output = self.record("""
            model = Net()
            before = dict(vars(model)), nn.Module.__call__
            ConfigChecker(model, output_zip_path="pack.zip", steps=2)
            for _ in range(5): model(torch.ones(1, 3))
            assert not model._forward_pre_hooks and nn.Module.__call__ is before[1]
        """)
        self.assertEqual(len(pack.steps()), 2)
        self.assertIn("2 forwards are recorded", output)

    def test_without_a_limit_all_are_recorded(self):
        pack, _ = self.record("""
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip", steps=None)
            for _ in range(130): model(torch.ones(1, 3))
        """)
        self.assertEqual(len(pack.steps()), 130)

    def test_the_pack_is_complete_while_the_training_runs(self):
        _, output = self.record("""
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
            names = zipfile.ZipFile("pack.zip").namelist()
            assert "weights/step0/rank0/weight.json" in names, names
            os.kill(os.getpid(), 0)
            print("seen"); sys.stdout.flush()
            os._exit(0)
        """)
        self.assertIn("seen", output)

    def test_a_copy_and_a_file_of_the_model_are_free_of_hooks(self):
        pack, output = self.record("""
            import copy, io, pickle
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            other = copy.deepcopy(model)
            other(torch.ones(1, 3))
            text = pickle.dumps(model)
            assert b"msprobe" not in text
            pickle.loads(text)(torch.ones(1, 3))
            model(torch.ones(1, 3))
        """)
        self.assertEqual(len(pack.steps()), 1)

    def test_a_new_run_begins_a_new_pack(self):
        folder = self.folder()
        code = """
            with zipfile.ZipFile("pack.zip", "a") as archive: archive.writestr("notes", "mine")
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            for _ in range(%d): model(torch.ones(1, 3))
        """
        self.record(code % 3, folder=folder)
        pack, _ = self.record(code % 1, folder=folder)
        self.assertEqual(len(pack.steps()), 1)
        self.assertEqual(pack.content["notes"], b"mine")
        self.assertEqual(len(pack.names), len(set(pack.names)) + 1)  # the notes of both runs

    def test_members_look_as_they_always_did(self):
        folder = self.folder()
        pack, _ = self.record("""
            os.umask(0)
            model = Net()
            ConfigChecker(model, output_zip_path="deep/er/../pack.zip")
            model(torch.ones(1, 3))
            os.link("deep/pack.zip", "pack.zip")
        """, folder=folder)
        for member in pack.members:
            self.assertEqual((member.date_time, member.compress_type),
                             ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_DEFLATED))
        self.assertEqual(os.stat(os.path.join(folder, "deep/pack.zip")).st_mode & 0o777, 0o640)
        self.assertEqual(os.stat(os.path.join(folder, "deep")).st_mode & 0o777, 0o750)
        text = pack.content["dataset/step0/rank0/dataset.json"].decode()
        self.assertEqual(text, json.dumps(json.loads(text), indent=4))


class Harm(ConfigCheckCase):
    def test_a_pack_that_cannot_be_written_is_told_once(self):
        folder = self.folder()
        with open(os.path.join(folder, "broken.zip"), "w") as file:
            file.write("this is no zip")
        os.symlink("elsewhere.zip", os.path.join(folder, "link.zip"))
        for name in ("broken.zip", "link.zip"):
            run = self.run_code("""
                model = Net()
                ConfigChecker(model, output_zip_path=%r)
                for _ in range(3): model(torch.ones(1, 3))
                print("trained")
            """ % name, prologue=PROLOGUE, folder=folder)
            self.assertIn("trained", run.output)
            self.assertLessEqual(run.output.count("a forward: not recorded"), 1, run.output)
        with open(os.path.join(folder, "broken.zip")) as file:
            self.assertEqual(file.read(), "this is no zip")
        self.assertFalse(os.path.exists(os.path.join(folder, "elsewhere.zip")))

    def test_a_full_disk_leaves_the_pack_as_it_was(self):
        pack, output = self.record("""
            import msprobe.core.config_check.pack
            msprobe.core.config_check.pack._CHEAP_S = 3600  # every forward writes, however busy the machine
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
            size, write = os.path.getsize("pack.zip"), os.pwrite
            def full(descriptor, data, at):
                if os.path.getsize("pack.zip") == size: write(descriptor, data[:40], at)
                os.pwrite = write
                raise OSError(28, "No space left on device")
            os.pwrite = full
            model(torch.ones(1, 3))
            assert os.path.getsize("pack.zip") == size
            model(torch.ones(1, 3))
        """)
        self.assertIn("No space left", output)
        self.assertEqual([name.split("/")[1] for name in pack.steps()], ["step0", "step2"])

    def test_a_forked_process_does_not_write_what_its_parent_will(self):
        pack, _ = self.record("""
            import sys
            from msprobe.core.config_check.pack import Pack
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
            Pack.at("pack.zip")._next = float("inf")  # from here on everything is pending
            model(torch.ones(1, 3))
            child = os.fork()
            if child == 0:
                sys.exit(0)
            os.waitpid(child, 0)
        """)
        names = pack.names
        self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual([name.split("/")[1] for name in pack.steps()], ["step0", "step1"])

    def test_a_locked_pack_does_not_hold_up_the_training(self):
        pack, _ = self.record("""
            import fcntl, time
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            with open("pack.zip", "a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                began = time.monotonic()
                for _ in range(20): model(torch.ones(1, 3))
                assert time.monotonic() - began < 10
        """)
        self.assertEqual(len(pack.steps()), 20)

    def test_wrong_arguments_are_told_where_they_are_given(self):
        _, output = self.record("""
            def refused(kind, *args, **named):
                try: ConfigChecker(*args, **named)
                except kind as error: print(error)
                else: raise AssertionError((args, named))
            refused(TypeError, 5)
            refused(TypeError, [])
            refused(TypeError, None, "train.sh")
            refused(ValueError, None, None, "pack.tar")
            refused(ValueError, fmk="jax")
            refused(ValueError, steps=-1)
            try: ConfigChecker.apply_patches("jax")
            except ValueError: pass
        """)
        self.assertIn("ends with .zip", output)

    def test_the_environment_is_left_alone(self):
        _, output = self.record("""
            before = dict(os.environ)
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
            assert dict(os.environ) == before
        """)

    def test_training_gives_the_same_numbers(self):
        code = """
            torch.manual_seed(3)
            model = Net()
            %s
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.rand(4, 3)).pow(2).sum().backward()
                optimizer.step()
            print([p.sum().item() for p in model.parameters()], torch.rand(1).item())
        """
        with_it = self.record(code % "ConfigChecker(model, output_zip_path='pack.zip')")[1]
        without = self.record(code % "ConfigChecker.restore()")[1]
        self.assertEqual(with_it.splitlines()[-1], without.splitlines()[-1])

    @unittest.skipUnless(TORCH_2, "PyTorch 1 compiles nothing")
    def test_a_compiled_model_trains_on(self):
        pack, output = self.record("""
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            compiled(torch.ones(1, 3)); compiled(torch.ones(1, 3))
            ConfigChecker(compiled, output_zip_path="pack.zip")
            compiled(torch.ones(1, 3))
            print("went on")
        """)
        self.assertIn("went on", output)
        self.assertEqual(len(pack.steps()), 1)
        self.assertEqual(output.count("no forward of the model was seen"), 1)


class Random(ConfigCheckCase):
    def test_calls_are_counted_by_their_stacks(self):
        pack, _ = self.record("""
            import numpy as np
            def draw():
                return torch.rand(2)
            draw()
            for _ in range(3):
                draw()
            random.random(); np.random.rand(1); torch.ones(2).exponential_()
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
            torch.randn(1)
            model(torch.ones(1, 3))
        """)
        calls = pack.random()
        self.assertEqual(list(calls), ["torch.rand", "random.random", "np.random.rand",
                                       "torch.Tensor.exponential_"])
        self.assertEqual([entry["count"] for entry in calls["torch.rand"]], [1, 3])
        script = os.path.join(os.path.realpath(self.last_folder), "script.py")
        outer, inner = calls["torch.rand"][1]["stack"]
        self.assertRegex(outer, r"^File .*script.py, line \d+, in <module>, draw\(\)$")
        self.assertRegex(inner, r"^File .*script.py, line \d+, in draw, return torch.rand\(2\)$")
        self.assertEqual(os.path.realpath(inner.split()[1][:-1]), script)

    def test_all_functions_of_the_list_are_told(self):
        pack, _ = self.record("""
            import numpy as np
            x = torch.ones(2)
            torch.manual_seed(1); torch.rand(1); torch.randn(1); torch.randint(3, (1,))
            torch.rand_like(x); torch.randn_like(x); torch.randint_like(x, 3)
            x.exponential_(); x.geometric_(0.5); x.log_normal_(); x.cauchy_()
            random.random(); random.randint(1, 2); random.uniform(1, 2); random.choice([1])
            np.random.rand(1); np.random.randint(2); np.random.choice([1]); np.random.normal()
            model = Net()
            ConfigChecker(model, output_zip_path="pack.zip")
            model(torch.ones(1, 3))
        """)
        self.assertEqual(len(pack.random()), 19)

    def test_functions_behave_as_before(self):
        self.record("""
            import pickle
            from torch.utils import data
            assert pickle.loads(pickle.dumps(torch.rand)) is torch.rand
            assert pickle.loads(pickle.dumps(random.choice)) is random.choice
            assert pickle.loads(pickle.dumps(torch.Tensor.cauchy_)) is torch.Tensor.cauchy_
            assert torch.rand.__name__ == "rand"
            @torch.jit.script
            def scripted(n: int):
                return torch.rand([n]) + torch.randn([n])
            assert scripted(3).shape == (3,)
            if hasattr(torch, "set_default_device"):
                with torch.device("meta"):
                    assert torch.rand(2).device.type == "meta"
            try: torch.rand("two")
            except TypeError: pass
            else: raise AssertionError
        """)

    def test_originals_come_back(self):
        pack, _ = self.record("""
            assert torch.rand.__module__ == "torch" and hasattr(torch.rand, "__wrapped__")
            ConfigChecker.apply_patches("pytorch")  # a second time changes nothing
            assert not hasattr(torch.rand.__wrapped__, "__wrapped__")
            model = Net()
            checker = ConfigChecker(model, output_zip_path="pack.zip")
            checker.restore()
            for function in (torch.rand, random.random, torch.Tensor.cauchy_):
                assert not hasattr(function, "__wrapped__"), function
            model(torch.ones(1, 3))
        """)
        self.assertEqual(pack.steps() if pack else [], [])

    def test_what_others_put_over_ours_stays(self):
        self.record("""
            ours = torch.rand
            def theirs(*args): return ours(*args)
            torch.rand = theirs
            ConfigChecker.restore()
            assert torch.rand is theirs and torch.rand(2).shape == (2,)
        """)


MEGATRON = """
import argparse, enum
_calls = 0
def get_args():
    global _calls
    _calls += 1
    if _calls == 1: return None
    return argparse.Namespace(lr=0.1, eps=1e-8, bf16=True, betas=(0.9, 0.95), dtype=object(),
                              function=len, nothing=None, number=_calls, name="gpt")
"""


class Hyperparameters(ConfigCheckCase):
    def test_the_first_arguments_of_megatron_are_recorded(self):
        folder = self.folder()
        os.makedirs(os.path.join(folder, "megatron", "training"))
        open(os.path.join(folder, "megatron", "__init__.py"), "w").close()
        with open(os.path.join(folder, "megatron", "training", "__init__.py"), "w") as file:
            file.write(MEGATRON)
        pack, _ = self.record("""
            import megatron.training
            assert megatron.training.get_args() is None
            megatron.training.get_args(); megatron.training.get_args()
            ConfigChecker(output_zip_path="pack.zip")
            ConfigChecker.restore()
            assert not hasattr(megatron.training.get_args, "__wrapped__")
        """, folder=folder, environment={"PYTHONPATH": folder + os.pathsep
                                         + os.environ.get("PYTHONPATH", "")})
        self.assertEqual(pack.load("hyperparameters/hyperparameters_dynamic.json"),
                         {"lr": 0.1, "eps": 1e-08, "bf16": True, "betas": [0.9, 0.95],
                          "dtype": None, "function": None, "nothing": None, "number": 2,
                          "name": "gpt"})

    def test_without_megatron_one_line_says_so(self):
        _, output = self.record("pass")
        self.assertEqual(output.count("Megatron is not installed; its arguments are not recorded."), 1)


@unittest.skipUnless(torch.distributed.is_available(), "PyTorch without torch.distributed")
class Ranks(ConfigCheckCase):
    def test_all_ranks_append_to_one_pack(self):
        pack, _ = self.record("""
            import socket
            import torch.distributed as dist
            import torch.multiprocessing as mp

            def worker(rank, port):
                os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
                os.environ["USE_LIBUV"] = "0"
                dist.init_process_group("gloo", rank=rank, world_size=2)
                torch.manual_seed(rank)
                model = nn.parallel.DistributedDataParallel(Net())
                ConfigChecker(model, output_zip_path="pack.zip")
                for step in range(20):
                    model(torch.full((1, 3), float(100 * rank + step))).sum().backward()
                dist.destroy_process_group()

            if __name__ == "__main__":
                with zipfile.ZipFile("pack.zip", "w") as archive:
                    archive.writestr("dataset/step99/rank7/dataset.json", "{}")
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", 0))
                    port = probe.getsockname()[1]
                mp.spawn(worker, (port,), nprocs=2)
        """)
        for rank in (0, 1):
            for step in range(20):
                self.assertEqual(pack.dataset(step, rank)["args"]["0"]["max"], 100.0 * rank + step)
                self.assertIn("module.first.weight", pack.weights(step, rank))
        self.assertEqual(len(pack.names), len(set(pack.names)))
        self.assertNotIn("dataset/step99/rank7/dataset.json", pack.names)
        self.assertIn("torch.manual_seed", pack.random(0))
        self.assertNotIn("random/rank1.json", pack.names)


if __name__ == "__main__":
    unittest.main(verbosity=1)
