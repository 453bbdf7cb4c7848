"""Capture of a service, as vLLM's and SGLang's model runners would do it: continuous batching, one debugger from a path, switched while
it runs, within a budget of time and bytes."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serving_runner import BATCHES  # noqa: E402
from shim_case import HERE, ForkedCase, ShimCase  # noqa: E402

PROLOGUE = """
import json, os, sys
sys.path.insert(0, %r)
import torch
torch.set_num_threads(1)
from serving_runner import ARRIVING, Runner, serve
expected = serve(Runner(None), ARRIVING)
from msprobe import _live_config
from msprobe.pytorch import PrecisionDebugger
_live_config._SECONDS_BETWEEN_LOOKS = 0
debugger = PrecisionDebugger("config.json")
runner = Runner(debugger)
originals = torch.nn.Module.__call__, torch.nn.functional.linear

def configure(**keys):
    with open("config.json") as file:
        configuration = json.load(file)
    configuration.update(keys)
    with open("new.json", "w") as file:
        json.dump(configuration, file)
    os.rename("new.json", "config.json")

def is_away():
    return (torch.nn.Module.__call__, torch.nn.functional.linear) == originals
""" % HERE

SERVE = """
assert serve(runner, ARRIVING) == expected
"""


class Case(ForkedCase):
    def serve(self, code=SERVE, **keys):
        return self.run_code(code, prologue=PROLOGUE, **keys)

    def steps(self, dump):
        return sorted(int(name[4:]) for name in dump.steps())


class Requests(Case):
    def test_answers_are_the_same_and_every_forward_is_a_step(self):
        for level in ("L0", "L1", "mix"):
            dump = self.serve(level=level)
            self.assertEqual(self.steps(dump), list(range(len(BATCHES))))
            for step, batch in enumerate(BATCHES):
                rows, end = [], 0
                for name, count in batch.items():
                    rows.append({"id": name, "begin": end, "end": end + count})
                    end += count
                self.assertEqual(dump.load("manifest.json", step)["requests"], rows)

    def test_target_and_draft_stand_apart(self):
        names = self.serve(level="L0").names()
        self.assertIn("Module.0.layers.1.Block.forward.0", names)
        self.assertIn("Module.1.layers.0.Block.forward.0", names)
        self.assertNotIn("Module.1.layers.1.Block.forward.0", names)

    def test_rows_of_a_request_are_those_of_the_whole_batch(self):
        whole = self.serve(task="tensor", level="L0")
        part = self.serve(task="tensor", level="L0", section={"request_id": "c"})
        self.assertEqual(self.steps(part), [step for step, batch in enumerate(BATCHES) if "c" in batch])
        name = "Module.0.layers.1.Block.forward.0.output.0.pt"
        for step in self.steps(part):
            rows = next(rows for rows in whole.load("manifest.json", step)["requests"] if rows["id"] == "c")
            expected = whole.tensor(name, step)[rows["begin"]:rows["end"]]
            self.assertEqual(part.tensor(name, step).tolist(), expected.tolist())
            self.assertEqual(part.load("manifest.json", step)["request_id"], "c")
            weight = part.data(step)["Module.0.head.Linear.forward.0"]["parameters"]["weight"]
            self.assertEqual(weight["shape"], [32, 16], "parameters have no rows of a batch")

    def test_what_is_no_batch_is_told_and_everything_is_recorded(self):
        for batch in ('{"a": 0}', '{"a": True}', '{1: 3}', '["a"]', "None"):
            dump = self.serve("""
                runner.debugger.start(runner.target, scheduled_tokens=%s)
                with torch.inference_mode():
                    runner.target(torch.tensor([1, 2, 3]), torch.zeros(3, 16))
                debugger.stop(); debugger.step()
                """ % batch, section={"request_id": "a"})
            self.assertIn("Module.head.Linear.forward.0", dump.names(), batch)
            self.assertIn("recorded", dump.output)
            self.assertNotIn("requests", dump.load("manifest.json"))

    def test_ranks_are_those_of_the_engine(self):
        dump = self.serve("""
            for given in (-1, True, "0"):
                try:
                    debugger.start(runner.target, rank_id=given)
                    raise SystemExit("accepted %r" % (given,))
                except ValueError as error:
                    assert "rank_id" in str(error)
            runner._rank = 3
            assert serve(runner, ARRIVING) == expected
            """)
        self.assertEqual(dump.ranks(), ["rank3"])


class Switch(Case):
    def test_turns_capture_on_and_off_between_steps(self):
        dump = self.serve("""
            away = []
            def after(step):
                away.append(is_away())
                if step == 1: configure(dump_enable=True)
                if step == 3: configure(dump_enable=False)
                if step == 4: configure(dump_enable=True)
            assert serve(runner, ARRIVING, after) == expected
            assert away == [True] * 6, away
            """, dump_enable=False)
        self.assertEqual(self.steps(dump), [2, 3, 5])
        self.assertEqual(len(re.findall("capture is on", dump.output)), 2, dump.output)
        self.assertEqual(len(re.findall("capture is off", dump.output)), 1, dump.output)

    def test_takes_over_all_keys_between_steps(self):
        dump = self.serve("""
            def after(step):
                if step == 1: configure(level="L1", dump_path="./other")
                if step == 3: configure(level="mix", dump_path="./dump", task="tensor", tensor={})
            assert serve(runner, ARRIVING, after) == expected
            """, level="L0", dump_enable=True)
        self.assertEqual(self.steps(dump), [0, 1, 4, 5])
        self.assertEqual(sorted(os.listdir(os.path.join(dump.folder, "other"))), ["step2", "step3"])
        self.assertTrue(all(name.startswith("Module.") for name in dump.names(1)))
        with open(os.path.join(dump.folder, "other", "step2", "rank", "dump.json")) as file:
            self.assertFalse(any(name.startswith("Module.") for name in json.load(file)["data"]))
        self.assertIn("Module.0.head.Linear.forward.0.output.0.pt", dump.files(4))
        self.assertIn("Functional.linear.0.forward.output.0.pt", dump.files(4))
        self.assertIn("level: 'L1'", dump.output)

    def test_is_off_while_the_file_is_wrong_and_takes_the_corrected_one(self):
        dump = self.serve("""
            def after(step):
                if step == 0:
                    right = open("config.json").read()
                    open("right.json", "w").write(right)
                    open("config.json", "w").write(right[:20])
                if step == 2: os.rename("right.json", "config.json")
            assert serve(runner, ARRIVING, after) == expected
            """, dump_enable=True)
        self.assertEqual(self.steps(dump), [0, 3, 4, 5])
        self.assertEqual(len(re.findall("cannot be used", dump.output)), 1, dump.output)

    def test_without_the_key_the_file_is_read_once(self):
        dump = self.serve("""
            def after(step):
                if step == 1: configure(dump_enable=False)
            assert serve(runner, ARRIVING, after) == expected
            """)
        self.assertEqual(self.steps(dump), list(range(6)))

    def test_keeps_its_state_when_the_key_goes(self):
        dump = self.serve("""
            def after(step):
                if step == 1:
                    configuration = json.load(open("config.json"))
                    del configuration["dump_enable"]
                    open("config.json", "w").write(json.dumps(configuration))
            assert serve(runner, ARRIVING, after) == expected
            """, dump_enable=True)
        self.assertEqual(self.steps(dump), list(range(6)))

    def test_stops_a_step_that_pauses_without_ending(self):
        dump = self.serve("""
            def forward():
                debugger.start(runner.target)
                with torch.inference_mode():
                    runner.target(torch.tensor([1]), torch.zeros(1, 16))
                debugger.stop()
            forward()
            configure(dump_enable=False)
            forward()
            configure(dump_enable=True)
            forward()
            """, level="L0", dump_enable=True)
        self.assertEqual(self.steps(dump), [0])
        calls = [name for name in dump.names() if name.startswith("Module.head.")]
        self.assertEqual(len(calls), 2, calls)


class Budget(Case):
    def test_drops_what_does_not_fit_and_serves_on(self):
        dump = self.serve(task="tensor", max_overhead_ms=60000, max_bytes_per_s=3000)
        manifests = [dump.load("manifest.json", step) for step in self.steps(dump)]
        self.assertGreater(sum(manifest["dropped_files"] for manifest in manifests), 0)
        self.assertTrue(all(manifest["complete"] and manifest["lost_files"] == 0 for manifest in manifests))
        for step in self.steps(dump):  # what dump.json names is there
            named = re.findall(r'"data_name": "([^"]*)"', json.dumps(dump.data(step)))
            self.assertEqual(sorted(set(named)), dump.files(step))

    def test_counts_a_call_that_was_dropped_with_both_its_halves(self):
        dump = self.serve(level="L1", section={"summary_mode": "md5"}, max_overhead_ms=60000, max_bytes_per_s=2000)
        manifests = [dump.load("manifest.json", step) for step in self.steps(dump)]
        self.assertGreater(sum(manifest["dropped_records"] for manifest in manifests), 0)
        for step in self.steps(dump):
            for name, entry in dump.data(step).items():
                self.assertLessEqual({"input_args", "output"}, set(entry), name)

    def test_serves_on_when_the_disk_is_full(self):
        dump = self.serve("""
            import os
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            assert serve(runner, ARRIVING) == expected
            os.mkdir("served_to_the_end")  # what is printed goes into a file, which is limited, too
            """, task="tensor", max_overhead_ms=60000)
        self.assertTrue(os.path.isdir(os.path.join(dump.folder, "served_to_the_end")), dump.output)

    def test_all_is_recorded_where_there_is_enough(self):
        dump = self.serve(task="tensor", max_overhead_ms=60000, max_bytes_per_s=10 ** 12)
        plain = self.serve(task="tensor")
        self.assertEqual(self.steps(dump), self.steps(plain))
        for step in self.steps(dump):
            self.assertEqual(dump.data(step), plain.data(step))
            self.assertEqual(dump.files(step), plain.files(step))
            manifest = dump.load("manifest.json", step)
            self.assertEqual([manifest["dropped_" + what] for what in ("records", "files", "steps")], [0, 0, 0])


class Workers(ShimCase):
    def test_started_by_spawn_write_into_the_folders_of_their_ranks(self):
        dump = self.run_code("""
            import multiprocessing

            def work(rank):
                sys.path.insert(0, %r)
                from serving_runner import ARRIVING, Runner, serve
                expected = serve(Runner(None), ARRIVING)
                from msprobe.pytorch import PrecisionDebugger
                assert serve(Runner(PrecisionDebugger(config_path="config.json"), rank=rank), ARRIVING) == expected

            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                workers = [context.Process(target=work, args=(rank,)) for rank in range(2)]
                for worker in workers: worker.start()
                for worker in workers: worker.join()
                raise SystemExit(max(worker.exitcode for worker in workers))
            """ % HERE, prologue="import sys\n", max_overhead_ms=10000)
        for step in range(len(BATCHES)):
            self.assertEqual(dump.ranks(step), ["rank0", "rank1"])
            for rank in dump.ranks(step):
                self.assertTrue(dump.load("manifest.json", step, rank)["complete"])
        self.assertEqual(dump.data(2, "rank0"), dump.data(2, "rank1"))


if __name__ == "__main__":
    unittest.main()
