"""A training with a mistake that no error message tells: its own zeroing of gradients leaves out the output layer."""
import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(6):
    for parameter in model[0].parameters():
        parameter.grad = None
    rows = torch.randn(8, 16)
    loss = nn.functional.cross_entropy(model(rows), rows[:, :4].argmax(1))
    loss.backward()
    optimizer.step()
