#!/usr/bin/env python3
"""perf_compare of one trace in all the ways that exporters write it, and what it says of traces that tell little.

usage: perf_forms_test.py MSPROBE

The right figures are those of the usual form, whose computing time is also the union of the kernels' intervals here.
"""
import csv
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MSPROBE = None
csv.field_size_limit(10**9)


def complete(category, name, start, length, process=1, thread=1, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": length, "args": arguments}


def launched(number, operator, kernel, start, at, length):
    """An operator, its launch and its kernel."""
    return [complete("cpu_op", operator, start, 20), complete("cuda_runtime", "cudaLaunchKernel", start + 5, 5, correlation=number),
            complete("kernel", kernel, at, length, 0, 7, correlation=number, stream=7, device=0),
            {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": start + 5, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": at, "cat": "ac2g", "name": "ac2g", "bp": "e"}]


def events(slower=1.0, zero=0.0):
    out, device = [complete("user_annotation", "ProfilerStep#3", zero + 500, 900)], zero + 560
    for i in range(20):
        name, kernel, length = (("aten::mm", "gemm_kernel", 60.0 * slower), ("aten::add", "add_kernel", 30.0))[i % 2]
        out += launched(i + 1, name, kernel, zero + 510 + 30 * i, device, length)
        device += length + 3
    return out


def apart(list_of_events):
    """Every complete event as its beginning and its end; at one time ends come first."""
    parts = []
    for event in list_of_events:
        if event["ph"] != "X":
            parts.append((event["ts"], 2, 0, event))
            continue
        begin = {key: value for key, value in event.items() if key != "dur"}
        end = {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"], "name": event["name"]}
        parts += [(event["ts"], 1, -event["dur"], {**begin, "ph": "B"}), (end["ts"], 0, event["dur"], end)]
    return [event for *_, event in sorted(parts, key=lambda part: part[:3])]


def trace(list_of_events):
    return json.dumps({"schemaVersion": 1, "traceEvents": list_of_events})


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(self, "enterContext") else Path(tempfile.mkdtemp())

    def write(self, name, text):
        path = self.folder / name
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text)
        return path

    def compare(self, profile, reference, *flags, out="o", expect=0):
        done = subprocess.run([MSPROBE, "perf_compare", profile, reference, "-o", out, "--force", "--json", *flags], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, expect, done.stderr)
        answer = json.loads(done.stdout) if done.stdout else {}
        summary = self.folder / out / "summary.json"
        return answer, json.loads(summary.read_text())["ranks"][0] if summary.exists() else {}, done


class Forms(Case):
    def figures(self, profile):
        answer, rank, _ = self.compare(profile, "base.json")
        return [rank[side][time] for side in ("base", "comparison") for time in ("computing_ms", "end_to_end_ms")], answer

    def test_every_form_gives_the_figures_of_the_usual_one(self):
        slow = events(1.5)
        self.write("base.json", trace(events()))
        self.write("clean.json", trace(slow))
        right, answer = self.figures("clean.json")
        kernels = [event for event in slow if event["cat"] == "kernel"]
        self.assertAlmostEqual(right[2], sum(event["dur"] for event in kernels) / 1000, 9)
        text, kernel, argument = trace(slow), '"name": "gemm_kernel"', '"correlation": 3'
        forms = {"inf": text.replace(argument, argument + ', "bandwidth": inf'), "nan": text.replace(argument, argument + ', "x": -nan'),
                 "number": text.replace(argument, argument + ', "x": 5., "y": 1.#INF'), "missing": text.replace(argument, argument + ', "x": '),
                 "comma": text.replace(argument, argument + ","), "backslash": text.replace(kernel, kernel + r', "file": "C:\work\x.py"', 1),
                 "ending backslash": text.replace(kernel, kernel + r', "file": "C:\users\"', 1),
                 "quotes": text.replace(kernel, kernel + r', "file": "operator "" _x"', 1), "one quote": text.replace(kernel, kernel + r', "file": "a" b"', 1),
                 "control": text.replace(kernel, kernel + ', "file": "a\x01b\nc"', 1), "list": json.dumps(slow), "unclosed": json.dumps(slow)[:-1],
                 "comma at the end": json.dumps(slow)[:-1] + ",\n", "apart": trace(apart(slow)), "apart in a list": json.dumps(apart(slow)),
                 "negative": trace(events(1.5, -900.0)), "packed list": gzip.compress(json.dumps(slow).encode())}
        for name, form in forms.items():
            with self.subTest(name):
                self.write("form.json", form)
                got, told = self.figures("form.json")
                self.assertEqual([round(figure, 9) for figure in got], [round(figure, 9) for figure in right])
                self.assertIn("aten::mm", told["verdict"]["text"])
                self.assertEqual([warning.replace("form.json", "clean.json") for warning in told["warnings"]], answer["warnings"])

    def test_a_damaged_event_costs_itself(self):
        self.write("base.json", trace(events()))
        for number, damage in enumerate(('"args": {"x": [1}', '"args": {"x"}', '"note": "a, "x": 1')):
            self.write("bad.json", trace(events()).replace('"name": "add_kernel"', '"name": "add_kernel", ' + damage, 1))
            answer, rank, _ = self.compare("bad.json", "base.json")
            self.assertAlmostEqual(rank["comparison"]["computing_ms"], rank["base"]["computing_ms"] - 0.03, 9)
            self.assertTrue(any("1 damaged event left out" in warning for warning in answer["warnings"]), answer["warnings"])
            _, _, done = self.compare("bad.json", "base.json", "--strict", out=f"strict{number}", expect=3)
            self.assertIn("invalid JSON", done.stderr)

    def test_halves_of_pairs_are_counted(self):
        self.write("base.json", trace(events()))
        self.write("half.json", trace(apart(events()) + [{"ph": "B", "cat": "kernel", "name": "x", "pid": 0, "tid": 7, "ts": 5000},
                                                        {"ph": "E", "pid": 5, "tid": 5, "ts": 5000}]))
        answer, rank, _ = self.compare("half.json", "base.json")
        self.assertEqual(rank["comparison"]["computing_ms"], rank["base"]["computing_ms"])
        self.assertTrue(any("2 events left out whose beginning or end is missing" in warning for warning in answer["warnings"]), answer["warnings"])

    def test_a_list_of_the_host_is_a_list_of_pytorch(self):
        for name, length in (("a.json", 10), ("b.json", 30)):
            self.write(name, json.dumps([{"name": "aten::mm", "ph": "X", "ts": 100 + 50 * i, "dur": length, "tid": 1, "pid": "CPU functions", "args": {}}
                                         for i in range(5)]))
        answer, rank, _ = self.compare("b.json", "a.json")
        self.assertEqual([rank[side]["computing_ms"] for side in ("base", "comparison")], [0.05, 0.15])
        self.assertIn("aten::mm", answer["verdict"]["text"])


def host(tanh, address):
    """Two steps below the frame of a script; profiler.step ends one step and begins the next."""
    out, at = [], 100.0

    def frame(name, start, length):
        out.append(complete("python_function", name, start, length, **{"Python id": len(out) + 1}))
    size = 20 + 1.5 * tanh
    frame("train.py(22): <module>", 50, 100 + 2 * (5 * size + 40))
    for step in (1, 2):
        frame("torch/profiler/profiler.py(1227): step", at - 12, 15)
        out.append(complete("user_annotation", f"ProfilerStep#{step}", at, 5 * size + 30))
        for i in range(5):
            start = at + 10 + i * size
            frame("nn.Module: Mlp_0", start, size - 4)
            frame("train.py(8): forward", start + 0.5, size - 5)
            frame(f"<built-in method tanh of Tensor object at {address + 16 * i:#x}>", start + 11.5, tanh + 1)
            for name, length, begin in (("aten::linear", 10, start + 1), ("aten::tanh", tanh, start + 12), ("aten::exp", tanh / 2, start + 13 + tanh)):
                out.append(complete("cpu_op", name, begin, length))
            for bytes_ in (4096, -4096):
                out.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": start + 14 - bytes_ / 4096,
                            "args": {"Total Allocated": 0, "Bytes": bytes_, "Addr": 7, "Device Id": -1, "Device Type": 0}})
        at += 5 * size + 40
    return trace(out)


class Host(Case):
    def setUp(self):
        super().setUp()
        self.write("a.json", host(4.0, 0x7F6F01))
        self.write("b.json", host(24.0, 0x5A0000))
        self.answer, self.rank, _ = self.compare("b.json", "a.json", "--format", "csv")

    def test_the_cause_is_the_operator_that_takes_longer_itself(self):
        self.assertIn("aten::tanh under nn.Module: Mlp +0.2 ms", self.answer["verdict"]["text"])
        causes = {finding["where"]: finding for finding in self.rank["findings"]}
        self.assertFalse([where for where in causes if "<module>" in where or "0x" in where], causes.keys())
        tanh = next(finding for where, finding in causes.items() if where.startswith("aten::tanh"))
        self.assertAlmostEqual(tanh["comparison"] - tanh["base"], 0.2, 9)

    def test_one_statement_is_one_warning(self):
        self.assertEqual(self.answer["warnings"], ["a.json and b.json hold no device kernels: only the host was profiled"])

    def test_memory_of_the_host_is_compared(self):
        self.assertTrue(glob.glob(str(self.folder / "o" / "*MemoryCompare*.csv")))

    def test_frames_of_python_are_the_stack_of_a_finding(self):
        sections = json.dumps(self.answer["sections"])
        self.assertIn("train.py(8): forward", sections)


class Device(Case):
    def test_what_launched_a_kernel_names_the_collective(self):
        for kernel, operator, kind in (("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "c10d::allgather_", "all_gather"),
                                       ("ncclDevKernel_Generic_4(x)", "c10d::reduce_scatter_", "reduce_scatter"),
                                       ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "symm_mem::multimem_all_reduce_", "all_reduce"),
                                       ("two_shot_all_reduce_kernel", "symm_mem::two_shot_all_reduce_", "all_reduce")):
            for name, length in (("a.json", 60), ("b.json", 100)):
                self.write(name, trace(launched(1, "aten::mm", "gemm_kernel", 100, 200, 50) + launched(2, operator, kernel, 130, 300, length)))
            for flags in ((), ("--enable_communication_compare",)):
                _, rank, _ = self.compare("b.json", "a.json", *flags)
                self.assertEqual([(c["kind"], c["base_calls"], c["comparison_calls"]) for c in rank["collectives"]], [(kind, 1, 1)], (kernel, flags))

    def test_cells_of_csv_hold_every_kernel(self):
        own = [complete("cpu_op", "aten::big", 100, 4100)]
        for i in range(400):
            own += launched(i + 1, "aten::part", f"k{i:03d}_" + "x" * 95, 110 + 10 * i, 6000 + 10 * i, 5)[1:]
        self.write("a.json", trace(own))
        self.compare("a.json", "a.json", "--format", "csv,json,xlsx")
        for name in glob.glob(str(self.folder / "o" / "*_OperatorCompare.csv")):
            with open(name, encoding="utf-8-sig", newline="") as file:
                cell = max((row["Base Kernel Details"] for row in csv.DictReader(file)), key=len)
        self.assertEqual(cell.count("duration:"), 400)

    def test_the_note_names_the_kernel_that_changed(self):
        pair = ("cudnn_infer_volta_scudnn_128x64_relu", "volta_sgemm_32x128_nn")
        for first, second, named, family in ((1000, 800, pair[1], "matmul"), (2000, 400, pair[0], "activation"), (1000, 200, pair[1], "matmul")):
            for file, lengths in (("a.json", (1000, 400)), ("b.json", (first, second))):
                own, at = [], 5000
                for k in range(10):
                    own.append(complete("cpu_op", "aten::cudnn_convolution", 100 + 100 * k, 50))
                    for j, (kernel, length) in enumerate(zip(pair, lengths)):
                        own += launched(2 * k + j + 1, "", kernel, 100 + 100 * k + 10 * j, at, length)[1:]
                        at += length + 1
                self.write(file, trace(own))
            _, rank, _ = self.compare("b.json", "a.json")
            self.assertIn(named, rank["findings"][0]["note"])
            self.assertIn(family + " kernel", rank["findings"][0]["note"])

    def test_memory_for_names_that_are_all_different_is_four_times_their_text(self):
        """Each of them makes a group, and a row of every sheet."""
        text = 0
        for file in ("a.json", "b.json"):
            own = []
            for i in range(40000):
                start = 1000 + 5 * i
                own.append(complete("cpu_op", "op_%07d_of_a_hostile_trace" % i, start, 3, **{"External id": i + 1}))
                own.append(complete("kernel", "k_%07d_kernel_of_a_hostile_trace" % i, start + 1, 2 + (i + len(file)) % 3, 0, 7, correlation=i + 1,
                                    stream=7, **{"External id": i + 1}))
            self.write(file, trace(own))
            text += (self.folder / file).stat().st_size
        command = [MSPROBE, "perf_compare", str(self.folder / "b.json"), str(self.folder / "a.json"), "-o", str(self.folder / "out"), "-q", "--threads", "1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        self.assertEqual(status, 0)
        # The program itself, buffers of readers and writers.
        self.assertLess(used.ru_maxrss * 1024, 4 * text + 12e6)


if __name__ == "__main__":
    MSPROBE = sys.argv.pop(1)
    unittest.main()
