"""A forward pass of a tiny router whose scores overflow in float16: the program of docs/how-to/overflow-to-code.md."""
import torch
from torch import nn
from torch.nn import functional


class Router(nn.Module):
    """Which expert gets which word: a sharp softmax over the scores of a gate."""

    def __init__(self, width=16, experts=8):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.register_buffer("sharpness", torch.full((experts,), 60000.0, dtype=torch.float16))

    def forward(self, words):
        scores = self.gate(words).half()
        sharp = torch.mul(scores, self.sharpness)
        return functional.softmax(sharp.float(), dim=-1)


def main():
    torch.manual_seed(3)
    router = Router()
    with torch.no_grad():
        chosen = router(torch.randn(20, 16))
    print("largest share of a word: %.4f" % chosen.max().item())


if __name__ == "__main__":
    main()
