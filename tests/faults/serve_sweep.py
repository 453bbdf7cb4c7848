#!/usr/bin/env python3
"""Makes the k-th call of `msprobe serve` fail, for every k, while a browser asks: the server answers, refuses or hangs up, says nothing
wrong, and answers the next one.

usage: serve_sweep.py MSPROBE INJECTOR REPOSITORY [--quick] [--call FAMILY]... [--how HOW] [--at K] [--record FILE]
"""
import argparse
import collections
import concurrent.futures
import hashlib
import http.client
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import sweep

LINE = sweep.commands.Line("serve", "serve results")
CALLS = ["open", "read", "write", "map", "stat", "list", "close", "memory", "print", "socket"]
HUNG_UP, NOTHING = "hung up", "nothing comes"


class Session:
    """What one server said: its exit code, its answers, first under faults and then once more."""

    def __init__(self):
        self.code, self.errors, self.answers, self.again, self.counts, self.hits, self.address = None, "", [], [], {}, 0, ""


class ServeSweep:
    def __init__(self, msprobe, injector, repository):
        self.msprobe, self.injector = str(Path(msprobe).resolve()), str(Path(injector).resolve())
        self.root = Path(tempfile.mkdtemp(prefix="msprobe_serve_faults_", dir=os.environ.get("FAULT_SCRATCH"))).resolve()
        self.results = self.root / "results"
        example = Path(repository).resolve() / "docs/example"
        made = subprocess.run([self.msprobe, "graph", str(example / "npu/step0"), str(example / "bench/step0"), "-o", str(self.results),
                               "--format", "db,html"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        self.has_pages = made.returncode == 0
        names = {path.suffix: "files/" + path.name for path in self.results.glob("*")}
        database = names.get(".db", "")
        # The list, a graph with all its parts, a page, and what there is not.
        self.paths = ["", database, database + "?run", database + "?g0", database + "?g0_tensors", database + "?g0_n_parent",
                      names.get(".html", ""), "files/none.html"]
        self.folders = queue.Queue()
        for number in range(len(os.sched_getaffinity(0))):
            folder = self.root / ("scratch%d" % number)
            folder.mkdir()
            self.folders.put(folder)
        self.runs, self.breaches = 0, collections.OrderedDict()

    @staticmethod
    def ask(port, path):
        """(status, digest of what the body says, whether it names what cannot be read); HUNG_UP, or NOTHING where none comes."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=sweep.SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            said = re.sub(rb'nonce="\w+"', b"", answer.read()).replace(path.split("/")[1].encode(), b"KEY")
            return answer.status, hashlib.sha1(said).hexdigest(), re.search(rb">unreadable<|not looked at", said) is not None
        except socket.timeout:
            return NOTHING
        except (http.client.HTTPException, OSError):
            return HUNG_UP
        finally:
            connection.close()

    def serve(self, **faults):
        folder = self.folders.get()
        try:
            return self.serve_in(folder, faults)
        finally:
            self.folders.put(folder)

    def serve_in(self, folder, faults):
        report = folder / "report"
        report.unlink(missing_ok=True)
        plan = dict(faults, program="msprobe", clock="frozen", process=4242, report=str(report))
        (folder / "plan").write_text("".join("%s %s\n" % pair for pair in plan.items()))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MSPROBE_", "FAULT_", "LC_", "LANG"))}
        environment.update(LC_ALL="C.UTF-8", LD_PRELOAD=self.injector, FAULT_PLAN=str(folder / "plan"))
        server = subprocess.Popen([self.msprobe, "serve", str(self.results)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=environment)
        done = Session()
        done.address = server.stdout.readline().decode().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\w+/)", done.address)
        if found:
            port, key = int(found.group(1)), found.group(2)
            done.answers = [self.ask(port, key + path) for path in self.paths]
            done.again = [self.ask(port, key + path) for path in self.paths]
            server.send_signal(signal.SIGINT)
        try:
            _, errors = server.communicate(timeout=sweep.SECONDS)
            done.code = server.returncode
        except subprocess.TimeoutExpired:
            server.kill()
            _, errors = server.communicate()
            done.code = "hang"
        done.errors = errors.decode("utf-8", "replace")
        if done.code == -signal.SIGINT and done.errors.strip():
            done.code = 3  # it was ending by itself when the signal came
        for told in map(str.split, report.read_text().splitlines() if report.exists() else []):
            done.hits += told[0] == "hit"
            if told[0] == "calls":
                done.counts[told[1]] = int(told[2])
        return done

    def judge(self, how, good, done):
        """What is wrong with a session, as short sentences."""
        if done.code == "hang":
            return ["hangs"]
        if done.code < 0:
            return ["killed by signal %d" % -done.code]
        wrong = []
        if done.code not in (0, 3):
            wrong.append("exit code %d" % done.code)
        if done.code == 3 and not done.errors.strip():
            wrong.append("exit code 3 without a message")
        if not done.address and done.code == 0:
            wrong.append("it ends without a word")
        others = [(path, got) for path, right, got in zip(self.paths * 2, good.answers * 2, done.answers + done.again) if got != right]
        for path, got in others:
            what = re.sub(r"^.*(\.\w+)", r"\1", path) or "the list"
            if got == NOTHING:
                # A connection that was accepted and that the event queue does not take: the browser gives up, the next one is answered.
                if how != "EIO":
                    wrong.append("%s: %s" % (what, NOTHING))
            # An answer that is another one says so by its status, the list by naming what cannot be read.
            elif got != HUNG_UP and got[0] < 400 and not (path == "" and got[2]):
                wrong.append(what + ": another answer")
        if len(others) > 1 and not how.endswith("+") and done.code == 0:
            wrong.append("one fault changes %d answers" % len(others))
        return sorted(set(wrong))

    def run_case(self, call, how, number, good):
        done = self.serve(**sweep.Sweep.faults(call, how, number))
        return done, self.judge(how, good, done)

    def good_run(self):
        good = self.serve()
        statuses = [answer[0] for answer in good.answers if answer != HUNG_UP]
        if good.code != 0 or statuses != [200] * (len(self.paths) - 1) + [404] or good.again != good.answers:
            raise SystemExit("without faults: exit code %s, %s, then %s, %s" % (good.code, good.answers, good.again, good.errors))
        return good

    def sweep(self, calls, how, quick):
        good, tried = self.good_run(), collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(self.folders.qsize()) as pool:
            for call in calls:
                ways = [how] if how else [way for way in sweep.HOWS[call] if way not in ("stop", "EACCES")]
                # Behind the last call stands a place where nothing fails: how often a connection is waited for differs.
                numbers = sweep.Sweep.numbers(good.counts.get(call, 0), quick)
                for way in ways[-2:] if quick else ways:
                    futures = [(number, pool.submit(self.run_case, call, way, number, good)) for number in numbers]
                    for number, future in futures:
                        self.runs += 1
                        tried[call] += 1
                        for what in future.result()[1]:
                            self.breaches.setdefault((LINE.name, call, way, what), []).append(number)
                sweep.tell([breach for breach in self.breaches.items() if breach[0][1] == call])
        return tried

    def close(self):
        shutil.rmtree(str(self.root), ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("msprobe")
    parser.add_argument("injector")
    parser.add_argument("repository")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--call", action="append", choices=CALLS)
    parser.add_argument("--how")
    parser.add_argument("--at", type=int)
    parser.add_argument("--record")
    options = parser.parse_args()
    run = ServeSweep(options.msprobe, options.injector, options.repository)
    try:
        if not run.has_pages:
            print("this msprobe was built without its pages: skipped")
            return 77
        if options.at:
            good = run.good_run()
            done, wrong = run.run_case(options.call[0], options.how, options.at, good)
            print(done.address, done.errors, "exit code %s, %d hits" % (done.code, done.hits), *zip(run.paths, done.answers, done.again),
                  "wrong: %s" % wrong, sep="\n")
            return 1 if wrong else 0
        tried = run.sweep(options.call or CALLS, options.how, options.quick)
        if options.record:
            sweep.record(options.record, LINE, tried, list(run.breaches.items()))
        print("%d runs, %d kinds of breach" % (run.runs, len(run.breaches)))
        return 1 if run.breaches else 0
    finally:
        run.close()


if __name__ == "__main__":
    sys.exit(main())
