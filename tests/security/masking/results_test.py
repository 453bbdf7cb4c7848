#!/usr/bin/env python3
"""The whole program: no secret of the corpus is in a bundle of doctor, in a pack of config_check, in what compares logs
or on the screen, and what is no secret is.

usage: results_test.py PATH_TO_msprobe
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import corpus

# python3 as doctor asks for it: quick, and the same on every machine.
PYTHON = "#!/bin/sh\nprintf 'python\\tok\\t3.11.2, /usr/bin/python3\\ntorch\\tno\\tabsent\\nmindspore\\tno\\tabsent\\nmsprobe\\tok\\t/p\\nmsprobe._native\\tok\\t/p\\n'\n"
LEFT = [corpus.CORE, corpus.CORE.lower(), corpus.B64, corpus.LONG, corpus.CAPITALS]


def run(msprobe, arguments, folder, environment=None):
    done = subprocess.run([msprobe] + arguments, cwd=folder, env=dict(os.environ, **(environment or {})), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def members(path):
    with zipfile.ZipFile(str(path)) as archive:
        return {name: archive.read(name).decode("utf-8", "surrogateescape") for name in archive.namelist()}


def assert_nothing_left(texts):
    for name, text in texts.items():
        for secret in LEFT:
            lines = [line for line in text.split("\n") if secret in line]
            assert not lines, (name, len(lines), lines[:3])


def variables(prefix, name_parts):
    """Variables that doctor collects, with secrets by name and by look."""
    result = {}
    for i, name in enumerate(name_parts):
        result["%s%s" % (prefix, name.replace(" ", "_").upper())] = corpus.VALUES[i % 5]
    for i, (text, _) in enumerate(corpus.TEXTS):
        result["%sTEXT_%d" % (prefix, i)] = text.replace("VALUE", corpus.CORE)
    for i, (value, _) in enumerate(corpus.LOOKS):
        result["%sLOOK_%d" % (prefix, i)] = "use " + value
    return result


def check_bundle(msprobe, folder):
    logs = folder / "logs"
    cases = sorted({text for text, _ in corpus.secrets(seed=4, per_form=12)})
    assert len(cases) >= 300
    for i in range(0, len(cases), 4):
        place = logs / "step0" / ("rank%d" % i)
        place.mkdir(parents=True)
        (place / "dump_error_info.log").write_text("\n----\n".join(cases[i:i + 4]) + "\n", encoding="utf-8")
    harmless = corpus.harmless()
    place = logs / "step1" / "rank0"
    place.mkdir(parents=True)
    (place / "dump_error_info.log").write_text("\n".join(harmless[:-10]) + "\n", encoding="utf-8")
    binaries = folder / "bin"
    binaries.mkdir()
    (binaries / "python3").write_text(PYTHON)
    (binaries / "python3").chmod(0o755)
    environment = variables("MSPROBE_X_", corpus.NAMES)
    environment.update(MSPROBE_LOG_LEVEL="1", TORCH_PLAIN="kept as it is", PATH="%s:%s" % (binaries, os.environ["PATH"]))
    code, out, err = run(msprobe, ["doctor", "--bundle", "b.zip", "--logs", "logs", "--", "compare", "no_such_" + "dump", "other",
                                   "--pwd", corpus.CORE, "--api-key=" + corpus.CORE + " x", "--header", "X-Api-Key: " + corpus.CORE], folder, environment)
    assert code in (0, 1), (code, out, err)
    texts = members(folder / "b.zip")
    assert_nothing_left(texts)
    assert_nothing_left({"screen": out, "errors": err})
    json.loads(texts["doctor.json"])
    assert "TORCH_PLAIN=kept as it is" in texts["variables.txt"].split("\n")
    told = [line for line in err.split("\n") if "values masked; variables that are not: " in line]
    assert told and "TORCH_PLAIN" in told[0] and "MSPROBE_X_HF_TOKEN" not in told[0], err
    assert texts["command.txt"].startswith("$ msprobe compare no_such_dump other --pwd *** --api-key=*** --header X-Api-Key:"), texts["command.txt"]
    kept = texts["logs/0/step1/rank0/dump_error_info.log"].split("\n")
    assert kept == harmless[:-10] + [""], [pair for pair in zip(harmless, kept) if pair[0] != pair[1]]


def check_pack(msprobe, folder):
    flat = {}
    for i, name in enumerate(style for each in corpus.NAMES for style in corpus.styles(each)):
        flat[name] = (corpus.VALUES + corpus.QUOTED_VALUES)[i % len(corpus.VALUES + corpus.QUOTED_VALUES)]
    config = dict(flat, hub={"secrets": {"a": corpus.CORE, "b": [corpus.CORE, {"c": corpus.CORE}]}, "tokens": [corpus.CORE]},
                  pin_code=1, password=98765432, pad_token="<pad>", num_key_value_heads=4, max_tokens=4096, eos_token="</s>", author="someone")
    (folder / "c.json").write_text(json.dumps(config))
    (folder / "dynamic.json").write_text(json.dumps(config))
    script = "export MA_SK=%s\n" % corpus.CORE
    script += "python3 train.py --lr 1e-3 --num-key-value-heads 4 --pad-token '<pad>' --cmd 'x --api-key %s' --header 'X-Api-Key: %s'" % ((corpus.CORE,) * 2)
    for i, name in enumerate(corpus.NAMES):
        script += " --%s '%s'" % (name.replace(" ", "-"), (corpus.VALUES + corpus.QUOTED_VALUES)[i % 20])
    (folder / "train.sh").write_text(script + "\n")
    environment = variables("X_", corpus.NAMES)
    environment.update(PLAIN_SETTING="kept as it is", EOS_TOKEN="</s>")
    for python in (["-d", "train.sh", "c.json"], ["--compat", "-d", "train.sh"]):
        code, out, err = run(msprobe, ["config_check", "--dynamic", "dynamic.json", "--force", "-o", "pack.zip"] + python, folder, environment)
        assert code == 0, (code, out, err)
        texts = members(folder / "pack.zip")
        assert_nothing_left(texts)
        assert_nothing_left({"screen": out, "errors": err})
        recorded = json.loads(texts["env"])
        assert recorded["PLAIN_SETTING"] == "kept as it is" and recorded["EOS_TOKEN"] == "</s>"
        assert set(environment) <= set(recorded)
        assert "98765432" not in texts["hyperparameters/hyperparameters_dynamic.json"]
        for name in ("hyperparameters/hyperparameters_static.json", "hyperparameters/hyperparameters_dynamic.json"):
            if name not in texts and "--compat" in python:  # finds nothing in such a script
                continue
            values = json.loads(texts[name])
            assert values.get("pad-token", values.get("pad_token")) == "<pad>", name
            assert str(values.get("num-key-value-heads", values.get("num_key_value_heads"))) == "4", name
    # A pack that another tool wrote, unmasked: neither sheets nor answers show them.
    for side, secret in (("bench", corpus.CORE + "A"), ("cmp", corpus.CORE + "B")):
        with zipfile.ZipFile(str(folder / (side + ".zip")), "w") as archive:
            archive.writestr("env", json.dumps({"HF_TOKEN": secret, "NCCL_ALGO": "Ring" if side == "bench" else "Tree --api-key " + secret}))
            archive.writestr("hyperparameters/hyperparameters_static.json", json.dumps({
                "wandb_key": secret, "lr": 1 if side == "bench" else 2, "cmd": "run --pwd " + secret, "x": {"secret": [secret]}, side + "_token": secret}))
    code, out, err = run(msprobe, ["config_check", "-c", "bench.zip", "cmp.zip", "-o", "result", "--json"], folder)
    assert_nothing_left({"screen": out, "errors": err})
    code, out, err = run(msprobe, ["config_check", "-c", "bench.zip", "cmp.zip", "-o", "result", "--force"], folder)
    assert_nothing_left({"screen": out, "errors": err})
    assert_nothing_left({name: text for name, text in members(folder / "result" / "result.xlsx").items()})
    assert "lr" in out and "NCCL_ALGO" in out, out


def check_logs(msprobe, folder):
    """Two logs: secrets that differ are told apart and not shown."""
    for side, secret in (("npu", corpus.CORE + "A"), ("bench", corpus.CORE + "B")):
        settings = {"actor_rollout_ref": {"a": 1}, "trainer": {"lr": 1, "hub_token": secret, "same_key": corpus.CORE, "pad_token": "<pad>" if side == "npu" else "[PAD]",
                                "cmd": "serve --api-key " + secret, "wandb": {"password": [secret]}}}
        (folder / (side + ".log")).write_text("start\n%s\nend\n" % settings)
    code, out, err = run(msprobe, ["config_check", "-vc", "npu.log", "bench.log", "-o", "logs"], folder)
    assert code in (0, 1), (code, out, err)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (folder / "logs").iterdir()}
    assert_nothing_left(texts)
    assert_nothing_left({"screen": out, "errors": err})
    rows = {line.split(",")[0]: line for line in texts["hyper_params_compare.csv"].lstrip("\ufeff").splitlines()}
    assert rows["trainer/hub_token"].endswith("\u5426") and "***" in rows["trainer/hub_token"], rows
    assert rows["trainer/same_key"].endswith("\u662f"), rows
    assert "<pad>" in rows["trainer/pad_token"] and "[PAD]" in rows["trainer/pad_token"], rows
    assert json.loads(texts["NPU_config.json"])["trainer"]["lr"] == 1
    # A log that somebody has masked before says nothing of the secret.
    (folder / "masked.log").write_text("start\n%s\nend\n" % {"actor_rollout_ref": {"a": 1}, "trainer": {"hub_token": "***", "lr": 1}})
    code, out, err = run(msprobe, ["config_check", "-vc", "npu.log", "masked.log", "-o", "logs", "--force"], folder)
    rows = {line.split(",")[0]: line for line in (folder / "logs" / "hyper_params_compare.csv").read_text(encoding="utf-8").lstrip("\ufeff").splitlines()}
    assert rows["trainer/hub_token"].endswith("\u662f"), rows


def main():
    msprobe = os.path.abspath(sys.argv[1])
    for check in (check_bundle, check_pack, check_logs):
        with tempfile.TemporaryDirectory() as folder:
            check(msprobe, pathlib.Path(folder))
        print("%s: ok" % check.__name__)


if __name__ == "__main__":
    main()
