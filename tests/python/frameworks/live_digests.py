"""What tests of live digests share: ranks of a script that write the digests of what they hold, and how a pair of them is judged."""
import json
import os
import socket
import subprocess
import sys

import harness

HERE = os.path.dirname(os.path.abspath(__file__))


class DigestCase(harness.FrameworkCase):
    quick = False
    environment = {}

    def ranks(self, script, *arguments, ranks=2):
        """Runs a script in so many processes."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        run = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks), "--master_addr", "127.0.0.1",
             "--master_port", str(port), script, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
            env=dict(os.environ, PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", **self.environment,
                     PYTHONPATH=os.pathsep.join([HERE, os.path.dirname(script), os.environ.get("PYTHONPATH", "")])))
        self.assertEqual(run.returncode, 0, run.stdout.decode()[-4000:])

    def compare(self, trainer, engine, *flags, code=0):
        """{name: row} of the table of details"""
        folder = self.folder()
        self.msprobe("ckpt_compare", trainer, engine, "-o", os.path.join(folder, "r.json"), "--format", "json", "-q",
                     *flags, exit=code)
        with open(os.path.join(folder, "r_details.json"), encoding="utf-8") as file:
            return json.load(file)

    def assert_equal(self, trainer, engine):
        found = self.compare(trainer, engine)
        different = {row["name"]: row["outcome"] for row in found["parameters"] if row["outcome"] != "identical"}
        self.assertEqual((different, found["only_in_1"], found["only_in_2"]), ({}, [], []))
        return [row["name"] for row in found["parameters"]]

    def assert_names(self, trainer, engine, expected, *flags):
        """expected: {name: cause} of all that are not identical"""
        found = self.compare(trainer, engine, *flags)
        self.assertEqual({row["name"]: row["cause"] for row in found["parameters"] if row["outcome"] != "identical"}, expected)
        return {row["name"]: row for row in found["parameters"]}

    def assert_engines(self, of):
        """of: {name: folder} of a script that ends with synced_engines.write: one engine is equal, of the others the mistake is named."""
        names = self.assert_equal(of["engine"], of["trainer"])
        self.assertGreater(len(names), 20)
        stale = {name: "stale" for name in names if name.startswith("blocks.1.")}
        self.assert_names(of["stale"], of["trainer"], stale, "--also", of["before"])
        found = self.compare(of["shard"], of["trainer"])
        (row,) = [row for row in found["parameters"] if row["outcome"] != "identical"]
        name, other = "blocks.0.attn.c_attn.weight", "blocks.1.attn.c_attn.weight"
        self.assertEqual((row["name"], row["rows"]), (name, "24-47"))
        self.assert_names(of["swapped"], of["trainer"], {name: "swapped_with:" + other, other: "swapped_with:" + name})
        self.assert_names(of["scale"], of["trainer"], {name: ""})
        self.compare(of["engine"], of["lost"], code=3)
