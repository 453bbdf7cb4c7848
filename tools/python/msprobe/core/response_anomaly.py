"""Responses of a language model that went wrong, judged by the program msprobe."""
import json
import math
import os
import subprocess
import tempfile

from msprobe import _program


def analyze_output_anomaly(topk_logprobs, tokens, model_configs, config=None, models=None,
                           categories=None):
    """[[is_ill, type], ...], one per request: type 0 normal, 1 rare characters, 2 garbled,
    3 repetition, 4 a log-probability that is not finite.

    topk_logprobs: per request a list with one {token id: log-probability} for each token.
    tokens:        per request the ids of the generated tokens.
    model_configs: per request the name of its model, a dict with "model_name", or None.
    config, models, categories: files and folder of `msprobe response_anomaly --help`; None: none.

    ValueError where the three lists do not fit each other, or a value is neither an id nor a number.
    """
    if not len(topk_logprobs) == len(tokens) == len(model_configs):
        raise ValueError("topk_logprobs of %d requests, tokens of %d, model_configs of %d"
                         % (len(topk_logprobs), len(tokens), len(model_configs)))
    if len(tokens) == 0:
        return []
    command = [_program.find(), "response_anomaly", "-i", "-", "--lines", "-q"]
    for flag, path in (("--config", config), ("--models", models), ("--categories", categories)):
        if path is not None:
            command += [flag, os.fspath(path)]
    # A file, not a pipe: neither side waits for the other, however much either writes.
    with tempfile.TemporaryFile() as requests:
        for request in zip(topk_logprobs, tokens, model_configs):
            requests.write(_line(*request).encode("ascii") + b"\n")
        requests.seek(0)
        done = subprocess.run(command, stdin=requests, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
    rows = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    for number, row in enumerate(rows):
        if row["error"]:
            raise ValueError("request %d: %s" % (number, row["error"]))
    if len(rows) != len(tokens):
        problems = done.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(problems or "msprobe ended with %d" % done.returncode)
    return [[row["is_ill"], row["ill_type"]] for row in rows]


def _line(topk_logprobs, tokens, model_config):
    model = model_config.get("model_name") if isinstance(model_config, dict) else model_config
    candidates = [[[int(token), _number(logprob)] for token, logprob in lists.items()]
                  for lists in topk_logprobs]
    return json.dumps({"model": model, "tokens": [int(token) for token in tokens],
                       "topk_logprobs": candidates})


def _number(logprob):
    # vLLM gives an object with the number in it.
    value = float(getattr(logprob, "logprob", logprob))
    return value if math.isfinite(value) else repr(value)
