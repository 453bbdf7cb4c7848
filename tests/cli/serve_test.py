#!/usr/bin/env python3
"""`msprobe serve`: who gets an answer and who does not, and whether a graph that is served says what the page of `graph --format html` says.

usage: serve_test.py MSPROBE REPOSITORY [TEST...]
"""
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from page_blocks import blocks_of
from page_tests import HOSTILE, has_pages

MSPROBE = None
REPOSITORY = None
NOTHING = 0x7FE00000


class Server:
    """A running `msprobe serve`; `url` ends with the token and '/'."""

    def __init__(self, folder, *flags):
        self.process = subprocess.Popen([str(MSPROBE), "serve", str(folder), *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = int(re.search(r":(\d+)/", self.url).group(1)) if self.url else None
        self.token = self.url.rstrip("/").rsplit("/", 1)[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=30)

    def ask(self, address, **headers):
        """(status, bytes, headers)"""
        request = urllib.request.Request(address if address.startswith("http") else self.url + address, headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    def raw(self, text):
        """What comes back for these bytes; paths go as they are."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(text.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer.decode("latin-1")

    def status_of(self, path, host="localhost"):
        return int(self.raw("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host)).split(" ")[1])


def graph(*arguments):
    done = subprocess.run([str(MSPROBE), "graph", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def column(data, count):
    values = [0] * count
    for plane in range(data[0]):
        for i in range(count):
            values[i] |= data[1 + plane * count + i] << (8 * plane)
    return values


def cell(code, texts):
    if code == NOTHING:
        return None
    if code & 0xFFF00000 == 0x7FD00000:
        return texts[code & 0xFFFFF]
    return struct.unpack("<f", struct.pack("<I", code))[0]


def meaning(part):
    """What the parts of a rank say of its nodes, by their names. `part(name)` gives the bytes."""
    listing = json.loads(part("g0"))
    names = listing["names"]
    count, bench_count = listing["nodes"], listing["bench_nodes"]
    read = lambda name, many: column(part("g0_" + name), many)  # noqa: E731
    sides = [("n", "t", count, names)]
    match = []
    if "bench_names" in listing:
        match = read("match", count)
        bench_names = list(listing["bench_names"])
        for node, partner in enumerate(match):
            if partner and not bench_names[partner - 1]:
                bench_names[partner - 1] = names[node]
        sides.append(("b", "u", bench_count, bench_names))
    tensors = json.loads(part("g0_tensors"))
    found = {}
    for prefix, of_tensors, many, own in sides:
        parents, places, types, micro, stacks = (read("%s_%s" % (prefix, name), many) for name in ("parent", "place", "type", "micro", "stack"))
        children = {}
        for node in sorted(range(many), key=lambda node: places[node]):
            children.setdefault(parents[node], []).append(own[node])
        rows = read(of_tensors + "_rows", many)
        total = tensors["rows" if prefix == "n" else "bench_rows"]
        assert sum(rows) == total
        columns = [read("%s_%s" % (of_tensors, name), total) for name in ("label", "dtype", "shape", "sum", "stat0", "stat1", "stat2", "stat3")]
        at = 0
        for node in range(many):
            of_node = {}
            for i in range(at, at + rows[node]):
                # A database writes no quotes, "<class int>", and of what has no statistics nothing.
                statistics = [cell(columns[k][i], tensors["texts"]) for k in (4, 5, 6, 7)]
                known = statistics != [None] * 4
                of_node[tensors["words"][columns[0][i]]] = ([tensors["words"][columns[k][i]].replace("'", "") if known else "" for k in (1, 2, 3)], statistics)
            at += rows[node]
            stack = listing["stacks"][stacks[node] - 1] if stacks[node] else []
            found[prefix, own[node]] = {
                "parent": own[parents[node] - 1] if parents[node] else None, "children": children.get(node + 1, []), "type": types[node],
                "micro": micro[node], "stack": [listing["frames"][frame] for frame in stack], "tensors": of_node}
    codes, into, out = (read(name, count) for name in ("code", "in", "out"))
    for node in range(count):
        more = found["n", names[node]]
        more["match"] = sides[1][3][match[node] - 1] if match and match[node] else None
        more["code"] = codes[node]
        more["errors"] = [cell(into[node], listing["texts"]), cell(out[node], listing["texts"])]
        more["origin"] = listing["origins"].get(str(node))
        more["unmatched"] = listing["npu_unmatched"].get(str(node))
        more["partners"] = listing["partners"].get(names[node])
    for node, why in listing["bench_unmatched"].items():
        found["b", sides[1][3][int(node)]]["unmatched"] = why
    return found


class ServeTest(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        if not has_pages(MSPROBE):
            raise unittest.SkipTest("this msprobe was built without its pages")
        cls.scratch = tempfile.TemporaryDirectory(prefix="msprobe_serve_")
        base = Path(cls.scratch.name)
        cls.folder = base / "results"
        example = REPOSITORY / "docs/example"
        graph(example / "npu/step0", example / "bench/step0", "-o", cls.folder / "pair", "--format", "db,html")
        graph(REPOSITORY / "tests/data/dump/cnn_tensor_mix/dump/step0/rank", "-o", cls.folder / "one", "--format", "db,html")
        (base / "secret.html").write_text("outside")
        (cls.folder / "out.html").symlink_to(base / "secret.html")
        (cls.folder / "outside").symlink_to(base)
        (cls.folder / "notes.txt").write_text("not served")
        shutil.copy(next((cls.folder / "pair").glob("*.vis.db")), base / "whole.vis.db")
        cls.whole = base / "whole.vis.db"
        cls.server = Server(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.scratch.cleanup()

    def path_of(self, folder, ending):
        return next((self.folder / folder).glob("*" + ending)).relative_to(self.folder).as_posix()

    def test_the_list_tells_the_verdict_of_each_file(self):
        status, page, headers = self.server.ask("")
        self.assertEqual(status, 200)
        text = page.decode()
        self.assertEqual(text.count("files/pair/"), 2)
        self.assertEqual(text.count(">differ<"), 2)
        self.assertIn("it starts with a parameter of blocks.0.mlp.fc1 (Linear)", text)
        self.assertNotIn("notes.txt", text)
        self.assertNotIn("out.html", text)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("script", text)
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")

    def test_without_the_token_nothing_is_told(self):
        origin = "http://127.0.0.1:%d" % self.server.port
        wrong = ("0" if self.server.token[0] != "0" else "1") + self.server.token[1:]
        for address in ("/", "/x/", "/%s/" % wrong, "/%s" % self.server.token[:-1], "/%s0/" % self.server.token, "/files/" + self.path_of("pair", ".html"), "/favicon.ico"):
            status, page, _ = self.server.ask(origin + address)
            self.assertEqual(status, 403, address)
            self.assertNotIn(b"results", page)
        self.assertNotEqual(wrong, self.server.token)

    def test_no_path_leads_out_of_the_folder(self):
        for path in ("files/../../secret.html", "files/%2e%2e/secret.html", "files/..%2fsecret.html", "files/%2e%2e%2fsecret.html", "files/pair/../../secret.html",
                     "files//secret.html", "files/out.html", "files/outside/secret.html", "files/%2Fetc%2Fx.html", "files/out.html%00.html", "files/notes.txt", "files/", "files",
                     "files/pair", "files/pair/", "../", "index.html", "files/x.html", "files/./out.html"):
            self.assertEqual(self.server.status_of("/%s/%s" % (self.server.token, path)), 404, path)

    def test_other_names_and_other_origins_are_refused(self):
        for host in ("evil.example", "evil.example:%d" % self.server.port, "localhost.evil.example", "127.0.0.1.evil.example", ""):
            self.assertEqual(self.server.status_of("/%s/" % self.server.token, host), 403, host)
        self.assertEqual(int(self.server.raw("GET /%s/ HTTP/1.0\r\n\r\n" % self.server.token).split(" ")[1]), 403)
        for host in ("localhost", "localhost:9999", "127.0.0.1", "[::1]:80"):  # the end of a tunnel has another port
            self.assertEqual(self.server.status_of("/%s/" % self.server.token, host), 200, host)
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                        {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}):
            self.assertEqual(self.server.ask("", **headers)[0], 403, headers)
        for headers in ({"Origin": "http://127.0.0.1:%d" % self.server.port}, {"Sec-Fetch-Site": "none"},
                        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}):
            self.assertEqual(self.server.ask("", **headers)[0], 200, headers)
        self.assertIsNone(self.server.ask("")[2]["Access-Control-Allow-Origin"])

    def test_only_questions_of_bounded_size_are_taken(self):
        start = "GET /%s/ HTTP/1.1\r\nHost: localhost\r\n" % self.server.token
        self.assertIn("400", self.server.raw(start + "X: %s\r\n\r\n" % ("x" * 20_000)).split("\r\n")[0])
        self.assertIn("400", self.server.raw("GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % ("x" * 100_000)).split("\r\n")[0])
        for method in ("POST", "PUT", "DELETE"):
            answer = self.server.raw("%s /%s/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabcdefghi" % (method, self.server.token))
            self.assertNotIn(" 200 ", answer.split("\r\n")[0], method)
        answer = self.server.raw("HEAD /%s/ HTTP/1.1\r\nHost: localhost\r\n\r\n" % self.server.token)
        self.assertTrue(answer.startswith("HTTP/1.1 200") and answer.endswith("\r\n\r\n"), answer)
        self.assertEqual(self.server.ask("")[0], 200)

    def test_clients_that_hold_connections_keep_nobody_out_for_long(self):
        held = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(100)]
        begin = time.monotonic()
        for connection in held:
            try:
                connection.sendall(b"GET /x")
            except OSError:
                pass  # one of those that were refused
        while True:
            try:
                self.assertEqual(self.server.ask("")[0], 200)
                break
            except (OSError, urllib.error.URLError):
                self.assertLess(time.monotonic() - begin, 40)
                time.sleep(0.5)
        for connection in held:
            connection.close()

    def same_as_the_page(self, folder):
        embedded = blocks_of((self.folder / self.path_of(folder, ".html")).read_text())
        address = "files/" + self.path_of(folder, ".vis.db")
        status, page, headers = self.server.ask(address)
        self.assertEqual(status, 200)
        self.assertIn(b"msprobe-parts", page)
        self.assertNotIn(b"http-equiv", page)
        self.assertIn("connect-src 'self'", headers["Content-Security-Policy"])
        self.assertIn("script-src 'sha256-", headers["Content-Security-Policy"])

        def part(name):
            status, content, _ = self.server.ask("%s?%s" % (address, name))
            self.assertEqual(status, 200, content)
            return content

        run, served_run = json.loads(embedded["run"]), json.loads(part("run"))
        counts = json.loads(part("g0"))["counts"]
        for rank in served_run["ranks"]:
            rank.update(counts)
        self.assertEqual(served_run["ranks"], run["ranks"])
        self.assertEqual({key: served_run.get(key) for key in ("format", "version", "is_comparison", "task", "verdict")},
                         {key: run.get(key) for key in ("format", "version", "is_comparison", "task", "verdict")})
        expected, got = meaning(embedded.__getitem__), meaning(part)
        self.assertEqual(set(got), set(expected))
        for name, about in expected.items():
            self.assertEqual(got[name], about, name)
        return len(expected)

    def test_a_comparison_says_what_its_page_says(self):
        self.assertGreater(self.same_as_the_page("pair"), 100)

    def test_one_run_says_what_its_page_says(self):
        self.assertGreater(self.same_as_the_page("one"), 20)

    def test_no_link_is_followed_for_the_name_of_the_page_beside_a_graph(self):
        folder = self.folder / "beside"
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(self.whole, folder / "graph.vis.db")
        outside = Path(self.scratch.name) / "compare_outside.html"
        outside.write_text("<title>msprobe compare</title>")
        (folder / "linked.html").symlink_to(outside)
        (folder / "endless.html").symlink_to("/dev/zero")
        os.mkfifo(folder / "fifo.html")
        status, listing, _ = self.server.ask("files/beside/graph.vis.db?run")
        self.assertEqual(status, 200, listing)
        self.assertNotIn(b"linked.html", listing)
        (folder / "true.html").write_text("<title>msprobe compare</title>")
        (folder / "graph.vis.db").touch()  # another content, as far as times tell
        status, listing, _ = self.server.ask("files/beside/graph.vis.db?run")
        self.assertEqual(status, 200, listing)
        self.assertIn(b"true.html", listing)

    def test_a_page_of_the_folder_comes_as_it_is_and_reaches_nobody(self):
        path = self.path_of("pair", ".html")
        status, page, headers = self.server.ask("files/" + path)
        self.assertEqual((status, page), (200, (self.folder / path).read_bytes()))
        self.assertIn("sandbox allow-scripts", headers["Content-Security-Policy"])
        self.assertNotIn("connect-src", headers["Content-Security-Policy"])

    def test_parts_that_are_not_there(self):
        address = "files/" + self.path_of("pair", ".vis.db")
        for part in ("g1", "g99999999999999999999", "g0_nothing", "g", "x", "g0x", "g-1", "%00"):
            self.assertEqual(self.server.ask("%s?%s" % (address, part))[0], 404, part)

    def test_damaged_and_foreign_databases_are_told(self):
        damaged = self.folder / "damaged"
        damaged.mkdir()
        self.addCleanup(shutil.rmtree, damaged)
        whole = self.whole.read_bytes()
        (damaged / "empty.vis.db").write_bytes(b"")
        (damaged / "text.vis.db").write_text("hello " * 1000)
        for share in (1, 3, 5, 7, 9):
            (damaged / ("cut%d.vis.db" % share)).write_bytes(whole[: len(whole) * share // 10])
        with sqlite3.connect(damaged / "foreign.vis.db") as other:
            other.execute("CREATE TABLE t(x)")
        changes = {
            "views": "DROP TABLE tb_config; CREATE VIEW tb_config AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT x AS graph_type FROM n",
            "config": "DELETE FROM tb_config", "ranks": "UPDATE tb_config SET rank_list = 'x'", "no_nodes": "UPDATE tb_config SET rank_list = '[7]'",
            "column": "ALTER TABLE tb_nodes DROP COLUMN micro_step_id", "many": "UPDATE tb_config SET rank_list = '{0}', step_list = '{0}'".format(list(range(1000)))}
        for name, statements in changes.items():
            shutil.copy(self.whole, damaged / (name + ".vis.db"))
            with sqlite3.connect(damaged / (name + ".vis.db")) as other:
                if name == "column":
                    for number in range(1, 8):
                        other.execute("DROP INDEX index%d" % number)
                other.executescript(statements)
        status, page, _ = self.server.ask("")
        self.assertEqual(status, 200)
        self.assertGreaterEqual(page.count(b">unreadable<"), 9)
        for file in sorted(damaged.iterdir()):
            status, page, _ = self.server.ask("files/damaged/" + file.name)
            if status == 200:  # its damage lies in a rank: whoever asks for that is told
                status, page, _ = self.server.ask("files/damaged/%s?g0" % file.name)
            if status == 200:
                status, page, _ = self.server.ask("files/damaged/%s?g0_tensors" % file.name)
            self.assertEqual(status, 422, (file.name, page[:300]))
            self.assertIn(file.name.encode(), page)
        self.assertEqual({file.name for file in damaged.iterdir() if not file.name.endswith(".vis.db")}, set())

    def test_trees_that_are_none_end(self):
        strange = self.folder / "strange"
        strange.mkdir()
        self.addCleanup(shutil.rmtree, strange)
        shutil.copy(self.whole, strange / "cycle.vis.db")
        with sqlite3.connect(strange / "cycle.vis.db") as other:
            other.execute("UPDATE tb_nodes SET up_node = node_name")
            other.execute("UPDATE tb_nodes SET node_name = ? || rowid WHERE rowid % 3 = 0", (HOSTILE[0],))
            other.execute("UPDATE tb_nodes SET matched_node_link = '{\"a\": [[', input_data = '[1, 2', matched_distributed = '[[[', micro_step_id = -5, precision_index = 1e300")
        address = "files/strange/cycle.vis.db"
        listing = json.loads(self.server.ask(address + "?g0")[1])
        parents = column(self.server.ask(address + "?g0_n_parent")[1], listing["nodes"])
        self.assertTrue(all(parent <= node for node, parent in enumerate(parents)))
        self.assertEqual(self.server.ask(address + "?g0_tensors")[0], 200)

    def test_signals_end_it_and_errors_are_told_at_the_start(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = Server(self.folder)
            self.assertEqual(server.ask("")[0], 200)
            server.process.send_signal(number)
            self.assertEqual(server.process.communicate(timeout=30), ("", "serving %s until Ctrl-C\n" % self.folder))
            self.assertEqual(server.process.returncode, 0)
        for arguments, code, words in (([str(self.folder / "none")], 3, "none"), ([str(self.folder / "notes.txt")], 3, "not a folder"), ([], 2, "DIR"),
                                       ([str(self.folder), "--port", "70000"], 2, "--port"), ([str(self.folder), "--port", str(self.server.port)], 3, "cannot listen"),
                                       ([str(self.folder), "--host", "192.0.2.1"], 3, "cannot listen")):
            done = subprocess.run([str(MSPROBE), "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(words, done.stderr)

    def test_another_host_is_warned_of(self):
        with Server(self.folder, "--host", "0.0.0.0") as server:
            self.assertEqual(server.ask("http://127.0.0.1:%d/%s/" % (server.port, server.token))[0], 200)
            server.process.terminate()
            self.assertIn("not encrypted", server.process.communicate(timeout=30)[1])


if __name__ == "__main__":
    MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
