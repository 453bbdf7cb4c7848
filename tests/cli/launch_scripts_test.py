#!/usr/bin/env python3
"""Launch scripts against bash: what config_check records of a script is what bash passes to the training, or it is marked as undecided.

usage: launch_scripts_test.py MSPROBE [FIRST_SEED COUNT]

bash runs every script with stand-ins for the launchers, which record their words and their environment; msprobe only reads it. A value that bash does not
pass, an option that is lost without a word, or a variable of another value fails the test.
"""
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch_scripts_table as table

LAUNCHERS = ["torchrun", "python", "python3", "deepspeed", "accelerate", "swift", "megatron", "axolotl", "llamafactory-cli", "trl", "msrun"]
# Programs that start what follows their own words; ray reads variables out of its own.
STARTERS = {"srun": 'while [ "${1#-}" != "$1" ]; do case $1 in -N) shift ;; esac; shift; done; exec "$@"',
            "mpirun": 'while [ "${1#-}" != "$1" ]; do case $1 in -np) shift ;; -x) export "$2"; shift ;; esac; shift; done; exec "$@"',
            "numactl": 'while [ "${1#-}" != "$1" ]; do case $1 in -m) shift ;; esac; shift; done; exec "$@"'}
RAY = """#!{python}
import json, os, sys
words = sys.argv[1:]
if "--" in words:
    place = words.index("--")
    for i, word in enumerate(words[:place]):
        if word.startswith("--runtime-env-json"):
            os.environ.update(json.loads(word.partition("=")[2] or words[i + 1]).get("env_vars", {{}}))
    os.execvp(words[place + 1], words[place + 1:])
"""
WATCHED = ("NCCL_", "HCCL_", "CUDA_")


def make_stubs(folder):
    folder.mkdir()
    record = '#!/bin/bash\n{ printf "%s\\0" "${0##*/}" "$@"; printf "\\1"; /usr/bin/env -0; printf "\\2"; } >> "$RECORD"\n'
    for name in LAUNCHERS:
        (folder / name).write_text(record)
    (folder / "ray").write_text(RAY.format(python=sys.executable))
    for name, body in STARTERS.items():
        (folder / name).write_text("#!/bin/bash\n" + body + "\n")
    for file in folder.iterdir():
        file.chmod(0o755)


def options_of(words):
    """As a parser of arguments sees them: name -> text of its values, True without one."""
    program, rest = words[0], words[1:]
    if program.startswith("python") and "-" in rest[:1]:
        return {}
    options, name = {}, None
    behind_script = False
    for i, word in enumerate(rest):
        if word == "--":
            name = None
        elif word.startswith("-") and len(word) > 1 and (word[1].isalpha() or word.startswith("--")):
            if word in ("-u", "-m", "--module"):
                continue
            name, equals, value = word.lstrip("-").partition("=")
            options[name] = [value] if equals else []
            if equals:
                name = None
        elif name is not None:
            # The script behind the launcher's own options is no value.
            if not behind_script and (word.endswith(".py") and not options[name] or (options[name] and not program.startswith("python"))):
                behind_script, name = True, None
                continue
            options[name].append(word)
        elif "=" in word and word.lstrip("+~")[:1].isalpha():
            key, _, value = word.lstrip("+~").partition("=")
            options[key] = [value]
        if word.endswith(".py") or word in ("sft", "pt", "train") or (i and rest[i - 1] in ("-m", "--module")):
            behind_script = True
    return {name: " ".join(values) if values else True for name, values in options.items()}


def run_bash(folder, stubs, name, variant):
    """The launches: (options, environment) of each."""
    record = folder / f"{name}.record"
    record.unlink(missing_ok=True)
    environment = {"PATH": f"{stubs}:/usr/bin:/bin", "RECORD": str(record)}
    arguments = list(variant)
    while arguments and "=" in arguments[0] and not arguments[0].startswith("-"):
        key, _, value = arguments.pop(0).partition("=")
        environment[key] = value
    waits = folder / f"{name}.waits"
    waits.write_text((folder / f"{name}.sh").read_text() + "\nwait\n")  # for what runs in the background
    subprocess.run(["/bin/bash", waits.name, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=30, check=False)
    launches = []
    for part in record.read_text().split("\2")[:-1] if record.exists() else []:
        words, variables = part.split("\1")
        words = words.split("\0")[:-1]
        environment_of = dict(entry.split("=", 1) for entry in variables.split("\0")[:-1])
        launches.append((words, options_of(words), environment_of))
    distributed = [i for i, (words, _, _) in enumerate(launches) if not words[0].startswith("python") or "torch.distributed.run" in words]
    return [launch[1:] for launch in launches[distributed[0] if distributed else 0:]]


def record(msprobe, folder, name):
    """Settings, variables and warnings that msprobe records."""
    pack = folder / f"{name}.zip"
    others = [other for other in table.OTHERS if other in (folder / f"{name}.sh").read_text()]
    done = subprocess.run([msprobe, "config_check", "-d", f"{name}.sh", *others, "-o", pack.name, "--json"], cwd=folder, env={"PATH": "/nowhere", "HOME": "/nowhere"},
                          capture_output=True, text=True, timeout=60, check=False)
    if not pack.exists():
        raise RuntimeError(f"{name}: {done.stderr}")
    with zipfile.ZipFile(pack) as members:
        names = members.namelist()
        settings = json.loads(members.read("hyperparameters/hyperparameters_static.json")) if "hyperparameters/hyperparameters_static.json" in names else {}
        environment = json.loads(members.read("env"))
    return settings, environment, json.loads(done.stdout).get("warnings", [])


def plain(value):
    """Without the quotes around several words."""
    return value[1:-1] if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"' else value


def alternatives(value):
    return [plain(v) for v in value["values"]] if isinstance(value, dict) and value.get("description") == "duplicate_value" else None


def is_reference(value):
    return isinstance(value, str) and ("$" in value or "`" in value or "~" in value)


def problems_of(recorded, all_launches, undecided_word):
    """What is wrong with the recorded values of one kind; `all_launches`: of every run of bash, a list of dicts."""
    problems = []
    launches = [launch for run in all_launches for launch in run]
    for name, value in recorded.items():
        choices = alternatives(value)
        if choices is None and not is_reference(value):
            wrong = [launch.get(name) for launch in launches if launch.get(name) != plain(value)]
            # Trainings of other programs may lack it; none may have another value.
            if not launches or all(launch.get(name) is None for launch in launches) or any(other is not None for other in wrong):
                problems.append(f"{name}: recorded {value!r}, bash passes {wrong[:3]}")
    for launch in launches:
        for name, value in launch.items():
            got = recorded.get(name)
            choices = alternatives(got) if got is not None else None
            if got is None and not undecided_word:
                problems.append(f"{name}: bash passes {value!r}, nothing is recorded and nothing said")
            elif choices is not None and value not in choices and None not in choices and not any(is_reference(c) for c in choices):
                problems.append(f"{name}: bash passes {value!r}, recorded as one of {choices}")
    return problems


def check(msprobe, folder, stubs, script):
    name, _, *rest = script
    variants = rest[0] if rest else [[]]
    runs = [run_bash(folder, stubs, name, variant) for variant in variants]
    settings, environment, warnings = record(msprobe, folder, name)
    problems = problems_of(settings, [[options for options, _ in run] for run in runs], bool(warnings))
    # Every run of bash that gets to a training: an undecided option that some of them lack is marked so.
    watched = [[{k: v for k, v in variables.items() if k.startswith(WATCHED)} for _, variables in run] for run in runs]
    problems += problems_of({k: v for k, v in environment.items() if k.startswith(WATCHED)}, watched, bool(warnings))
    return [f"{name}: {problem}" for problem in problems]


def main():
    msprobe = os.path.abspath(sys.argv[1])
    first, count = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (0, 60)
    scripts = list(table.SCRIPTS) + [table.made(seed) for seed in range(first, first + count)]
    with tempfile.TemporaryDirectory(prefix="launch_scripts_") as root:
        folder, stubs = Path(root) / "scripts", Path(root) / "stubs"
        folder.mkdir()
        make_stubs(stubs)
        for name, text in table.OTHERS.items():
            (folder / name).write_text(text)
        for script in scripts:
            (folder / f"{script[0]}.sh").write_text(script[1])
        (folder / "work").mkdir()
        with ThreadPoolExecutor(2) as pool:
            problems = [problem for found in pool.map(lambda script: check(msprobe, folder, stubs, script), scripts) for problem in found]
    for problem in problems:
        print(problem)
    print(f"{len(scripts)} scripts, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
