"""Event files of ours, read by TensorBoard."""
import glob
import math
import os
import struct
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "torch")]
import harness  # noqa: E402
from monitor_case import MonitorCase  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

STEPS = 4
TRAINING = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
monitor = TrainerMon("config.json")
monitor.set_monitor(model, optimizer)
for step in range(%d):
    x = torch.randn(4, 4) * (float("inf") if step == 3 else 1e30 ** step)
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
monitor.close()
""" % STEPS
CONFIGURATION = {"targets": {}, "xy_distribution": True, "wg_distribution": True, "mv_distribution": True,
                 "param_distribution": True, "ops": ["norm", "min", "max", "mean", "nans"]}


def scalars(folder):
    """{tag: {step: value}} of all event files below a folder, as TensorBoard reads them."""
    found = {}
    for path in glob.glob(os.path.join(folder, "**", "events.out.tfevents.*"), recursive=True):
        events = EventAccumulator(path, size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            values = found.setdefault(tag, {})
            for scalar in events.Scalars(tag):
                values[scalar.step] = scalar.value
    return found


def as_float32(text):
    value = float(text)
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


class EventFiles(harness.FrameworkCase, MonitorCase):
    framework = "tensorboard"

    def test_what_the_monitor_writes(self):
        with self.checking("works", "event files of the monitor"):
            expected = values_of(self.run_code(TRAINING, dict(CONFIGURATION, format="csv")))
            written = self.run_code(TRAINING, dict(CONFIGURATION, format="tensorboard"))
            self.assert_equal(scalars(written.folder), expected, "{stage}:{name}{micro}/rank0/{short}_{statistic}", ":%s")

    def test_what_csv2tb_writes(self):
        with self.checking("works", "event files of monitor csv2tb"):
            written = self.run_code(TRAINING, dict(CONFIGURATION, format="csv"))
            out = written.path("events")
            self.msprobe("monitor", "csv2tb", written.path(), "-o", out)
            expected = values_of(written, also_empty=True)
            tables = sorted(os.listdir(os.path.join(out, "rank0")))
            self.assertEqual(tables, sorted({key[0] for key in expected}))
            for table in tables:
                self.assert_equal(scalars(os.path.join(out, "rank0", table)),
                                  {key: value for key, value in expected.items() if key[0] == table},
                                  "vp{stage}:{name}{micro}/{statistic}", ":micro%s")

    def assert_equal(self, found, expected, form, micro_step):
        """Every value of the tables stands under its tag, and no other does."""
        self.assertGreater(len(expected), 20)
        wanted = {}
        for (table, (stage, name, micro), statistic, step), value in expected.items():
            tag = form.format(stage=stage, name=name, micro=micro_step % micro if micro is not None else "",
                              statistic=statistic, short=SHORT.get(table, table))
            wanted.setdefault(tag, {})[step] = value
        self.assertEqual({tag: sorted(values) for tag, values in found.items()},
                         {tag: sorted(values) for tag, values in wanted.items()})
        for tag, values in wanted.items():
            for step, value in values.items():
                actual = found[tag][step]
                self.assertTrue(actual == value or math.isnan(actual) and math.isnan(value)
                                or abs(actual - value) <= 2e-6 * max(abs(value), 1), (tag, step, actual, value))


SHORT = {"grad_unreduced": "acc_grad", "grad_reduced": "post_grad"}


def values_of(written, also_empty=False):
    """{(table, (stage, name, micro step), statistic, step): value} of all tables: six digits after the point, as float32. Rows of what had no
    tensor have no shape; csv2tb writes them too."""
    found = {}
    for name in written.tables():
        table = name.rpartition("_")[0]
        for row in written.rows(name):
            if row["shape"] == "nan" and not also_empty:
                continue
            label = (row["vpp_stage"], row["name"], row.get("micro_step"))
            for statistic in CONFIGURATION["ops"]:
                found[(table, label, statistic, int(row["step"]))] = as_float32(row[statistic])
    return found


if __name__ == "__main__":
    unittest.main(verbosity=2)
