"""A training that is small enough to be run many times: gradient descent on a narrow valley, with the settings of a file."""
import json
import sys


def train(settings):
    x, y = 4.0, -3.0
    vx = vy = 0.0
    lr = 0.0
    for step in range(settings["steps"]):
        lr = settings["lr"] * min(1.0, (step + 1) / max(1, settings["warmup"]))
        gx, gy = x + settings["weight_decay"] * x, 20.0 * y + settings["weight_decay"] * y
        norm = (gx * gx + gy * gy) ** 0.5
        scale = min(1.0, settings["clip"] / norm) if settings["clip"] and norm else 1.0
        vx, vy = settings["momentum"] * vx + scale * gx, settings["momentum"] * vy + scale * gy
        x, y = x - lr * vx, y - lr * vy
        if abs(x) + abs(y) > 1e12:
            return float("nan")
    return 0.5 * (x * x + 20.0 * y * y)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        loss = train(json.load(file))
    print("loss", "nan" if loss != loss else "ok" if loss < 0.1 else "%.1f" % loss)
