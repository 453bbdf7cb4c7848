"""The same bits with and without laws: every training in which nothing is wrong, parameters and optimizer state compared after its end."""
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


def main():
    import cases
    from run_cases import run

    torch.set_num_threads(1)
    bad = 0
    for name, function in cases.BENIGN:
        if "resume" in name or "checkpoint_of" in name or "weights_alone" in name:
            continue
        ends = []

        def plain(model, optimizer, **_kwargs):
            ends[-1].append((model, optimizer))

        ends.append([])
        torch.manual_seed(7)
        function(plain)
        ends[-1] = [_bits(pair) for pair in ends[-1]] + [torch.get_rng_state()]
        ends.append([])

        def both(watch):
            def seen(model, optimizer, **kwargs):
                ends[-1].append((model, optimizer))
                watch(model, optimizer, **kwargs)
            function(seen)

        run(both, getattr(function, "settings", None))
        ends[-1] = [_bits(pair) for pair in ends[-1]] + [torch.get_rng_state()]
        same = _same(*ends)
        bad += not same
        print("%-60s %s" % (name, "the same bits" if same else "OTHER BITS"), flush=True)
    return 1 if bad else 0


def _bits(pair):
    model, optimizers = pair
    found = [tensor.detach().clone() for tensor in list(model.parameters()) + list(model.buffers())]
    for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
        for state in optimizer.state.values():
            found += [value.detach().clone() for value in state.values() if isinstance(value, torch.Tensor)]
    return found


def _same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one.nan_to_num(), other.nan_to_num()) if one.is_floating_point() else torch.equal(one, other)
    return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other))


if __name__ == "__main__":
    sys.exit(main())
