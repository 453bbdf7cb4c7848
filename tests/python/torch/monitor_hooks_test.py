"""Hooks of the monitor: where they are, when, and that the training computes what it computes without them."""
import json
import os
import sys
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from monitor_case import ForkedMonitorCase

ALL = dict(xy_distribution=True, wg_distribution=True, mv_distribution=True, param_distribution=True, ops=["norm"])


class Steps(ForkedMonitorCase):
    def test_steps_that_are_not_selected_have_no_hooks(self):
        self.run_code("""
            model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
            optimizer = torch.optim.Adam(model.parameters())
            calls = ModuleCalls.of(nn.Module)
            node = model[0].weight.expand_as(model[0].weight).grad_fn.next_functions[0][0]
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            hooked = []
            for step in range(5):
                hooked.append(calls._slot is not None)
                out = model(torch.ones(2, 2, requires_grad=True))
                if step != 2:
                    assert out._backward_hooks is None and out.grad_fn.name().startswith("Addmm"), out.grad_fn
                out.sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            assert hooked == [False, False, True, False, False], hooked
            assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())
        """, dict(ALL, start_step=2, step_interval=100))

    def test_after_the_last_selected_step_nothing_of_ours_is_left(self):
        self.run_code("""
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            calls, kept = ModuleCalls.of(nn.Module), dict(vars(optimizer))
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            assert "step" in vars(optimizer)
            for step in range(3):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            assert "step" not in vars(optimizer) and calls._slot is None
            assert type(optimizer).step is torch.optim.SGD.step
        """, dict(ALL, collect_times=2))

    def test_only_the_optimizer_of_the_monitor_counts(self):
        written = self.run_code("""
            first, second = nn.Linear(2, 1), nn.Linear(2, 1)
            mine, other = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
            monitor = TrainerMon("config.json")
            monitor.set_monitor(first, mine)
            for step in range(3):
                second(torch.ones(1, 2)).sum().backward(); other.step()
                second(torch.ones(1, 2)).sum().backward(); other.step()
                first(torch.ones(1, 2)).sum().backward(); mine.step()
        """, ALL)
        self.assertEqual(sorted(written.tables()), sorted(
            "%s_%d-%d.csv" % (name, step, step) for step in range(3)
            for name in ("actv", "actv_grad", "grad_reduced", "grad_unreduced", "param_origin", "param_updated")))
        self.assertEqual(written.names("param_origin_2-2.csv"), ["weight", "bias"])

    def test_a_step_ends_when_every_watched_optimizer_has_stepped(self):
        written = self.run_code("""
            generator, judge = nn.Linear(2, 2), nn.Linear(2, 1)
            of_generator = torch.optim.Adam(generator.parameters())
            of_judge = torch.optim.Adam(judge.parameters())
            monitor = TrainerMon("config.json")
            monitor.set_monitor(generator, of_generator)
            monitor.set_monitor(judge, of_judge)
            for step in range(2):
                for turn in range(2):
                    judge(generator(torch.ones(1, 2)).detach()).sum().backward()
                    of_judge.step(); of_judge.zero_grad()
                judge(generator(torch.ones(1, 2))).sum().backward()
                of_generator.step(); of_generator.zero_grad()
        """, dict(param_distribution=True, ops=["norm"]))
        rows = written.rows("param_updated_1-1.csv")
        self.assertEqual(sorted((row["vpp_stage"], row["name"]) for row in rows),
                         [("0", "bias"), ("0", "weight"), ("1", "bias"), ("1", "weight")])
        self.assertNotIn("param_updated_2-2.csv", written.tables())

    def test_a_model_that_its_script_drops_is_dropped_and_the_next_one_is_measured(self):
        """Memory, and groups of processes that have to end before the program does."""
        for main, chunks, optimizers in ((True, 1, 1), (False, 1, 1), (False, 2, 2)):
            with self.subTest(main=main, chunks=chunks, optimizers=optimizers):
                written = self.run_code("""
                    import gc, weakref
                    def work(monitor, main, chunks, count):
                        model = [nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)) for _ in range(chunks)]
                        optimizers = [torch.optim.Adam(part.parameters()) for part in (model if count > 1 else [nn.ModuleList(model)])]
                        monitor.set_monitor(model if chunks > 1 else model[0], optimizers if count > 1 else optimizers[0])
                        for step in range(2):
                            sum(part(torch.ones(1, 2)).sum() for part in model).backward()
                            for optimizer in optimizers: optimizer.step()
                        return [weakref.ref(item) for part in model for item in (*part.modules(), *part.parameters(), *optimizers)]
                    main, chunks, count = (int(word) for word in sys.argv[1:])
                    monitor = TrainerMon("config.json", params_have_main_grad=bool(main))
                    for turn in range(2):
                        left = work(monitor, main, chunks, count)
                        gc.collect()
                        print("left", len(left) > 6 * chunks, sum(reference() is not None for reference in left))
                """, {"xy_distribution": True, "wg_distribution": True, "mv_distribution": True, "param_distribution": True, "ops": ["norm"]},
                                        arguments=[str(int(main)), str(chunks), str(optimizers)])
                self.assertEqual([line for line in written.said.splitlines() if line.startswith("left")], ["left True 0"] * 2, written.said)
                for step in range(4):
                    for table in ("actv", "grad_unreduced", "grad_reduced", "param_origin"):
                        self.assertTrue(written.rows("%s_%d-%d.csv" % (table, step, step)), (table, step))

    def test_an_optimizer_that_never_steps_is_left_behind(self):
        written = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in model]
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizers)
            for step in range(20):
                model(torch.ones(1, 2)).sum().backward()
                optimizers[0].step()
        """, dict(param_distribution=True))
        self.assertIn("never step", written.said)
        self.assertIn("param_updated_4-4.csv", written.tables())

    def test_several_monitors_do_not_disturb_each_other(self):
        folder = self.folder()
        with open(os.path.join(folder, "other.json"), "w", encoding="utf-8") as file:
            json.dump(dict(xy_distribution=True, ops=["max"], step_interval=2), file)
        written = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            before = nn.Module.__call__
            for name in ("config.json", "other.json"):
                TrainerMon(name).set_monitor(model, optimizer)
            for step in range(3):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        """, ALL, folder=folder)
        found = {path: sorted(os.listdir(path)) for path in written.ranks()}
        self.assertEqual(sorted(len([name for name in names if name.startswith("actv_") and "grad" not in name])
                                for names in found.values()), [2, 3])

    def test_a_learning_rate_schedule_and_a_closure_work(self):
        written = self.run_code("""
            import warnings
            warnings.simplefilter("error")
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            monitor = TrainerMon("config.json")
            early = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            monitor.set_monitor(model, optimizer)
            late = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            def closure():
                optimizer.zero_grad()
                loss = model(torch.ones(1, 2)).sum()
                loss.backward()
                return loss
            for step in range(2):
                optimizer.step(closure)
                early.step(); late.step()
            assert abs(optimizer.param_groups[0]["lr"] - 1e-4) < 1e-9, optimizer.param_groups[0]["lr"]
        """, dict(wg_distribution=True))
        self.assertEqual(written.names("grad_reduced_0-0.csv"), ["weight", "bias"])
        self.assertEqual(written.names("grad_reduced_1-1.csv"), ["weight", "bias"])


class Numbers(ForkedMonitorCase):
    """The same training with and without a monitor ends with the same bits."""

    def expect_same(self, model, forward="loss = model(x).pow(2).mean()", steps=4, **keys):
        code = """
            import hashlib
            %s
            torch.manual_seed(3)
            model = Model()
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.1)
            if len(sys.argv) > 1:
                monitor = TrainerMon("config.json")
                monitor.set_monitor(model, optimizer, grad_acc_steps=2)
            generator = torch.Generator().manual_seed(5)
            for step in range(%d):
                for turn in range(2):
                    x = torch.randn(4, 3, 6, 6, generator=generator)
                    %s
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            digest = hashlib.sha256()
            for parameter in model.parameters(): digest.update(parameter.detach().numpy().tobytes())
            print(digest.hexdigest())
        """
        code = "\n".join(line[12:] if line.startswith(" " * 12) else line for line in code.splitlines())
        code = code % (model, steps, forward)
        plain = self.run_code(code, dict(ALL, **keys))
        watched = self.run_code(code, dict(ALL, **keys), arguments=["watched"])
        self.assertEqual(watched.said.splitlines()[-1], plain.said.splitlines()[-1])
        self.assertNotIn("reported once", watched.said)
        return watched

    def test_modules_that_work_in_place(self):
        model = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.middle = nn.Conv2d(4, 4, 1)
        self.scale = Scale()
        self.back = nn.Conv2d(4, 3, 1)
    def forward(self, x):
        y = self.scale(self.middle(self.relu(self.norm(self.conv(x)))), x.mean())
        y += 1
        return self.back(y) + x
class Scale(nn.Module):
    def forward(self, x, by):
        x.mul_(2)
        return x.add_(by)
"""
        watched = self.expect_same(model)
        # What is overwritten is noticed in the first call; from then on its gradient is there.
        rows = {(row["name"], row["micro_step"]): row["norm"] for row in watched.rows("actv_grad_1-1.csv")}
        for name in ("relu.input", "relu.output", "conv.output", "scale.input_0"):
            self.assertNotEqual(rows[name, "1"], "nan", name)

    def test_what_nobody_uses_has_no_gradient_with_a_monitor_either(self):
        watched = self.expect_same("""
class Two(nn.Module):
    def forward(self, x, y): return x * 2, y * 3
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(6, 6), nn.Linear(6, 6)
        self.two = Two()
    def forward(self, x): return self.two(self.used(x), self.unused(x))[0]
""")
        rows = {row["name"]: row["norm"] for row in watched.rows("actv_grad_0-0.csv")}
        self.assertEqual(rows["two.input_1"], "nan")
        self.assertNotEqual(rows["two.input_0"], "nan")
        self.assertNotIn("unused.weight", watched.names("grad_unreduced_0-0.csv"))

    def test_parameters_that_are_frozen_or_not_made_yet_do_not_cost_others_their_rows(self):
        watched = self.run_code("""
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            monitor = TrainerMon("config.json", params_have_main_grad=False)
            monitor.set_monitor(model, optimizer)
            for step in range(5):
                model[0].weight.requires_grad_(step not in (1, 2))
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            monitor.close()
        """, dict(wg_distribution=True, ops=["norm"], step_interval=2))
        self.assertNotIn("training continues", watched.said)
        names = ["0.bias", "0.weight", "1.bias", "1.weight"]
        self.assertEqual(sorted(watched.names("grad_unreduced_0-0.csv")), names)
        self.assertEqual(sorted(watched.names("grad_unreduced_2-2.csv")), ["0.bias", "1.bias", "1.weight"])
        self.assertEqual(sorted(watched.names("grad_unreduced_4-4.csv")), names)
        watched = self.run_code("""
            model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            monitor = TrainerMon("config.json", params_have_main_grad=False)
            monitor.set_monitor(model, optimizer)
            for step in range(2):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            monitor.close()
        """, dict(wg_distribution=True, ops=["norm"]))
        self.assertNotIn("training continues", watched.said)
        later = names if hasattr(torch.Tensor, "register_post_accumulate_grad_hook") else ["1.bias", "1.weight"]
        self.assertEqual(sorted(watched.names("grad_unreduced_0-0.csv")), ["1.bias", "1.weight"])
        self.assertEqual(sorted(watched.names("grad_unreduced_1-1.csv")), later)

    def test_activation_checkpointing_in_both_forms(self):
        for reentrant in (True, False):
            with self.subTest(reentrant=reentrant):
                watched = self.expect_same("""
import torch.utils.checkpoint
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 6)
    def forward(self, x):
        h = torch.utils.checkpoint.checkpoint(self.inner, self.first(x), use_reentrant=%s)
        return self.last(h)
""" % reentrant)
                names = watched.names("actv_0-0.csv")
                self.assertEqual(names.count("inner.0.output"), 2)  # one per micro step, none of the second run
                self.assertIn("inner.0.input", watched.names("actv_grad_0-0.csv"))

    def test_keyword_arguments_dictionaries_and_views(self):
        watched = self.expect_same("""
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
    def forward(self, hidden, mask=None, **extra): return {"hidden": self.linear(hidden), "mask": mask}
class Pair(nn.Module):
    def forward(self, x): return x[:, :1], x[:, 1:]
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.pair = Inner(), Pair()
    def forward(self, x):
        a, b = self.pair(self.inner(hidden=x + 0, mask=x > 0)["hidden"])
        return a.sum() + b.mul_(2).pow(2).sum()
""", forward="loss = model(x)")
        self.assertIn("inner.input_0", watched.names("actv_0-0.csv"))
        self.assertIn("pair.output_1", watched.names("actv_grad_0-0.csv"))

    def test_a_weight_given_as_an_argument_stays_that_parameter(self):
        self.expect_same("""
class Head(nn.Module):
    def forward(self, x, weight): return x @ weight if weight.mark == "mine" else None
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.weight.mark = "mine"
        self.head = Head()
    def forward(self, x): return self.head(self.head(x, self.weight), weight=self.weight)
""")


class Faults(ForkedMonitorCase):
    def test_a_missing_optimizer_is_told_and_nothing_happens(self):
        written = self.run_code("""
            model = nn.Linear(1, 1)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, None)
            monitor.monitor_gnorm_with_ad(model)
            monitor.set_monitor("model", torch.optim.SGD(model.parameters(), lr=1.0))
            model(torch.ones(1, 1)).sum().backward()
            print("done")
        """, ALL)
        self.assertIn("needs the optimizer", written.said)
        self.assertIn("not str", written.said)
        self.assertIn("done", written.said)

    def test_a_wrong_configuration_names_key_and_remedy(self):
        run = self.run_code("TrainerMon('config.json')", {"wg_distributoin": True, "ops": "norm"}, ends_well=False)
        self.assertIn("ValueError", run.said)
        self.assertIn("ops", run.said)

    def test_errors_inside_hooks_are_told_once_and_training_goes_on(self):
        written = self.run_code("""
            model = nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            class Broken:
                wants_gradients = True
                def forward(self, *_): raise ZeroDivisionError("ours")
                def finish(self): raise KeyError("ours too")
                backward = forward
            monitor.module_observers.append(Broken())
            for step in range(5):
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
            print("trained to the end")
        """, ALL)
        self.assertEqual(written.said.count("ZeroDivisionError"), 2, written.said)  # forward and backward
        self.assertEqual(written.said.count("KeyError"), 1, written.said)
        self.assertIn("trained to the end", written.said)
        self.assertIn("actv_4-4.csv", written.tables())

    def test_an_exception_of_the_model_leaves_the_next_step_whole(self):
        written = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            for step in range(3):
                if step == 1:
                    try: model(torch.ones(1, 5))
                    except RuntimeError: pass
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        """, dict(xy_distribution=True))
        self.assertEqual(written.names("actv_1-1.csv"), written.names("actv_2-2.csv"))

    def test_modules_that_never_run_have_no_rows(self):
        written = self.run_code("""
            model = nn.ModuleDict({"used": nn.Linear(2, 1), "never": nn.Linear(2, 1)})
            optimizer = torch.optim.Adam(model.parameters())
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            for step in range(2):
                model["used"](torch.ones(1, 2)).sum().backward()
                optimizer.step()
        """, ALL)
        self.assertEqual(written.names("actv_1-1.csv"), ["used.input", "used.output"])
        self.assertEqual(written.names("grad_reduced_1-1.csv"), ["used.weight", "used.bias"])
        self.assertEqual(written.names("param_origin_1-1.csv"),
                         ["used.weight", "used.bias", "never.weight", "never.bias"])

    def test_a_forked_child_writes_nothing(self):
        written = self.run_code("""
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            def step():
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            step()
            child = os.fork()
            if child == 0:
                model(torch.ones(1, 2))
                optimizer.step()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            step()
        """, ALL)
        self.assertEqual(len(written.ranks()), 1)
        self.assertEqual(len(written.rows("actv_1-1.csv")), 2)
        self.assertNotIn("actv_2-2.csv", written.tables())


class Calls(ForkedMonitorCase):
    def test_the_interface_of_the_python_tool(self):
        written = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            optimizer = torch.optim.Adam(model.parameters())
            monitor = TrainerMon("config.json", process_group=None, params_have_main_grad=False, opt_ty=None)
            monitor.set_wrapped_optimizer(optimizer)
            monitor.monitor_gnorm_with_ad(model, grad_acc_steps=0, start_iteration=10)
            assert monitor.rank == 0 and os.path.isdir(monitor.tensorboard_dir)
            assert monitor.unique_id and monitor.tensorboard_dir.endswith(monitor.unique_id)
            assert monitor.param2name[model[0].weight] == "0:0.weight"
            assert optimizer in monitor.optimizer_context and monitor.summary_writer is not None
            seen = []
            for step in range(3):
                model(torch.ones(1, 2, requires_grad=True)).sum().backward()
                monitor.adhoc_check(torch.full((2,), 3.0), "mine", "tensor", [0], ["norm"])
                forward, backward = monitor.generate_xy_metrics()
                seen.append((len(forward), len(backward)))
                reduced, unreduced = monitor.generate_wgrad_metrics()
                assert not reduced and set(unreduced) == {"0:%s/rank0/acc_grad" % name for name in (
                    "0.weight", "0.bias", "1.weight", "1.bias")}, unreduced
                assert monitor.generate_wgrad_metrics({}) [1].keys() == unreduced.keys()
                if step == 1: monitor.ops = ["max", "norm"]
                if step == 2:
                    assert list(forward["0:0.input:0/rank0/actv"])[:2] == ["max", "norm"], forward
                    assert forward["0:0.input:0/rank0/actv"]["max"].item() == 1.0
                optimizer.step()
            assert seen[0] == (6, 6), seen
            monitor.reload_xy(xy_distribution=False)
            model(torch.ones(1, 2)).sum().backward()
            assert monitor.generate_xy_metrics() == ({}, {})
        """, ALL)
        self.assertIn("grad_acc_steps is an integer from 1 on", written.said)
        self.assertIn("actv_10-10.csv", written.tables())
        self.assertEqual(written.rows("other_10-10.csv")[0]["name"], "mine")

    def test_the_format_api_gives_numbers_and_writes_no_table(self):
        written = self.run_code("""
            model = nn.Linear(2, 1)
            optimizer = torch.optim.Adam(model.parameters())
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            for step in range(2):
                model(torch.ones(1, 2)).sum().backward()
                reduced, unreduced = monitor.generate_wgrad_metrics()
                assert unreduced["0:weight/rank0/acc_grad"]["norm"].item() == 8 ** 0.5 / (2 - step), unreduced
                optimizer.step()
        """, dict(wg_distribution=True, format="api"))
        self.assertEqual([name for path in written.ranks() for name in os.listdir(path) if name.endswith(".csv")], [])

    def test_direction_after_a_restart(self):
        written = self.run_code("""
            model = nn.Linear(2, 1)
            optimizer = torch.optim.Adam(model.parameters())
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer, start_iteration=5)
            for step in range(2):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        """, dict(mg_direction=True))
        self.assertEqual([row["norm"] for row in written.rows("other_5-5.csv")], ["1.0", "1.0"])

    def test_the_update_of_a_parameter_against_its_size(self):
        written = self.run_code("""
            model = nn.Linear(1, 1, bias=False)
            nn.init.constant_(model.weight, 4.0)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        """, dict(ur_distribution=True))
        (name,) = [name for name in written.tables() if name.startswith("update_ratio")]
        self.assertIn("0.125", list(written.rows(name)[0].values()))

    def test_dynamic_switching(self):
        written = self.run_code("""
            import json, time
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            def switch(**keys):
                time.sleep(0.05)
                json.dump(dict(dict(dynamic_on=True, wg_distribution=True), **keys), open("config.json", "w"))
            for step in range(8):
                if step == 2: switch(collect_times=2)
                if step == 6: switch(collect_times=1, xy_distribution=True)
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            assert json.load(open("config.json"))["dynamic_on"] is False
        """, dict(dynamic_on=False), environment={"DYNAMIC_MONITOR": "true"})
        self.assertEqual(sorted(name for name in written.tables() if name.startswith("grad_reduced")),
                         ["grad_reduced_%d-%d.csv" % (step, step) for step in (3, 4, 7)])
        self.assertIn("actv_7-7.csv", written.tables())


if __name__ == "__main__":
    unittest.main(verbosity=1)
