"""The command lines that faults are injected into: every command that answers (tests/cli/answer_forms_test.py lists them), and more
ways to write a result."""
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from answer_forms_test import COMMANDS as ANSWERS  # noqa: E402  pylint: disable=wrong-import-position


class Line:
    def __init__(self, name, words, prepare=None, judges=False, script=False):
        self.name = name
        self.words = words
        self.prepare = prepare  # fills the scratch folder
        self.script = script  # runs somebody else's program: its exit code counts
        self.judges = judges
        # Elsewhere the results of many runs stand beside each other, or nothing is written.
        self.forces = re.search(r" (-o|-out|--output|--output_dirpath|--db|--bundle) ", words) is not None


def train_script(_places, folder):
    (folder / "train.sh").write_text("python train.py --lr 1e-3\n")


MORE = [
    Line("compare --junit", "compare {example}/npu {example}/bench -o out --junit out/report.xml"),
    Line("compare, values", "compare {example}/npu/step0/rank/dump.json {example}/bench/step0/rank/dump.json -o out"),
    Line("compare, kernels", "compare {data}/kernel_dump/dumps {data}/kernel_dump/dumps -o out"),
    Line("compare, a folder/", "compare {data}/kernel_dump/dumps/ {data}/kernel_dump/dumps/ -o out/"),
    Line("compare, graphs", "compare {data}/compare/ms_graph_npy/npu {data}/compare/ms_graph_npy/bench -o out"),
    Line("compare, ATB", "compare {data}/compare26/atb_tensor/target/atb_dump_data/data/0_200/0 "
         "{data}/compare26/atb_tensor/golden/atb_dump_data/data/0_100/0 -o out"),
    Line("ckpt_compare csv", "ckpt_compare {data}/ckpt/special_base/a {data}/ckpt/special_base/b -o out/table --format csv,xlsx,json"),
    Line("show -o csv", "show {example}/npu/step0/rank/dump.json --format csv -o out/rows.csv"),
    Line("show --stats", "show {example}/npu/step0/rank/dump_tensor_data --stats --format csv -o out/rows.csv"),
    Line("doctor --bundle", "doctor --bundle out/bundle.zip"),
    Line("nan_analyze --json", "nan_analyze -i {data}/nan_analyze/p2p_chain/step0 -o out --json --junit out/report.xml"),
    Line("graph -oc", "graph {data}/graph/compare_two_ranks/npu {data}/graph/compare_two_ranks/bench -o out -oc --format vis,db,explorer,trace --junit out/report.xml"),
    Line("response_anomaly --lines", "response_anomaly {data}/response_anomaly/toy/requests.jsonl --models "
         "{data}/response_anomaly/toy/mtype_config.json --categories {data}/response_anomaly/toy/token2category "
         "--config {data}/response_anomaly/toy/config.yaml --lines -o out --format csv,jsonl"),
    Line("completion", "completion bash"),
    Line("help", "help compare"),
]


def make_places(repository, folder):
    """The inputs; `folder` gets those that are made."""
    same = repository / "tests/data/monitor/files/csv2tb/monitor_output"
    run = folder / "run"
    shutil.copytree(str(same), str(run))
    nan_run = folder / "nan_run"
    shutil.copytree(str(same), str(nan_run))
    for made in (run, nan_run):
        for path in made.rglob("*"):
            os.chmod(str(path), 0o755 if path.is_dir() else 0o644)
    for file in run.glob("*/actv_6-8.csv"):
        file.write_text(re.sub(r"^0,0.norm1.output,6,0,8", "0,0.norm1.output,6,0,9", file.read_text(), flags=re.M))
    for file in nan_run.glob("*/actv_6-8.csv"):
        file.write_text(re.sub(r"^(0,0.norm1.output,6,0),[^,]*", r"\1,nan", file.read_text(), flags=re.M))
    return {"data": repository / "tests/data", "example": repository / "docs/example", "same": same, "run": run, "nan_run": nan_run,
            "repository": repository}


def all_lines():
    lines = [Line(name, item.words, item.prepare, script=name in ("dump", "monitor run")) for name, item in ANSWERS.items()]
    return lines + MORE


def words_of(line, places):
    words, dashes, script = line.words.format(**places).partition(" -- ")
    return words.split() + (["--"] + script.split() if dashes else [])
