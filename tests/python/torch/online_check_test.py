"""A training that sends its calls to `msprobe run_ut -config` on another host while it runs: over TLS, plain TCP and a shared folder;
and what checkers that die, lag or speak nonsense do to it, which is nothing.
"""
import csv
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
MSPROBE = os.environ["MSPROBE"]

TRAINING = '''
import hashlib, json, os, sys
import torch
import torch.nn.functional as F
torch.set_num_threads(1)
torch.manual_seed(7)
config, steps = sys.argv[1], int(sys.argv[2])
debugger = None
if config != "none":
    from msprobe.pytorch import PrecisionDebugger
    debugger = PrecisionDebugger(config)
WRONG = len(sys.argv) > 3
weight = torch.randn(16, 8, requires_grad=True)
bias = torch.zeros(16, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.1)
for step in range(steps):
    data = torch.randn(4, 8)
    if debugger:
        debugger.start()
    hidden = F.linear(data, weight, bias)
    hidden = F.layer_norm(hidden, (16,))
    hidden = torch.nn.functional.gelu(hidden)
    first, second = torch.split(hidden, 8, dim=1)
    hidden = F.dropout(torch.cat([first, second], dim=1), 0.1)
    loss = torch.softmax(hidden, dim=-1).pow(2).sum() + torch.abs(hidden).mean()
    loss.backward()
    if debugger:
        debugger.stop()
    optimizer.step()
    optimizer.zero_grad()
    if debugger:
        debugger.step()
digest = hashlib.sha256()
for tensor in (weight, bias):
    digest.update(tensor.detach().numpy().tobytes())
print("bits", digest.hexdigest())
'''


# What passes between two ports: 20 ms late, and one piece in twenty 200 ms more, as one that was lost and sent again.
LOSSY_LINK = os.path.join(HERE, "lossy_link.py")


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificates(folder):
    """ca.crt, and keys and certificates of both sides, signed by it; False where there is no openssl."""
    if shutil.which("openssl") is None:
        return False

    def openssl(*words):
        subprocess.run(("openssl",) + words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    os.makedirs(folder)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test authority",
            "-keyout", "ca.key", "-out", "ca.crt")
    for role in ("client", "server"):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + role,
                "-keyout", role + ".key", "-out", role + ".csr")
        openssl("x509", "-req", "-in", role + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-out", role + ".crt")
    return True


class Checker:
    """A running `msprobe run_ut -config` that takes calls; `inside` is a command that runs it, as one that enters a network."""

    def __init__(self, folder, name="result", ranks=(0,), extra=(), inside=(), **keys):
        self.folder = folder
        self.output = os.path.join(folder, name)
        config = os.path.join(folder, name + ".json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"task": "run_ut", "run_ut": dict({"is_online": True, "rank_list": list(ranks)}, **keys)}, file)
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*inside, MSPROBE, "run_ut", "-config", config, "-o", self.output, "--python",
                                             sys.executable, *extra], stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        end = time.monotonic() + 120
        while "waiting for calls" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(self.text())
            time.sleep(0.05)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, code=0, seconds=120):
        status = self.process.wait(timeout=seconds)
        if status != code:
            raise AssertionError("exit status %d\n%s" % (status, self.text()))
        return self.text()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def files(self, kind, rank=0):
        return sorted(glob.glob(os.path.join(self.output, "%s_*_rank%d.csv" % (kind, rank))))

    def result(self, kind, rank=0):
        (path,) = self.files(kind, rank)
        return rows(path)[1:]


class OnlineCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="msprobe_online_")
        cls.certificates = os.path.join(cls.shared, "tls")
        cls.has_certificates = make_certificates(cls.certificates)
        cls.script = os.path.join(cls.shared, "train.py")
        with open(cls.script, "w", encoding="utf-8") as file:
            file.write(TRAINING)
        cls.bits = {steps: cls.run_training("none", steps)[0] for steps in (1, 2)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_online_")
        self.addCleanup(shutil.rmtree, self.folder)

    @classmethod
    def run_training(cls, config, steps, seconds=120, environment=None):
        """(digest of the parameters, everything that was printed, seconds)"""
        begin = time.monotonic()
        ended = subprocess.run([sys.executable, cls.script, config, str(steps)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               universal_newlines=True, timeout=seconds, check=False, cwd=os.path.dirname(config) or cls.shared,
                               env=dict(os.environ, **(environment or {})))
        if ended.returncode != 0:
            raise AssertionError(ended.stdout)
        return ended.stdout.rsplit("bits ", 1)[1].split()[0], ended.stdout, time.monotonic() - begin

    def config(self, name="training.json", **keys):
        path = os.path.join(self.folder, name)
        top = {key: keys.pop(key) for key in list(keys) if key in ("writer_memory_bytes", "step", "level")}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict({"task": "tensor", "dump_path": os.path.join(self.folder, "dump"), "rank": [], "step": [], "level": "L1",
                            "tensor": dict({"scope": [], "list": [], "online_run_ut": True}, **keys)}, **top), file)
        return path

    def checker(self, *args, **keys):
        checker = Checker(self.folder, *args, **keys)
        self.addCleanup(checker.end)
        return checker

    def train(self, config, steps=1, **more):
        """Runs the training and holds its parameters against those of one that nobody watched."""
        bits, printed, seconds = self.run_training(config, steps, **more)
        self.assertEqual(bits, self.bits[steps], printed)
        return printed, seconds

    def assert_checked(self, checker, steps):
        """Every call of the training has a row in the files of rank 0."""
        two_way = [row[0] for row in checker.result("accuracy_checking_result")]
        three_way = [row[0] for row in checker.result("api_precision_compare_result")]
        wanted = ["Functional.linear.0", "Functional.layer_norm.0", "Functional.gelu.0", "Torch.split.0", "Torch.cat.0",
                  "Functional.dropout.0", "Torch.softmax.0", "Torch.abs.0"]
        for name in wanted:
            self.assertEqual((two_way + three_way).count(name), steps, (name, two_way, three_way))
        outcomes = {row[0]: row[1] for kind in ("accuracy_checking_result", "api_precision_compare_result")
                    for row in checker.result(kind)}
        self.assertEqual(outcomes["Functional.linear.0"], "pass")
        self.assertEqual(outcomes["Torch.cat.0"], "pass")
        self.assertEqual(outcomes["Functional.dropout.0"], "SKIP")
        self.assertIn("Functional.linear.0", three_way)
        self.assertIn("Torch.abs.0", two_way)
        self.assertNotIn("error", outcomes.values(), outcomes)
        details = [row[0] for row in checker.result("api_precision_compare_details")]
        self.assertIn("Functional.linear.0.forward.output.0", details)

    def test_calls_go_through_a_shared_folder(self):
        shared = os.path.join(self.folder, "nfs")
        os.makedirs(shared)
        printed, _ = self.train(self.config(nfs_path=shared), steps=2)
        names = sorted(os.listdir(shared))
        self.assertTrue(all(name.startswith("rank0.") for name in names), names)
        self.assertIn("went to folder", printed)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "dump")), "nothing is written but what is sent")
        # The checker may come later than the training.
        checker = self.checker(nfs_path=shared)
        self.assertIn("ACCURATE", checker.wait())
        self.assert_checked(checker, 2)
        self.assertEqual(os.listdir(shared), [])

    def test_calls_go_over_a_connection(self):
        port = free_port()
        checker = self.checker(host="127.0.0.1", port=port, tls_path="", plaintext=True)
        self.assertIn("not encrypted", checker.text())
        printed, _ = self.train(self.config(host="127.0.0.1", port=port, tls_path="", plaintext=True), steps=2)
        self.assertIn("calls went to 127.0.0.1", printed)
        self.assertIn("ACCURATE", checker.wait())
        self.assert_checked(checker, 2)

    def secret(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        return path

    def test_only_a_training_that_has_the_shared_secret_is_checked(self):
        port = free_port()
        keys = {"host": "127.0.0.1", "port": port, "tls_path": "", "plaintext": True}
        checker = self.checker(secret_path=self.secret("checkers", "0123456789abcdef0"), **keys)
        printed, _ = self.train(self.config(secret_path=self.secret("others", "0123456789abcdef1"), **keys), steps=1)
        self.assertIn("the shared secret of the training is another", printed)
        printed, _ = self.train(self.config(**keys), steps=1)
        self.assertIn("this checker wants a shared secret", printed)
        os.environ["MSPROBE_ONLINE_SECRET"] = "0123456789abcdef0"
        self.addCleanup(os.environ.pop, "MSPROBE_ONLINE_SECRET")
        printed, _ = self.train(self.config(**keys), steps=2)
        self.assertIn("calls went to 127.0.0.1", printed)
        self.assertNotIn("0123456789abcdef", printed + checker.wait())
        self.assert_checked(checker, 2)

    def test_calls_go_over_tls_while_the_launcher_runs_an_unmodified_script(self):
        if not self.has_certificates:
            self.skipTest("the command openssl is not installed")
        port = free_port()
        checker = self.checker(host="127.0.0.1", port=port, tls_path=self.certificates)
        config = self.config(host="127.0.0.1", port=port, tls_path=self.certificates)
        script = os.path.join(self.folder, "script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import hashlib, torch\n"
                       "torch.manual_seed(7)\n"
                       "model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())\n"
                       "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                       "model(torch.randn(16, 8)).sum().backward()\n"
                       "optimizer.step()\n"
                       "print('bits', hashlib.sha256(model[0].weight.detach().numpy().tobytes()).hexdigest())\n")
        plain = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, universal_newlines=True, timeout=120, check=True)
        ended = subprocess.run([MSPROBE, "dump", "-c", config, "--", sys.executable, script], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, universal_newlines=True, timeout=120, check=False, cwd=self.folder)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(plain.stdout.strip(), ended.stdout)
        self.assertIn("SENT: what was captured went to", ended.stdout)
        self.assertIn("(TLS)", ended.stdout)
        checker.wait()
        names = [row[0] for row in checker.result("api_precision_compare_result")]
        self.assertIn("Functional.linear.0", names)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "dump")))

    def test_wrong_results_of_the_training_are_found(self):
        """The call that is sent holds what the training computed, whatever it was: here another linear."""
        shared = os.path.join(self.folder, "nfs")
        os.makedirs(shared)
        script = os.path.join(self.folder, "wrong.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import torch, torch.nn.functional as F\n"
                       "right = F.linear\n"
                       "F.linear = lambda *values: right(*values) * 1.5\n"
                       "from msprobe.pytorch import PrecisionDebugger\n"
                       "debugger = PrecisionDebugger('training.json')\n"
                       "debugger.start()\n"
                       "x = torch.randn(64, 8)\n"
                       "F.linear(x, torch.randn(4, 8)); torch.abs(x)\n"
                       "debugger.stop(); debugger.step()\n")
        self.config(nfs_path=shared)
        subprocess.run([sys.executable, script], check=True, cwd=self.folder, timeout=120)
        checker = self.checker(nfs_path=shared, extra=("--fail-on", "error"))
        text = checker.wait(code=1)
        self.assertIn("INACCURATE: 1 of 2 calls", text)
        self.assertIn("step 0 rank 0 Functional.linear.0", text)

    # What checkers can do to a training.

    def test_nobody_is_there(self):
        printed, seconds = self.train(self.config(host="127.0.0.1", port=free_port(), tls_path="", plaintext=True), steps=2)
        self.assertIn("cannot be reached", printed)
        self.assertIn("dropped", printed)
        self.assertLess(seconds, 60)

    def test_a_checker_that_says_and_takes_nothing(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)
            _, seconds = self.train(self.config(host="127.0.0.1", port=listener.getsockname()[1], tls_path="", plaintext=True,
                                                writer_memory_bytes=1 << 20), steps=2)
        self.assertLess(seconds, 60)

    def test_a_checker_that_speaks_nonsense(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)

            def answer():
                try:
                    while True:
                        guest, _ = listener.accept()
                        guest.sendall(b"MSPO" + bytes(range(256)) * 4)
                        guest.close()
                except OSError:
                    pass  # the test is over

            threading.Thread(target=answer, daemon=True).start()
            printed, seconds = self.train(self.config(host="127.0.0.1", port=listener.getsockname()[1], tls_path="", plaintext=True), steps=2)
            listener.shutdown(socket.SHUT_RDWR)
        self.assertIn("cannot be reached", printed)
        self.assertLess(seconds, 60)

    def test_a_checker_that_is_killed_and_one_that_takes_its_place(self):
        shared = os.path.join(self.folder, "nfs")
        os.makedirs(shared)
        first = self.checker("first", nfs_path=shared)
        self.train(self.config(nfs_path=shared), steps=2)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second = self.checker("second", ranks=(), nfs_path=shared)
        if glob.glob(os.path.join(shared, "*.start")):
            second.wait()
        else:  # the first one had taken everything
            second.process.send_signal(signal.SIGINT)
            second.wait()
        self.assertEqual(os.listdir(shared), [])

    def test_ctrl_c_ends_the_check_with_its_answer(self):
        port = free_port()
        checker = self.checker(ranks=(0, 1), host="127.0.0.1", port=port, tls_path="", plaintext=True)
        self.train(self.config(host="127.0.0.1", port=port, tls_path="", plaintext=True))
        end = time.monotonic() + 60
        while len(checker.result("api_precision_compare_result")) < 5 and time.monotonic() < end:
            time.sleep(0.1)
        checker.process.send_signal(signal.SIGINT)
        text = checker.wait()
        self.assertIn("ACCURATE", text)
        self.assertIn("stopped before the trainings had ended", text)
        self.assertEqual(len(checker.files("api_precision_compare_result", rank=1)), 1)

    def test_two_hosts(self):
        self.check_two_hosts([])

    def test_two_hosts_with_delay_and_loss_between_them(self):
        self.check_two_hosts(["delay", "20ms", "5ms", "loss", "5%"])

    def check_two_hosts(self, trouble):
        """Two network namespaces; the kernel delays and loses packets, where it can, or a process between them does."""
        if not self.has_certificates:
            self.skipTest("the command openssl is not installed")
        mark = "mp%d" % os.getpid()
        names = [mark + "a", mark + "b"]
        lost = None   # lines of the process between them

        def network(*words):
            return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).returncode == 0

        def inside(name, *words):
            return ("ip", "netns", "exec", name) + words

        def new_host(name):
            if not network("ip", "netns", "add", name):
                return False
            self.addCleanup(network, "ip", "netns", "del", name)
            return network("ip", "-n", name, "link", "set", "lo", "up")

        if shutil.which("ip") is None or os.getuid() != 0 or not new_host(names[0]):
            self.skipTest("network namespaces need root, the command ip, and a kernel that allows them")
        self.assertTrue(new_host(names[1]))
        if not network("ip", "link", "add", mark, "netns", names[0], "type", "veth", "peer", "name", mark, "netns", names[1]):
            self.skipTest("this kernel has no veth")
        if trouble and not all(network("tc", "-n", name, "qdisc", "add", "dev", mark, "root", "netem", *trouble) for name in names):
            self.assertTrue(network("ip", "-n", names[0], "link", "del", mark))
            between = mark + "m"
            self.assertTrue(new_host(between))
            for name in names:
                self.assertTrue(network("ip", "link", "add", mark, "netns", name, "type", "veth", "peer", "name", name, "netns", between))
                self.assertTrue(network("ip", "-n", between, "link", "set", name, "up"))
                self.assertTrue(network(*inside(name, sys.executable, LOSSY_LINK, "--plain", mark)))
            link = subprocess.Popen(inside(between, sys.executable, LOSSY_LINK, *names), stdout=subprocess.PIPE)
            self.addCleanup(link.communicate)
            self.addCleanup(link.kill)
            self.assertEqual(link.stdout.readline(), b"ready\n")
            lost = link.stdout
        for number, name in enumerate(names, 1):
            self.assertTrue(network("ip", "-n", name, "addr", "add", "10.9.8.%d/24" % number, "dev", mark))
            self.assertTrue(network("ip", "-n", name, "link", "set", mark, "up"))

        # A training ends without its checks where nobody listens yet, so that it begins behind the checker.
        checker = self.checker(inside=inside(names[1]), host="10.9.8.2", port=31000, tls_path=self.certificates)
        training = self.config(host="10.9.8.2", port=31000, tls_path=self.certificates)
        ended = subprocess.run(inside(names[0], sys.executable, self.script, training, "2"), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, universal_newlines=True, timeout=120, check=False, cwd=self.folder)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(self.bits[2], ended.stdout)
        answer = checker.wait()
        self.assertIn("ACCURATE", answer)
        self.assertNotIn("dropped", answer)
        checked = [row[0] for row in checker.result("api_precision_compare_result")]
        self.assertEqual(checked.count("Functional.linear.0"), 2)
        if lost is not None:
            self.assertEqual(lost.readline(), b"lost\n")


if __name__ == "__main__":
    unittest.main()
