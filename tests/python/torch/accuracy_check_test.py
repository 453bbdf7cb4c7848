"""msprobe run_ut, acc_check, their forms with several workers and run_overflow_check, with this PyTorch on its CPU.

The Python tool's cases (tests/data/accuracy, and $MSPROBE_GOLDEN where somebody has it), and what operators can do to a worker.
"""
import csv
import glob
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

try:
    import numpy
except ImportError:
    numpy = None

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GOLDEN = os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(REPOSITORY), "shared", "golden"))
MSPROBE = os.environ["MSPROBE"]
IS_TORCH_1 = torch.__version__.startswith("1.")

REFERENCES = '''
import os, time

def leave(x): os._exit(7)
def abort(x): os.abort()
def hang(x): time.sleep(1000)
def twice(x): return x * 2
def loud(x):
    print("a word on the way" * 200000)
    return x

operators = {"my_leave": leave, "my_abort": abort, "my_hang": hang, "loud": loud,
             "my_twice": {"reference": twice, "device": lambda x: x * 2.5}}
'''


def tensor(dtype="torch.float32", shape=(8,), low=0.5, high=1.0, grad=False):
    return {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), "Max": high, "Min": low, "Mean": 0.7, "Norm": 1.0,
            "requires_grad": grad}


def forward(*args, **kwargs):
    return {"input_args": list(args), "input_kwargs": kwargs, "output": [tensor()]}


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def same_cell(name, expected, got):
    if expected == got or name == "Message" and "(" in expected:
        return True  # the words of an exception belong to PyTorch's version
    try:
        wanted, number = float(expected), float(got)
    except ValueError:
        return False
    # The last bits belong to PyTorch's version, too; how many they are is no subject of this test.
    return not IS_TORCH_1 or abs(wanted - number) <= 3e-6 * abs(wanted) or max(abs(wanted), abs(number)) < 1e-6


class AccuracyCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_accuracy_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path("refs.py", REFERENCES)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def dump(self, data, name="dump.json", **header):
        whole = dict({"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}, **header)
        return self.path(name, json.dumps(dict(whole, data=data)))

    def call(self, *words, code=0):
        words = [MSPROBE] + [str(word) for word in words]
        if "--python" not in words:
            words += ["--python", sys.executable]
        ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300,
                               check=False, cwd=self.folder)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def results(self, folder, kind="result"):
        (path,) = glob.glob(os.path.join(self.folder, folder, "accuracy_checking_%s_*.csv" % kind))
        return rows(path)

    def check(self, data, *words, output="out", command="run_ut", **header):
        """{operator: [forward, backward, message...]}"""
        self.call(command, self.dump(data, **header), "-o", output, "-q", *words)
        return {row[0]: row[1:] for row in self.results(output)[1:]}

    def compare(self, folder, expected_result, expected_details):
        for kind, expected in (("result", rows(expected_result)), ("details", rows(expected_details))):
            got = self.results(folder, kind)
            self.assertEqual([row[0] for row in got], [row[0] for row in expected])
            for wanted, row in zip(expected, got):
                self.assertEqual(len(wanted), len(row), row[0])
                for name, cell, own in zip(expected[0], wanted, row):
                    self.assertTrue(same_cell(name, cell, own), "%s, %s: %r instead of %r" % (row[0], name, own, cell))

    # The Python tool's cases.

    def test_statistics_give_the_files_of_the_python_tool(self):
        case = os.path.join(REPOSITORY, "tests/data/accuracy/run_ut_statistics")
        self.call("-f", "pytorch", "run_ut", "-api_info", case + "/dump.json", "-o", "out", "-q")
        self.compare("out", case + "/result.csv", case + "/details.csv")
        if IS_TORCH_1:  # to the byte, where the exceptions are the same
            for kind in ("result", "details"):
                (own,) = glob.glob(self.path("out/accuracy_checking_%s_*.csv" % kind))
                with open(own, "rb") as ours, open("%s/%s.csv" % (case, kind), "rb") as theirs:
                    self.assertEqual(ours.read(), theirs.read())

    def test_real_data_give_the_files_of_the_python_tool(self):
        case = os.path.join(GOLDEN, "accuracy_checker/run_ut_real_data")
        if not os.path.isdir(case):
            self.skipTest("the recorded case is not here: MSPROBE_GOLDEN leads to none")
        expected = [case + "/expected/accuracy_checking_%s.csv" % kind for kind in ("result", "details")]
        for number, command in enumerate((("run_ut",), ("multi_run_ut", "-n", "3"))):
            output = "out%d" % number
            self.call(*command, "-api_info", case + "/dump.json", "-o", output, "-q")
            self.compare(output, *expected)
        newer = os.path.join(GOLDEN, "msprobe26/acc_check/run_ut_real_data/expected/accuracy_checking_%s.csv")
        self.call("acc_check", "-api_info", case + "/dump.json", "-o", "new", "-q")
        self.compare("new", newer % "result", newer % "details")

    # What operators do to a worker.

    def test_what_an_operator_does_to_its_worker_costs_its_row(self):
        data = {"%s.%d.forward" % (name, i): forward(tensor()) for i, name in enumerate(
            ["Torch.exp", "Custom.my_leave", "Torch.neg", "Custom.my_hang", "Custom.my_abort", "Custom.loud", "Torch.abs"])}
        words = ("--reference", self.path("refs.py"), "--time-limit", "1")
        found = self.check(data, *words)
        self.assertEqual([found[name][0] for name in found], ["pass", "SKIP", "pass", "SKIP", "SKIP", "pass", "pass"])
        self.assertIn("ended", found["Custom.my_leave.1"][2])
        self.assertIn("no answer within", found["Custom.my_hang.3"][2])
        self.assertIn("signal 6", found["Custom.my_abort.4"][2])
        self.assertEqual(found, self.check(data, *words, "-n", "3", output="multi", command="multi_run_ut"))

    def test_a_custom_operator_has_a_reference_and_a_device(self):
        found = self.check({"Custom.my_twice.0.forward": forward(tensor())}, "--reference", self.path("refs.py"))
        self.assertEqual(found["Custom.my_twice.0"][0], "error")
        self.assertIn("no dict named operators", self.call("run_ut", self.dump({"Torch.abs.0.forward": forward(tensor())}),
                                                           "--reference", self.path("bad.py", "x = 1"), code=3))

    def test_a_python_without_the_framework_is_named(self):
        path = self.dump({"Torch.abs.0.forward": forward(tensor())})
        said = self.call("run_ut", path, "-o", "none", "--python", self.path("nothing"), code=3)
        self.assertIn("cannot start", said)
        empty = self.path("python", "#!/bin/sh\nexec %s -c \"import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
                          "sys.path.insert(0, sys.argv[0].rsplit('/', 1)[0]); runpy.run_path(sys.argv[0], run_name='__main__')\" \"$@\"\n"
                          % sys.executable)
        os.chmod(empty, 0o755)
        said = self.call("run_ut", path, "-o", "none", "--python", empty, code=3)
        self.assertIn("torch", said)
        self.assertIn("Python %d.%d" % sys.version_info[:2], said)
        self.assertFalse(os.path.exists(self.path("none")))

    # Interrupted runs.

    def test_a_killed_run_goes_on(self):
        data = {"Torch.exp.%d.forward" % i: forward(tensor()) for i in range(6)}
        data["Custom.my_hang.6.forward"] = forward(tensor())
        data["Torch.exp.7.forward"] = forward(tensor())
        path = self.dump(data)
        running = subprocess.Popen([MSPROBE, "run_ut", path, "-o", "out", "-q", "--reference", self.path("refs.py"), "--python",
                                    sys.executable], cwd=self.folder)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            files = glob.glob(self.path("out/accuracy_checking_result_*.csv"))
            if files and len(rows(files[0])) == 7:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
        (result,) = glob.glob(self.path("out/accuracy_checking_result_*.csv"))
        details = result.replace("_result_", "_details_")
        with open(result, "a", encoding="utf-8") as file:
            file.write('Torch.exp.9,SKIP,SKIP,"half a ro')
        with open(details, "a", encoding="utf-8") as file:
            file.write("Custom.my_hang.6.forward.output.0" + ", " * 21 + ",SKIP,made before the kill\r\nhalf")
        self.call("run_ut", path, "-csv_path", result, "-q", "--reference", self.path("refs.py"), "--time-limit", "0.5")
        names = [row[0] for row in rows(result)[1:]]
        self.assertEqual(names, ["Torch.exp.%d" % i for i in range(6)] + ["Custom.my_hang.6", "Torch.exp.7"])
        self.assertEqual([row[0] for row in rows(details)[1:]], [name + ".forward.output.0" for name in names])
        self.assertNotIn("made before the kill", [row[-1] for row in rows(details)])
        self.assertIn("do not modify", self.call("run_ut", path, "-csv_path", self.path("x.csv", "a"), code=2))
        self.assertEqual(sorted(os.listdir(self.folder)), ["dump.json", "out", "refs.py", "x.csv"])  # nothing beside the dump

    # What is drawn.

    def test_inputs_of_a_seeded_operator_do_not_depend_on_the_others(self):
        data = {"Torch.exp.%d.forward" % i: forward(tensor(shape=(50,))) for i in range(3)}
        alone = {"Torch.exp.2.forward": data["Torch.exp.2.forward"]}

        def cosine(calls, output, *words):
            self.check(calls, *words, output=output)
            return [row for row in self.results(output, "details") if row[0].startswith("Torch.exp.2")]
        self.assertNotEqual(cosine(data, "a"), cosine(alone, "b"))
        self.assertEqual(cosine(data, "c", "--seed-per-operator"), cosine(alone, "d", "--seed-per-operator"))

    def test_results_do_not_depend_on_the_number_of_workers(self):
        data = {"Torch.exp.%d.forward" % i: forward(tensor(shape=(30 + i,), dtype="torch.float16" if i % 2 else "torch.float32"))
                for i in range(12)}
        for number in (1, 2, 4):
            self.check(data, "-n", number, output="out%d" % number, command="multi_run_ut")
        for kind in ("result", "details"):
            self.assertEqual(self.results("out1", kind), self.results("out2", kind))
            self.assertEqual(self.results("out1", kind), self.results("out4", kind))

    # Lists, filters, configurations.

    def test_lists_and_filters(self):
        data = {"Torch.exp.0.forward": forward(tensor()), "Torch.exp.1.forward": forward(tensor()),
                "Torch.exp.2.forward": forward(dict(tensor(), Mean=0.8)), "Torch.abs.0.forward": forward(tensor())}
        config = self.path("config.json", json.dumps({"task": "run_ut", "run_ut": {"white_list": ["exp"]}}))
        found = self.check(data, "-config", config)
        self.assertEqual(found["Torch.abs.0"][2], "API abs in black list or not in white list. SKIP.")
        self.assertEqual(list(self.check(data, "-f", output="f")), ["Torch.exp.0", "Torch.exp.2", "Torch.abs.0"])
        self.assertEqual(list(self.check(data, "-f", "--strict", output="s")), ["Torch.exp.0", "Torch.abs.0"])
        self.path("config.json", json.dumps({"run_ut": {"black_list": ["no_such"]}}))
        self.assertIn("Invalid api in black_list: [no_such]", self.call("run_ut", self.dump(data), "-config", config, code=2))
        self.path("config.json", json.dumps({"run_ut": {"blacklist": []}}))
        self.assertIn("black_list", self.call("run_ut", self.dump(data), "-config", config, code=2))
        self.path("precision.yaml", "precision: 3\n")
        self.check({"Torch.exp.0.forward": forward(tensor())}, "-config", self.path("precision.yaml"), output="p")
        self.assertEqual(self.results("p", "details")[1][4], "1.000")

    def test_quantised_operators_may_differ_by_one(self):
        refs = self.path("quant.py", "operators = {'round': {'reference': lambda x: x.int(), 'device': lambda x: x.int() + 1}}")
        data = {"Torch.round.0.forward": forward(tensor())}
        words = ("--reference", refs, "-config", self.path("quant.yaml", "quantization_api_list: [round]\n"))
        self.assertEqual(self.check(data, "--reference", refs, command="acc_check", output="a")["Torch.round.0"][0], "error")
        self.assertEqual(self.check(data, *words, command="acc_check", output="b")["Torch.round.0"][0], "pass")
        self.assertIn("Max abs error is 1.00", self.results("b", "details")[1][-1])

    def test_error_data(self):
        data = {"Custom.my_twice.0.forward": forward(tensor(), scale=tensor(shape=(2,)))}
        self.check({"Custom.my_twice.0.forward": forward(tensor())}, "--reference", self.path("refs.py"), "-save_error_data")
        (folder,) = glob.glob(self.path("ut_error_data*"))
        names = sorted(os.listdir(folder))
        self.assertEqual(names, ["Custom.my_twice.0.forward.input.0.pt", "Custom.my_twice.0.forward.output.bench.0.pt",
                                 "Custom.my_twice.0.forward.output.device.0.pt"])
        bench, device = (torch.load(os.path.join(folder, name)) for name in names[1:])
        self.assertTrue(torch.allclose(device.double() * 0.8, bench))
        # Keywords do not take the place of arguments.
        self.check(data, "-save_error_data", "--reference", self.path("refs2.py", "operators = {'my_twice': {'reference': "
                   "lambda x, scale: x, 'device': lambda x, scale: x + 1}}"), output="second")
        names = [os.path.basename(path) for path in glob.glob(self.path("ut_error_data*/*"))]
        self.assertIn("Custom.my_twice.0.forward.kwargs.0.pt", names)

    # Better than the Python tool.

    def test_strict_judges_more(self):
        grad = tensor(shape=(2, 2), low=1.0, high=1.0)
        data = {"Tensor.split.0.forward": dict(forward(tensor(shape=(4, 2), grad=True), {"type": "int", "value": 2}), output=[grad, grad]),
                "Tensor.split.0.backward": {"input": [grad, grad], "output": []},
                "Functional.linear.0.forward": forward(tensor(shape=(2, 4), grad=True), weight=tensor(shape=(3, 4), grad=True)),
                "Functional.linear.0.backward": {"input": [tensor(shape=(2, 3))], "output": []},
                "Torch.add.0.forward": forward(tensor("torch.int16", (4,), 1, 3), {"type": "int", "value": 1}),
                "VF.lstm.0.forward": forward(tensor()),
                "Tensor.masked_fill.0.forward": forward(tensor(), tensor("torch.bool", (8,), True, True),
                                                        {"type": "float", "value": float("-inf")})}
        loose = self.check(data)
        self.assertEqual(loose["Tensor.split.0"][1:], ["SKIP", "Multiple backward is not supported."])
        self.assertEqual([loose[name][0] for name in ("Torch.add.0", "VF.lstm.0", "Tensor.masked_fill.0")], ["error", "pass", "error"])
        strict = self.check(data, "--strict", output="strict")
        self.assertEqual([strict[name][0] for name in ("Torch.add.0", "VF.lstm.0", "Tensor.masked_fill.0")], ["pass", "SKIP", "pass"])
        self.assertEqual(strict["Tensor.split.0"][:2], ["pass", "pass"])
        gradients = [row[0] for row in self.results("strict", "details") if row[0].startswith("Functional.linear.0.backward")]
        self.assertEqual(len(gradients), 2)  # of the argument and of the keyword

    def test_equal_infinities_fail_only_the_rule_of_the_python_tool(self):
        def filled(value):
            return forward(tensor(), tensor("torch.bool", (8,), True, True), {"type": "float", "value": value})
        data = {"Tensor.masked_fill.%d.forward" % i: filled(value) for i, value in enumerate((float("-inf"), float("inf"), float("nan")))}
        data["Torch.exp.0.forward"] = forward(tensor())
        said = self.call("run_ut", self.dump(data), "-o", "out", "--fail-on", "warning", "--junit", "cases.xml")
        self.assertIn("ACCURATE: 4 operators agree with the CPU; 3 fail only the Python tool's rule", said)
        self.assertEqual([row[1] for row in self.results("out")[1:]], ["error"] * 3 + ["pass"])  # its tables stay
        with open(self.path("cases.xml")) as file:
            self.assertNotIn("<failure", file.read())
        refs = self.path("wrong.py", "operators = {'exp': {'reference': lambda x: x.exp(), 'device': lambda x: x.exp() + 1}}")
        said = self.call("run_ut", self.dump(data), "-o", "wrong", "--reference", refs, "--fail-on", "error", code=1)
        self.assertIn("INACCURATE: 1 of 4 operators differ from the CPU; 3 fail only", said)

    def test_bad_records_cost_their_rows(self):
        huge = tensor(shape=(10**9, 10**9))
        deep = 0
        for _ in range(15):
            deep = [deep]
        data = {"Torch.abs.0.forward": forward(tensor()), "Torch.abs.1.forward": forward(huge), "Torch.abs.2.forward": {"no": "args"},
                "Torch.abs.3.forward": forward(deep), "Torch.abs.4.forward": [1], "Torch.abs.5.forward": forward(tensor("torch.strange")),
                "Torch.add.0.forward": forward(tensor(shape=(3,)), tensor(shape=(4,))), "Torch.abs.6.forward": forward(tensor())}
        found = self.check(data)
        self.assertEqual([found["Torch.abs.%d" % i][0] for i in range(7)], ["pass"] + 5 * ["SKIP"] + ["pass"])
        self.assertIn("size of tensor a (3) must match", found["Torch.add.0"][2])
        found = self.check({"Torch.abs.0.forward": forward(dict(tensor(), data_name="missing.pt")),
                            "Torch.abs.1.forward": forward(dict(tensor(), data_name="../../etc/passwd"))}, output="real",
                           dump_data_dir="x")
        self.assertIn("missing.pt", found["Torch.abs.0"][2])
        self.assertEqual(found["Torch.abs.1"][0], "SKIP")

    def test_a_dump_that_ends_early_is_checked_as_far_as_it_goes(self):
        path = self.dump({"Torch.abs.%d.forward" % i: forward(tensor()) for i in range(3)})
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.path("dump.json", text[:-200])
        said = self.call("run_ut", path, "-o", "out", code=3)
        self.assertIn("ends early", said)
        self.assertEqual(len(self.results("out")), 3)
        self.assertIn("no data found", self.call("run_ut", self.path("x.json", "{}"), "-o", "none", code=3))
        self.assertIn("needs DUMP", self.call("run_ut", code=2))

    def test_the_answer_has_totals_a_list_and_an_exit_code(self):
        data = {"Custom.my_twice.0.forward": forward(tensor()), "Torch.abs.0.forward": forward(tensor()),
                "Torch.no_such.0.forward": forward(tensor())}
        path = self.dump(data)
        words = ("run_ut", path, "--reference", self.path("refs.py"))
        said = self.call(*words, "-o", "a", "--fail-on", "error", code=1)
        for text in ("INACCURATE: 1 of 2 operators differ", "Operators that differ most", "3: 1 pass, 1 error, 1 SKIP"):
            self.assertIn(text, said)
        self.call("run_ut", self.dump({"Torch.no_such.0.forward": forward(tensor())}), "-o", "b", "-q", "--fail-on", "error", code=1)
        path = self.dump({"Torch.abs.0.forward": forward(tensor())})
        self.call("run_ut", path, "-o", "c", "-q", "--fail-on", "skip")
        self.call("run_ut", path, "-o", "e", "-q", "--lang", "en")
        self.assertEqual(self.results("e", "details")[0][4], "Cosine")
        self.assertEqual(json.loads(self.call("run_ut", path, "-o", "j", "--json"))["exit_code"], 0)

    # References of fused operators, against plain loops or PyTorch's own.

    def test_formulas(self):
        sys.path.insert(0, os.path.join(REPOSITORY, "tools/python/msprobe/_accuracy"))
        self.addCleanup(sys.path.pop, 0)
        import npu_formulas
        torch.manual_seed(3)
        x = torch.randn(2, 4, 8, dtype=torch.float64)
        self.assertTrue(torch.allclose(npu_formulas.npu_fast_gelu(x), x * torch.sigmoid(1.702 * x)))
        norm, scale = npu_formulas.npu_rms_norm(x, torch.full((8,), 2.0, dtype=torch.float64))
        self.assertTrue(torch.allclose(norm.pow(2).mean(-1), torch.full((2, 4), 4.0, dtype=torch.float64), atol=1e-4))
        self.assertEqual(scale.shape, (2, 4, 1))
        swiglu = npu_formulas.npu_swiglu(x)
        self.assertTrue(torch.allclose(swiglu, x[..., :4] * torch.sigmoid(x[..., :4]) * x[..., 4:]))
        cosine, sine = torch.cos(x), torch.sin(x)
        rotated = torch.cat((-x[..., 4:], x[..., :4]), -1)
        self.assertTrue(torch.allclose(npu_formulas.npu_rotary_mul(x, cosine, sine), cosine * x + sine * rotated))

        q, k, v = (torch.randn(2, heads, 5, 3, dtype=torch.float64) for heads in (4, 2, 2))  # batch, heads, length, width

        def by_loops(sees):
            out = torch.zeros_like(q)
            for b in range(2):
                for n in range(4):
                    for i in range(5):
                        seen = [j for j in range(5) if sees(i, j)]
                        weights = torch.softmax(torch.stack([0.5 * (q[b, n, i] @ k[b, n // 2, j]) for j in seen]), 0)
                        out[b, n, i] = sum(w * v[b, n // 2, j] for w, j in zip(weights, seen))
            return out
        mask = torch.tensor([[j > i + 1 for j in range(5)] for i in range(5)])
        cases = [({}, lambda i, j: True), ({"atten_mask": mask}, lambda i, j: j <= i + 1),
                 ({"sparse_mode": 2}, lambda i, j: j <= i), ({"sparse_mode": 4, "pre_tockens": 2, "next_tockens": 0}, lambda i, j: i - 2 <= j <= i)]
        orders = {"BNSD": lambda t: t, "BSND": lambda t: t.permute(0, 2, 1, 3), "BSH": lambda t: t.permute(0, 2, 1, 3).flatten(2),
                  "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2)}
        for more, sees in cases:
            expected = by_loops(sees)
            for layout, order in orders.items():
                got = npu_formulas.npu_fusion_attention(order(q), order(k), order(v), 4, layout, scale=0.5, **more)[0]
                self.assertTrue(torch.allclose(got, order(expected)), (layout, more))

    # MindSpore: with recorded outputs nothing but PyTorch is needed.

    def mindspore_dump(self, change=0.0):
        os.makedirs(self.path("dump_tensor_data"), exist_ok=True)
        x = torch.linspace(-1, 1, 12).reshape(3, 4)
        y = torch.linspace(0.5, 2, 20).reshape(4, 5)

        def saved(name, value):
            value = value.detach().contiguous()
            numpy.save(self.path("dump_tensor_data/%s.npy" % name), value.numpy())
            return {"type": "mindspore.Tensor", "dtype": str(value.dtype)[6:].capitalize(), "shape": list(value.shape), "Max": 1.0,
                    "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "data_name": name + ".npy"}

        def record(name, args, outputs):
            return {"input_args": [saved("%s.input.%d" % (name, i), a) for i, a in enumerate(args)], "input_kwargs": {},
                    "output": [saved("%s.output.%d" % (name, i), o) for i, o in enumerate(outputs)]}
        ones = torch.ones(3, 5)
        data = {"Mint.matmul.0.forward": record("Mint.matmul.0.forward", [x, y], [x @ y]),
                "Mint.matmul.0.backward": {"input": [saved("g", ones)], "output": [saved("gx", ones @ y.T), saved("gy", x.T @ ones + change)]},
                "MintFunctional.relu.0.forward": record("MintFunctional.relu.0.forward", [x], [torch.relu(x) + change]),
                "Mint.topk.0.forward": dict(record("Mint.topk.0.forward", [x], torch.topk(x, 2)), input_args=[
                    saved("k", x), {"type": "int", "value": 2}]),
                "Functional.add.0.forward": record("Functional.add.0.forward", [x, x], [x + x]),
                "Mint.exp.0.forward": record("Mint.exp.0.forward", [x], [torch.exp(x)[:2]])}
        return self.dump(data, task="tensor", framework="mindspore", dump_data_dir="dump_tensor_data")

    def test_recorded_operators_of_mindspore(self):
        if numpy is None:
            self.skipTest("NumPy is not here")
        self.call("-f", "mindspore", "run_ut", "-api_info", self.mindspore_dump(), "-o", "good", "-q")
        good = {row[0]: row[1:] for row in self.results("good")[1:]}
        self.assertEqual({name: row[:2] for name, row in good.items()},
                         {"Mint.matmul.0": ["pass", "pass"], "MintFunctional.relu.0": ["pass", " "], "Mint.topk.0": ["pass", " "],
                          "Mint.exp.0": ["error", " "]})
        self.assertEqual(good["Mint.exp.0"][2], "two inputs are not valid for computing cosine similarity, skip comparing "
                         "two inputs are not valid for computing max absolute difference, skip comparing ")
        details = self.results("good", "details")
        self.assertEqual(details[0], ["API Name", "Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr", "Status",
                                      "Message"])
        self.assertEqual([row[0] for row in details[1:4]], ["Mint.matmul.0.forward.output.0", "Mint.matmul.0.backward.output.0",
                                                            "Mint.matmul.0.backward.output.1"])
        self.assertEqual([row[1:4] for row in details if row[0] == "Mint.topk.0.forward.output.1"], [["Int64", "Int64", "(3, 2)"]])
        self.call("multi_acc_check", self.mindspore_dump(change=0.01), "-o", "bad", "-q", "-save_error_data", "--fail-on", "error", code=1)
        bad = {row[0]: row[1:] for row in self.results("bad")[1:]}
        self.assertEqual([bad[name][:2] for name in ("Mint.matmul.0", "MintFunctional.relu.0")], [["pass", "error"], ["error", " "]])
        self.assertEqual(bad["MintFunctional.relu.0"][2], "max absolute difference is greater than threshold: 0.001 ")
        self.assertTrue(os.path.exists(self.path("bad/error_data/MintFunctional.relu.0.forward.output.bench.0.pt")))

    def test_operators_of_mindspore_need_it_where_nothing_is_recorded(self):
        if importlib.util.find_spec("mindspore") is not None:
            self.skipTest("MindSpore is installed: what is said without it cannot be seen")
        path = self.dump({"Mint.exp.0.forward": forward(tensor())}, framework="mindspore")
        self.assertIn("No module named 'mindspore'", self.call("run_ut", path, "-o", "none", code=3))

    def test_overflows(self):
        data = {"Torch.exp.0.forward": forward(tensor(low=1000.0, high=1000.0)), "Torch.abs.0.forward": forward(tensor()),
                "NPU.npu_mish.0.forward": forward(tensor())}
        said = self.call("-f", "pytorch", "run_overflow_check", "-api_info", self.dump(data))
        self.assertIn("The Torch.exp.0 overflow is a normal overflow.", said)
        self.assertIn("NORMAL: 2 operators", said)
        refs = self.path("over.py", "operators = {'exp': {'reference': lambda x: x, 'device': lambda x: x / 0}}")
        said = self.call("run_overflow_check", self.dump(data), "--reference", refs, "--fail-on", "abnormal", code=1)
        self.assertIn("The Torch.exp.0 overflow is an abnormal overflow.", said)


if __name__ == "__main__":
    unittest.main()
