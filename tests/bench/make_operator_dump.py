#!/usr/bin/env python3
"""Statistics dumps of small operators with backward, and details files of accuracy checks, for accuracy_bench.sh.

usage: make_operator_dump.py dump FILE OPERATORS | details FILE ROWS
"""
import csv
import json
import sys

API = ("Torch.exp", "Torch.matmul", "Torch.add", "Functional.gelu", "Functional.layer_norm", "Tensor.sum", "Functional.softmax")


def tensor(shape):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "Max": 1.0, "Min": 0.5, "Mean": 0.7, "Norm": 1.0,
            "requires_grad": True}


def call(api):
    square = tensor([8, 8])
    args, kwargs, output = [square], {}, square
    if api in ("Torch.matmul", "Torch.add"):
        args = [square, square]
    elif api == "Functional.layer_norm":
        args = [square, [{"type": "int", "value": 8}]]
    elif api == "Functional.softmax":
        kwargs = {"dim": {"type": "int", "value": -1}}
    elif api == "Tensor.sum":
        output = tensor([])
    return {"input_args": args, "input_kwargs": kwargs, "output": [output]}, {"input": [output], "output": []}


def main():
    kind, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kind == "dump":
        data = {}
        for number in range(count):
            name = "%s.%d" % (API[number % len(API)], number)
            data[name + ".forward"], data[name + ".backward"] = call(API[number % len(API)])
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}, file)
        return
    header = ("API Name,Bench Dtype,DEVICE Dtype,Shape,余弦相似度,最大绝对误差,双百指标,双千指标,双万指标,二进制一致错误率,误差均衡性,均方根误差,小值域错误占比,"
              "相对误差最大值,相对误差平均值,inf/nan错误率,相对误差错误率,绝对误差错误率,ULP误差最大值,ULP误差平均值,ULP误差大于阈值占比,Status,Message")
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        for number in range(count):
            metrics = ["0.00000012345678"] * 15
            writer.writerow(["%s.%d.forward.output.0" % (API[number % len(API)], number), "torch.float64", "torch.float32", "(8, 8)",
                             "1.00000000000000", "0.00000012345678"] + metrics + ["pass", "\nMax abs error is less than 0.001\n"])


main()
