#!/usr/bin/env python3
"""The questions that the viewer of the 26.x line asks a .vis.db, asked of ours: they are answered, by an index, and can be written to.

usage: graph_viewer_queries_test.py MSPROBE DATA

The questions are those of the specification of the file: configuration, roots, children in order, the way up, a node with its stack,
the list to search in, nodes by colour and by overflow, both ends of a match, and what the viewer writes when somebody matches nodes
by hand or changes a colour.
"""
import json
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = DATA = None
PLACE = "step = 0 and rank = %d and data_source = '%s'"


class ViewerQueries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        out = Path(cls.scratch.name)
        case = DATA / "compare_two_ranks"
        subprocess.run([PROGRAM, "graph", case / "npu", case / "bench", "-o", out, "-oc", "-q"], check=True)
        (cls.path,) = out.glob("*.vis.db")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.database = sqlite3.connect(str(self.path))
        self.database.row_factory = sqlite3.Row
        self.addCleanup(self.database.close)

    def ask(self, question, *values):
        return self.database.execute(question, values).fetchall()

    def assert_uses_index(self, question, *values):
        plan = " ".join(row["detail"] for row in self.ask("explain query plan " + question, *values))
        self.assertRegex(plan, "USING (COVERING )?INDEX index")

    def test_the_configuration(self):
        (config,) = self.ask("select * from tb_config")
        self.assertEqual((config["graph_type"], config["task"], config["overflow_check"]), ("compare", "summary", 1))
        self.assertEqual((json.loads(config["rank_list"]), json.loads(config["step_list"])), ([0, 1], [0]))
        self.assertEqual(set(json.loads(config["node_colors"])["#FF704D"]), {"value", "description", "accuracy_level"})
        self.assertIsInstance(json.loads(config["tool_tip"]), dict)

    def test_the_tree_from_the_root_down_and_the_way_up(self):
        for rank in (0, 1):
            for side in ("NPU", "Bench"):
                place = PLACE % (rank, side)
                root = self.ask("select * from tb_nodes where %s and up_node = '' limit 1" % place)[0]
                self.assertEqual(root["node_name"], "DefaultModel")
                question = "select * from tb_nodes where %s and up_node = ? order by node_order" % place
                self.assert_uses_index(question, "DefaultModel")
                seen, open_nodes = 1, ["DefaultModel"]
                while open_nodes:
                    name = open_nodes.pop()
                    below = self.ask(question, name)
                    listed = self.ask("select value from tb_nodes, json_each(sub_nodes) where %s and node_name = ? and sub_nodes != ''"
                                      % place, name)
                    self.assertEqual([row["node_name"] for row in below], [row["value"] for row in listed])
                    open_nodes += [row["node_name"] for row in below]
                    seen += len(below)
                self.assertEqual(seen, self.ask("select count(*) from tb_nodes where " + place)[0][0])
                deepest = self.ask("select node_name from tb_nodes where %s and node_order = 0" % place)[0][0]
                way = self.ask("with recursive up(node_name, up_node) as (select node_name, up_node from tb_nodes where %s and node_name = ?"
                               " union all select n.node_name, n.up_node from tb_nodes n join up on n.node_name = up.up_node where n.step = 0"
                               " and n.rank = %d and n.data_source = '%s') select node_name from up" % (place, rank, side), deepest)
                self.assertEqual(way[-1][0], "DefaultModel")

    def test_every_node_has_its_stack_and_json_that_parses(self):
        rows = self.ask("select * from tb_nodes join tb_stack on tb_nodes.stack_id = tb_stack.id")
        self.assertEqual(len(rows), self.ask("select count(*) from tb_nodes")[0][0])
        for row in rows:
            for column in ("stack_info", "matched_node_link", "matched_distributed", "input_data", "output_data"):
                json.loads(row[column])
        self.assert_uses_index("select * from tb_nodes join tb_stack on tb_nodes.stack_id = tb_stack.id where step = 0 and rank = 0 and "
                               "data_source = 'NPU' and node_name = ?", "DefaultModel")

    def test_the_list_to_search_in_of_all_and_of_one_micro_step(self):
        question = "select node_name from tb_nodes where step = 0 and rank = 0 and (micro_step_id = ? or ? = -1) order by node_order"
        everything = self.ask(question, -1, -1)
        self.assertEqual(len(everything), self.ask("select count(*) from tb_nodes where step = 0 and rank = 0")[0][0])
        self.assertGreater(len(everything), len(self.ask(question, 0, 0)) - 1)
        self.assert_uses_index("select node_name from tb_nodes where step = 0 and rank = 0 and micro_step_id = 0 order by node_order")

    def test_nodes_by_colour_and_by_overflow(self):
        leaves = "select node_name from tb_nodes where %s and (sub_nodes = '' or sub_nodes = '[]')" % (PLACE % (0, "NPU"))
        warnings = self.ask(leaves + " and precision_index >= 0.3 and precision_index < 0.6")
        self.assertEqual(len(warnings), 3)
        self.assertEqual(self.ask(leaves + " and precision_index >= 0.6 and precision_index <= 1"), [])
        self.ask(leaves + " and overflow_level in ('medium', 'high', 'critical')")
        unmatched = self.ask("select node_name from tb_nodes where step = 0 and rank = 0 and modified = 0 and matched_node_link = '[]'")
        self.assertEqual(unmatched, [])
        self.assert_uses_index("select node_name from tb_nodes where step = 0 and rank = 0 and modified = 0 and matched_node_link = '[]'")

    def test_communications_lead_to_the_other_rank(self):
        rows = self.ask("select * from tb_nodes where is_distributed = 1 and matched_distributed != '{}'")
        self.assertGreater(len(rows), 0)
        for row in rows:
            partners = json.loads(row["matched_distributed"])
            for group in partners if isinstance(partners, list) else [partners]:
                for rank, (_, name) in group["nodes_info"].items():
                    self.assertEqual(len(self.ask("select 1 from tb_nodes where step = 0 and rank = ? and data_source = ? and node_name = ?",
                                                  int(rank), row["data_source"], name)), 1)

    def test_what_the_viewer_writes(self):
        before = self.ask("select * from tb_nodes where %s and node_name like 'Torch%%' limit 1" % (PLACE % (0, "NPU")))[0]
        self.database.execute("update tb_nodes set matched_node_link = '[]', precision_index = null, input_data = '{}', output_data = '{}', "
                              "modified = 1 where step = 0 and rank = 0 and data_source = 'NPU' and node_name = ?", (before["node_name"],))
        self.database.execute("update tb_config set node_colors = '{}'")
        self.assertEqual(len(self.ask("select 1 from tb_nodes where step = 0 and rank = 0 and modified = 1")), 1)
        self.assertEqual(self.ask("pragma integrity_check")[0][0], "ok")
        self.database.rollback()

    def test_nobody_else_may_write_to_the_file(self):
        self.assertEqual(self.path.stat().st_mode & 0o022, 0)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    DATA = Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
