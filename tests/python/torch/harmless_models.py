"""Small models of many families, each with what its family does to gradients: residuals around norms,
shared tensors, work in place, views, tied weights, several outputs.

MODELS: {name: function that gives (model, batch, loss)}; batch(generator) gives inputs,
loss(model, inputs) a number to train on.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

MODELS = {}


def family(make):
    MODELS[make.__name__] = make
    return make


def tokens(generator, vocabulary=24, length=6):
    return torch.randint(0, vocabulary, (2, length), generator=generator)


def next_token_loss(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(),
                           ids[:, 1:].reshape(-1))


def images(generator, size=8, channels=3):
    return torch.randn(2, channels, size, size, generator=generator)


def class_loss(model, x):
    return F.cross_entropy(model(x).float(), torch.tensor([1, 2]))


# ---- language models ----

class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))
        weights = self.dropout(F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1))
        return self.c_proj((weights @ v).transpose(1, 2).contiguous().view(batch, length, width))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Output weights tied to the embedding; blocks perhaps computed twice."""

    def __init__(self, reentrant=None):
        super().__init__()
        self.reentrant = reentrant
        self.wte, self.wpe = nn.Embedding(24, 16), nn.Embedding(6, 16)
        self.blocks = nn.ModuleList([GptBlock(16, 2) for _ in range(2)])
        self.ln_f = nn.LayerNorm(16)
        self.lm_head = nn.Linear(16, 24, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.lm_head(self.ln_f(x))


@family
def nano_gpt():
    return Gpt(), tokens, next_token_loss


@family
def checkpointed_gpt():
    return Gpt(reentrant=True), tokens, next_token_loss


@family
def checkpointed_gpt_without_reentry():
    return Gpt(reentrant=False), tokens, next_token_loss


class RMSNorm(nn.Module):
    """Uses its input more than once."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    """Rotary positions, keys shared by heads, SwiGLU."""

    def __init__(self, width):
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width)
        self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width // 2, bias=False)
        self.wv = nn.Linear(width, width // 2, bias=False)
        self.w1, self.w3 = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.w2 = nn.Linear(3 * width, width, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        even, odd = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos],
                           dim=-1).flatten(3).type_as(x)

    def attend(self, x, cos, sin):
        batch, length, width = x.shape
        q = self.rotate(self.wq(x).view(batch, length, 4, -1), cos, sin)
        k = self.rotate(self.wk(x).view(batch, length, 2, -1), cos, sin)
        v = self.wv(x).view(batch, length, 2, -1)
        k, v = (part[:, :, :, None].expand(-1, -1, -1, 2, -1).reshape(batch, length, 4, -1)
                for part in (k, v))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        mask = torch.full((length, length), float("-inf")).triu(1)
        weights = F.softmax((q @ k.transpose(2, 3) / math.sqrt(4) + mask).float(), -1).type_as(q)
        return self.wo((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, cos, sin):
        h = x + self.attend(self.attention_norm(x), cos, sin)
        y = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(24, 16)
        self.layers = nn.ModuleList([LlamaBlock(16) for _ in range(2)])
        self.norm, self.output = RMSNorm(16), nn.Linear(16, 24, bias=False)
        self.output.weight = self.tok_embeddings.weight
        angles = torch.outer(torch.arange(6.0), 1.0 / 100 ** (torch.arange(0, 4, 2) / 4))
        self.register_buffer("cos", angles.cos()[:, None])
        self.register_buffer("sin", angles.sin()[:, None])

    def forward(self, ids):
        h = self.tok_embeddings(ids)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return self.output(self.norm(h))


@family
def llama():
    return Llama(), tokens, next_token_loss


@family
def lstm_language_model():
    """Hidden state goes from step to step, detached."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.2)
            self.encoder, self.rnn = nn.Embedding(24, 8), nn.LSTM(8, 8, 2, dropout=0.2)
            self.decoder = nn.Linear(8, 24)
            self.hidden = None

        def forward(self, ids):
            if self.hidden is not None:
                self.hidden = tuple(part.detach() for part in self.hidden)
            output, self.hidden = self.rnn(self.drop(self.encoder(ids.t())), self.hidden)
            return self.decoder(self.drop(output)).transpose(0, 1)

    return Model(), tokens, next_token_loss


@family
def transformer_language_model():
    """nn.MultiheadAttention takes another way when query, key and value are one tensor."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(24, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, 0.2)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.cross = nn.MultiheadAttention(16, 2)
            self.decoder = nn.Linear(16, 24)

        def forward(self, ids):
            x = self.embed(ids.t()) * 4
            mask = torch.full((len(x), len(x)), float("-inf")).triu(1)
            memory = self.encoder(x, mask)
            found, _ = self.cross(memory, x, value=x)
            return F.log_softmax(self.decoder(memory + found), -1).transpose(0, 1)

    return Model(), tokens, next_token_loss


@family
def mixture_of_experts():
    """Experts see some of the tokens, some perhaps none; the loss of the router is left at an
    output."""
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(16, 4)
            self.experts = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.SiLU(),
                                                        nn.Linear(16, 16)) for _ in range(4)])

        def forward(self, x):
            flat = x.reshape(-1, 16)
            chances = F.softmax(self.router(flat), -1)
            weights, chosen = chances.topk(2)
            weights = weights / weights.sum(-1, keepdim=True)
            result = torch.zeros_like(flat)
            for number, expert in enumerate(self.experts):
                rows, places = torch.where(chosen == number)
                if len(rows):
                    result.index_add_(0, rows, expert(flat[rows]) * weights[rows, places, None])
            result = result.view_as(x)
            result.balance = (chances.mean(0) ** 2).sum()
            return result

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(24, 16), nn.LayerNorm(16)
            self.mixture, self.head = Mixture(), nn.Linear(16, 24)

        def forward(self, ids):
            x = self.embed(ids)
            y = self.mixture(self.norm(x))
            self.balance = y.balance
            return self.head(x + y)

    def loss(model, ids):
        return next_token_loss(model, ids) + 0.1 * model.balance

    return Model(), tokens, loss


@family
def tied_weight_with_main_grad():
    """As Megatron does it: a weight is given to a layer, whose backward adds to its main_grad."""
    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            weight.main_grad.add_(gradient.flatten(0, 1).t() @ x.flatten(0, 1))
            return gradient @ weight, None

    class Output(nn.Module):
        def forward(self, x, weight=None):
            return Fused.apply(x, weight)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layer = nn.Embedding(24, 8), nn.Linear(8, 8)
            self.output = Output()
            self.embed.weight.main_grad = torch.zeros(24, 8)

        def forward(self, ids):
            x = self.embed(ids)
            return self.output(x + self.layer(x), weight=self.embed.weight)

    return Model(), tokens, next_token_loss


# ---- vision ----

class VitBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop_path = nn.Identity()

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * 0.35).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.drop_path(self.attend(self.norm1(x)))
        return x + self.drop_path(self.fc2(F.gelu(self.fc1(self.norm2(x)))))


@family
def vision_transformer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 16, 4, 4)
            self.cls_token = nn.Parameter(torch.randn(1, 1, 16) * 0.02)
            self.pos_embed = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
            self.blocks = nn.Sequential(VitBlock(16), VitBlock(16))
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
            return self.head(self.blocks(x)[:, 0])

    return Model(), images, class_loss


@family
def convnext():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.dwconv = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.norm = nn.LayerNorm(8)
            self.pwconv1, self.pwconv2 = nn.Linear(8, 32), nn.Linear(32, 8)
            self.gamma = nn.Parameter(1e-1 * torch.ones(8))

        def forward(self, x):
            y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
            y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
            return x + y.permute(0, 3, 1, 2)

    model = nn.Sequential(nn.Conv2d(3, 8, 2, 2), Block(), Block(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(8, 4))
    return model, images, class_loss


@family
def swin():
    """Windows, shifted; views of views."""
    class Block(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.shift = shift
            self.norm, self.mlp = nn.LayerNorm(16), nn.Linear(16, 16)
            self.qkv, self.proj = nn.Linear(16, 48), nn.Linear(16, 16)
            self.bias = nn.Parameter(torch.zeros(2, 4, 4))

        def forward(self, x):
            shortcut = x
            x = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
            windows = x.view(-1, 2, 2, 2, 2, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 16)
            q, k, v = self.qkv(windows).reshape(-1, 4, 3, 2, 8).permute(2, 0, 3, 1, 4)
            weights = ((q * 0.35) @ k.transpose(-2, -1) + self.bias).softmax(-1)
            y = self.proj((weights @ v).transpose(1, 2).reshape(-1, 4, 16))
            y = y.view(-1, 2, 2, 2, 2, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, 16)
            x = shortcut + torch.roll(y, (self.shift, self.shift), (1, 2))
            return x + F.gelu(self.mlp(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, 16, 2, 2)
            self.blocks = nn.ModuleList([Block(0), Block(1)])
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            x = self.embed(x).permute(0, 2, 3, 1)
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean((1, 2)))

    return Model(), images, class_loss


@family
def resnet_in_place():
    """Batch norm, activations and residuals in place."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
            self.bn1, self.bn2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x
            return self.relu(y)

    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8),
                          nn.LeakyReLU(0.1, inplace=True), nn.MaxPool2d(2), Block(), Block(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3, inplace=True),
                          nn.Linear(8, 4))
    return model, images, class_loss


# ---- diffusion ----

@family
def diffusion_transformer():
    """Shifts and scales of every block come out of one condition."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16, elementwise_affine=False)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.adaLN = nn.Sequential(nn.SiLU(), nn.Linear(16, 48))

        def forward(self, x, condition):
            shift, scale, gate = self.adaLN(condition).chunk(3, dim=1)
            y = self.norm(x) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
            return x + gate.unsqueeze(1) * self.mlp(y)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.time = nn.Linear(4, 16), nn.Linear(1, 16)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.final = nn.Linear(16, 4)

        def forward(self, x):
            condition = self.time(x.mean((1, 2))[:, None])
            h = self.embed(x)
            for block in self.blocks:
                h = block(h, condition)
            return self.final(h)

    def batch(generator):
        return torch.randn(2, 5, 4, generator=generator)

    return Model(), batch, lambda model, x: F.mse_loss(model(x + torch.randn_like(x)).float(), x)


@family
def diffusion_unet():
    """Skips over several levels; activations in place after group norms."""
    class Residual(nn.Module):
        def __init__(self, incoming, outgoing):
            super().__init__()
            self.norm, self.act = nn.GroupNorm(2, incoming), nn.SiLU(inplace=True)
            self.conv = nn.Conv2d(incoming, outgoing, 3, padding=1)
            self.time = nn.Linear(8, outgoing)
            self.skip = (nn.Conv2d(incoming, outgoing, 1) if incoming != outgoing
                         else nn.Identity())

        def forward(self, x, time):
            y = self.conv(self.act(self.norm(x)))
            return self.skip(x) + y + self.time(time)[:, :, None, None]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(1, 8), nn.SiLU())
            self.enter = nn.Conv2d(3, 4, 3, padding=1)
            self.down, self.middle = Residual(4, 8), Residual(8, 8)
            self.up, self.leave = Residual(12, 4), nn.Conv2d(4, 3, 1)

        def forward(self, x):
            time = self.time(x.mean((1, 2, 3))[:, None])
            first = self.enter(x)
            h = self.middle(F.avg_pool2d(self.down(first, time), 2), time)
            h = torch.cat([F.interpolate(h, scale_factor=2.0), first], 1)
            return self.leave(self.up(h, time))

    return Model(), images, lambda model, x: F.mse_loss(model(x + torch.randn_like(x)).float(), x)


@family
def gradient_penalty():
    """Backward of a backward."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

        def forward(self, x):
            return self.critic(x)

    def loss(model, x):
        x = x.clone().requires_grad_(True)
        score = model(x).float()
        slope, = torch.autograd.grad(score.sum(), x, create_graph=True)
        return score.mean() + ((slope.norm(dim=1) - 1) ** 2).mean()

    return Model(), lambda generator: torch.randn(4, 6, generator=generator), loss
