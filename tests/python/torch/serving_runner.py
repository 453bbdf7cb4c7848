"""A server in small: what the model runners of vLLM and SGLang do around a forward. Requests join and leave a flattened batch (continuous
batching); a draft model proposes a token that the target model checks; one debugger, built from a path."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 32


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, hidden):
        return hidden + self.down(F.gelu(self.up(self.norm(hidden))))


class Decoder(nn.Module):
    """A row per token of the batch; a request's history is its last state, which stands in for a KV cache."""

    def __init__(self, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens, history):
        hidden = self.embed(tokens) + history
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden, self.head(hidden)


class Request:
    def __init__(self, name, prompt, new_tokens):
        self.name = name
        self.waiting = list(prompt)  # tokens that the next forward takes
        self.answer = []
        self.new_tokens = new_tokens
        self.history = None

    def is_done(self):
        return len(self.answer) >= self.new_tokens


class Runner:
    """`debugger`: None, or a PrecisionDebugger."""

    def __init__(self, debugger, width=16, layers=2, rank=None):
        torch.manual_seed(5)
        self.target = Decoder(width, layers).eval()
        self.draft = Decoder(width, 1).eval()
        self.debugger = debugger
        self._rank = rank

    @torch.inference_mode()
    def execute_model(self, requests):
        """One forward of all requests; each gets a token."""
        scheduled = {request.name: len(request.waiting) for request in requests}
        if self.debugger is not None:
            self.debugger.start(model=[self.target, self.draft], rank_id=self._rank, scheduled_tokens=scheduled)
        try:
            tokens = torch.tensor([token for request in requests for token in request.waiting])
            width = self.target.embed.embedding_dim
            history = torch.cat([(torch.zeros(width) if request.history is None else request.history).expand(
                len(request.waiting), width) for request in requests])
            proposed = self.draft(tokens, history)[1].argmax(-1)
            hidden, logits = self.target(tokens, history)
            end = 0
            for request in requests:
                end += len(request.waiting)
                request.history = hidden[end - 1].clone()
                chosen = int(logits[end - 1].argmax())
                request.answer.append(chosen if chosen == int(proposed[end - 1]) else (chosen + 1) % VOCABULARY)
                request.waiting = request.answer[-1:]
        finally:
            if self.debugger is not None:
                self.debugger.stop()
                self.debugger.step()


def serve(runner, arriving, after_step=lambda step: None):
    """{name: answer}. `arriving`: {step: [(name, prompt, number of new tokens)]}."""
    running, answers, step = [], {}, 0
    while running or any(due >= step for due in arriving):
        running += [Request(*given) for given in arriving.get(step, ())]
        if running:
            runner.execute_model(running)
        for request in running:
            if request.is_done():
                answers[request.name] = request.answer
        running = [request for request in running if not request.is_done()]
        after_step(step)
        step += 1
    return answers


ARRIVING = {0: [("a", [1, 2, 3], 4)], 1: [("b", [4, 5], 2), ("c", [6], 5)], 3: [("d", [7, 8, 9, 10], 2)]}
# Which requests are in which step, and in which rows: prompts at once, then a token per step.
BATCHES = [{"a": 3}, {"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1, "d": 4}, {"c": 1, "d": 1}, {"c": 1}]
