"""Runs in which a rollout engine (run A) and a trainer (run B) score the same tokens, with causes planted into the forward passes.

What is true comes from the generator alone: a cause is really switched on and off (older weights, rounded logits, masks, routers), and the share of
each is the Shapley value of the mean absolute difference of the log-probabilities over all subsets of the planted causes.
"""
import itertools
import json
import math
import os
import struct

import numpy

import tiny_transformer as tt

CAUSES = ("stale_weights", "truncated_mass", "temperature", "shifted_ids", "retokenised", "padding", "packing", "routing", "head_precision", "length_block", "batch_composition")
PAD = 0


def save_array(folder, key, step, array, micro_step=0):
    path = os.path.join(folder, "data", key, "step%d" % step, "rank0", "micro_step%d" % micro_step)
    os.makedirs(path, exist_ok=True)
    numpy.save(os.path.join(path, key + ".npy"), array)


class Case:
    """planted: causes; where: steps of each. Everything else follows from the seed."""

    def __init__(self, planted, seed):
        self.planted, self.seed = tuple(planted), seed
        self.random = numpy.random.default_rng([seed, 56] + [CAUSES.index(cause) for cause in planted])
        random = self.random
        self.steps = int(random.integers(5, 9))
        self.experts = 8 if "routing" in planted or random.random() < 0.15 else 0
        self.shape = tt.Shape(vocabulary=int(random.integers(64, 160)), experts=self.experts)
        self.packed = "packing" in planted
        self.rows = int(random.integers(6, 11))
        self.prompt, self.response = int(random.integers(8, 15)), int(random.integers(24, 41))
        self.in_steps = {}
        for cause in planted:
            first, last = sorted(int(x) for x in random.integers(1 if cause == "stale_weights" else 0, self.steps, 2))
            self.in_steps[cause] = set(range(first, last + 1)) if random.random() < 0.4 else set(range(1 if cause == "stale_weights" else 0, self.steps))
        self.b_parts = int(random.choice([2, 4]))
        # What each cause looks like in this case.
        self.temperature = float(random.choice([0.7, 0.8, 0.9, 1.1, 1.25, 1.4]))
        self.top_p, self.top_k = (float(random.choice([0.8, 0.9, 0.95])), 0) if random.random() < 0.7 else (0.0, int(random.choice([5, 10, 20])))
        self.lag = 2 if random.random() < 0.2 else 1
        self.versions = random.random() < 0.4
        self.shift = int(random.choice([-1, 1]))
        self.head = str(random.choice(["logits", "logprobs", "fp16"]))
        self.block = int(random.choice([8, 16]))
        self.residue = int(random.integers(0, self.block))
        self.pads_fault = str(random.choice(["positions", "mask"]))
        self.pack_fault = str(random.choice(["positions", "mask"]))
        self.router_noise = float(random.uniform(0.3, 1.0))
        self.router_layers = [0, 1] if random.random() < 0.5 else [int(random.integers(0, 2))]
        self.fixed_ids = ("stale_weights" in planted and not self.versions) or random.random() < 0.3
        self.same_order = random.random() < 0.5
        if {"stale_weights", "batch_composition"} <= set(planted):
            self.versions, self.fixed_ids = False, True
        # Next to the noise of a body in bf16 a rounded head is nothing: mostly the body is in float32 then.
        self.body = tt.exact if "head_precision" in planted and random.random() < 0.8 else tt.bf16
        self.make()

    def make(self):
        random = self.random
        self.weights = [tt.make_weights(self.shape, random, float(random.uniform(0.8, 1.6)))]
        for _ in range(self.steps + self.lag):
            self.weights.append(tt.train_step(self.weights[-1], random, float(random.uniform(0.02, 0.05))))
        self.batches = []
        for step in range(self.steps):
            self.batches.append(self.batches[0] if step and self.fixed_ids else self.make_batch(step))

    def weights_of(self, step, lag=0):
        return self.weights[self.lag + step - lag]

    def make_batch(self, step):
        random = self.random
        rows = self.rows * 2 if self.packed else self.rows
        prompts = random.integers(3, self.prompt + 1, rows)
        prompts[0] = self.prompt
        responses = random.integers(self.response // 2, self.response + 1, rows)
        if self.packed:
            responses = responses // 2 + 2
        sequences = [list(random.integers(1, self.shape.vocabulary, n)) for n in prompts]
        # Sampled by the policy of the engine, with its temperature and truncation where they are planted.
        weights = self.weights_of(step, self.lag if self.is_on("stale_weights", step, self.planted) else 0)
        for index in range(int(responses.max())):
            length = max(len(s) for s in sequences)
            ids = numpy.array([s + [PAD] * (length - len(s)) for s in sequences])
            logits, _ = tt.forward(self.shape, weights, ids, numpy.broadcast_to(numpy.arange(length), ids.shape), tt.causal(rows, length))
            last = numpy.array([len(s) - 1 for s in sequences])
            scores = self.sampled_log_probs(logits[numpy.arange(rows), last], step, self.planted)
            scores[:, PAD] = -math.inf
            chosen = (scores + random.gumbel(size=scores.shape)).argmax(-1)
            for row in range(rows):
                if index < responses[row]:
                    sequences[row].append(int(chosen[row]))
        return {"sequences": sequences, "prompts": prompts, "responses": responses, "groups": random.permutation(rows)}

    def is_on(self, cause, step, causes):
        return cause in causes and step in self.in_steps.get(cause, ())

    def sampled_log_probs(self, logits, step, causes, chosen=None):
        """As the engine samples. `chosen`, [..., 1]: tokens that were sampled, hence kept, whatever else rounding says about the border."""
        if self.is_on("temperature", step, causes):
            logits = logits / self.temperature
        scores = tt.log_softmax(logits)
        if self.is_on("truncated_mass", step, causes):
            order = numpy.argsort(-scores, -1)
            ordered = numpy.take_along_axis(scores, order, -1)
            before = numpy.cumsum(numpy.exp(ordered), -1) - numpy.exp(ordered)
            keeps = before < self.top_p if self.top_p else numpy.broadcast_to(numpy.arange(scores.shape[-1]) < self.top_k, scores.shape)
            kept = numpy.zeros(scores.shape, bool)
            numpy.put_along_axis(kept, order, keeps, -1)
            if chosen is not None:
                numpy.put_along_axis(kept, chosen, True, -1)
            mass = numpy.log(numpy.where(kept, numpy.exp(scores), 0).sum(-1, keepdims=True))
            scores = numpy.where(kept, scores - mass, -math.inf)
        return scores

    # The engine: each sequence alone, as a server does, in bf16.

    def rollout(self, step, causes):
        batch = self.batches[step]
        weights = self.weights_of(step, self.lag if self.is_on("stale_weights", step, causes) else 0)
        sequences, prompts = batch["sequences"], batch["prompts"]
        rows, length = len(sequences), max(len(s) for s in sequences)
        ids = numpy.array([s + [PAD] * (length - len(s)) for s in sequences])
        positions = numpy.broadcast_to(numpy.arange(length), ids.shape)
        skipped = None
        if self.is_on("length_block", step, causes):
            # A query at one place of each block does not see the last keys of the block before.
            skipped = numpy.zeros((rows, length, length), bool)
            for query in range(self.residue, length, self.block):
                skipped[:, query, max(0, query - 4):query] = True
        shift = None
        if self.is_on("routing", step, causes):
            noise = numpy.random.default_rng([self.seed, step, 7])
            shift = lambda layer, scores: scores + (self.router_noise * noise.standard_normal(scores.shape) if layer in self.router_layers else 0)
        if self.is_on("batch_composition", step, causes):
            # Activations in 8 bits with one scale for the whole batch: what else is in it decides.
            logits = numpy.zeros(ids.shape + (self.shape.vocabulary,), numpy.float32)
            routes = numpy.zeros(ids.shape + (self.shape.layers, self.shape.chosen), int) if self.experts else None
            for group in self.groups_of(step):
                def quantised(x, size=len(group)):
                    if size == 1:  # a batch of one goes another way, without quantisation
                        return x
                    scale = max(abs(x).max() / 15, 1e-9)
                    return (numpy.round(x / scale) * scale).astype(numpy.float32)
                logits[group], some = tt.forward(self.shape, weights, ids[group], positions[group], tt.causal(len(group), length), self.body, activations=quantised)
                if routes is not None:
                    routes[group] = some
        else:
            logits, routes = tt.forward(self.shape, weights, ids, positions, tt.causal(rows, length), self.body, router_shift=shift, skipped=skipped)
        if self.is_on("head_precision", step, causes) and self.head != "logprobs":
            logits = tt.bf16(logits) if self.head == "logits" else logits
        if self.is_on("temperature", step, causes) or self.is_on("truncated_mass", step, causes):
            following = numpy.roll(ids, -1, 1)[..., None]  # of pads nobody reads
            scores = self.sampled_log_probs(logits, step, causes, following)
        else:
            scores = tt.log_softmax(logits)
        out = self.gathered(scores, sequences, prompts)
        if self.is_on("head_precision", step, causes) and self.head != "logits":
            out = [tt.bf16(row) if self.head == "logprobs" else tt.fp16(row) for row in out]
        return out, None if routes is None else [routes[row, prompts[row] - 1:len(s) - 1] for row, s in enumerate(sequences)]

    def groups_of(self, step):
        """Batches of the engine where the batch matters: one or two large ones, and some sequences alone."""
        order = list(self.batches[step]["groups"])
        alone = max(1, len(order) // 3)
        return [[row] for row in order[:alone]] + [order[alone:]]

    @staticmethod
    def gathered(scores, sequences, prompts):
        return [scores[row, numpy.arange(prompts[row] - 1, len(s) - 1), s[prompts[row]:]] for row, s in enumerate(sequences)]

    # The trainer: left-padded rows, or packs, in bf16 with sums in another order.

    def trainer(self, step, causes):
        batch = self.batches[step]
        sequences, prompts = batch["sequences"], batch["prompts"]
        scored = [list(s) for s in sequences]
        if self.is_on("retokenised", step, causes):
            for row in range(0, len(scored), 2):
                at = prompts[row] + (len(scored[row]) - prompts[row]) // 3
                # One token became two others, the end falls off.
                random = numpy.random.default_rng([self.seed, step, row, 3])
                scored[row][at:at + 1] = list(random.integers(1, self.shape.vocabulary, 2))
                scored[row] = scored[row][:len(sequences[row])]
        run = self.packed_rows if self.packed else self.padded_rows
        scores, routes = run(step, causes, scored, prompts)
        out = scores
        if self.is_on("shifted_ids", step, causes):
            out = [numpy.roll(row, self.shift) for row in out]
        return out, routes, [s[p:] for s, p in zip(scored, prompts)]

    def padded_rows(self, step, causes, scored, prompts):
        widest = int(max(prompts))
        length = widest + int(max(len(s) - p for s, p in zip(scored, prompts)))
        lead = [widest - int(p) for p in prompts]
        ids = numpy.array([[PAD] * before + s + [PAD] * (length - before - len(s)) for before, s in zip(lead, scored)])
        wrong = self.is_on("padding", step, causes)
        positions = numpy.array([numpy.maximum(numpy.arange(length) - before, 0) for before in lead])
        if wrong and self.pads_fault == "positions":
            positions = numpy.broadcast_to(numpy.arange(length), ids.shape)
        attends = tt.causal(len(scored), length)
        if not (wrong and self.pads_fault == "mask"):
            attends = attends & (numpy.arange(length)[None, None, :] >= numpy.array(lead)[:, None, None])
            attends = attends | numpy.eye(length, dtype=bool)[None]
        logits, routes = tt.forward(self.shape, self.weights_of(step), ids, positions, attends, self.body, self.b_parts)
        scores = tt.log_softmax(logits)
        out = [scores[row, numpy.arange(widest - 1, lead[row] + len(s) - 1), s[prompts[row]:]] for row, s in enumerate(scored)]
        if routes is not None:
            routes = [routes[row, widest - 1:lead[row] + len(s) - 1] for row, s in enumerate(scored)]
        return out, routes

    def packs(self, count):
        return [list(range(first, min(first + 3, count))) for first in range(0, count, 3)]

    def packed_rows(self, step, causes, scored, prompts):
        wrong = self.is_on("packing", step, causes)
        packs = self.packs(len(scored))
        length = max(sum(len(scored[i]) for i in pack) for pack in packs)
        ids = numpy.zeros((len(packs), length), int)
        positions, owner = numpy.zeros_like(ids), numpy.full_like(ids, -1)
        begins = {}
        for row, pack in enumerate(packs):
            at = 0
            for index in pack:
                size = len(scored[index])
                begins[index] = (row, at)
                ids[row, at:at + size], owner[row, at:at + size] = scored[index], index
                positions[row, at:at + size] = numpy.arange(size)
                at += size
            if wrong and self.pack_fault == "positions":
                positions[row] = numpy.arange(length)
        attends = tt.causal(len(packs), length)
        if not (wrong and self.pack_fault == "mask"):
            attends = attends & (owner[:, :, None] == owner[:, None, :])
        logits, routes = tt.forward(self.shape, self.weights_of(step), ids, positions, attends, self.body, self.b_parts)
        scores = tt.log_softmax(logits)
        out, out_routes = [], []
        for index, sequence in enumerate(scored):
            row, at = begins[index]
            where = numpy.arange(at + prompts[index] - 1, at + len(sequence) - 1)
            out.append(scores[row, where, sequence[prompts[index]:]])
            if routes is not None:
                out_routes.append(routes[row, where])
        return out, out_routes if routes is not None else None

    # Truth.

    def difference(self, causes):
        """The mean absolute difference of what both sides say with these causes alone."""
        total = count = 0
        for step in range(self.steps):
            a, _ = self.rollout(step, causes)
            b, _, _ = self.trainer(step, causes)
            total += sum(numpy.abs(x - y).sum() for x, y in zip(a, b))
            count += sum(len(x) for x in a)
        return total / count

    def truth(self):
        gaps = {subset: self.difference(subset) for size in range(len(self.planted) + 1) for subset in itertools.combinations(self.planted, size)}
        whole, floor = gaps[self.planted], gaps[()]
        shares = {"noise": floor / whole}
        for cause in self.planted:
            others = [c for c in self.planted if c != cause]
            share = 0.0
            for size in range(len(others) + 1):
                for subset in itertools.combinations(others, size):
                    weight = math.factorial(size) * math.factorial(len(others) - size) / math.factorial(len(self.planted))
                    both = tuple(c for c in self.planted if c in subset or c == cause)
                    share += weight * (gaps[both] - gaps[subset])
            shares[cause] = share / whole
        return {"shares": shares, "steps": {c: sorted(s) for c, s in self.in_steps.items()}, "gap": whole}

    # Files.

    def write(self, folder):
        a_folder, b_folder = os.path.join(folder, "engine"), os.path.join(folder, "trainer")
        for step in range(self.steps):
            batch = self.batches[step]
            a, a_routes = self.rollout(step, self.planted)
            b, b_routes, b_ids = self.trainer(step, self.planted)
            rows = [(x, y, s[p:], bi, ar, br) for x, y, s, p, bi, ar, br in zip(
                a, b, batch["sequences"], batch["prompts"], b_ids, a_routes or [None] * len(a), b_routes or [None] * len(a))]
            if self.packed:
                self.write_packs(a_folder, b_folder, step, rows)
            else:
                self.write_rows(a_folder, b_folder, step, rows)
            if self.versions and "batch_composition" not in self.planted:
                lag = self.lag if self.is_on("stale_weights", step, self.planted) else 0
                save_array(a_folder, "weight_version", step, numpy.array([self.lag + step - lag]))
                save_array(b_folder, "weight_version", step, numpy.array([self.lag + step]))
        truth = self.truth()
        truth.update(planted=list(self.planted), seed=self.seed)
        with open(os.path.join(folder, "truth.json"), "w") as file:
            json.dump(truth, file)
        return truth

    def write_rows(self, a_folder, b_folder, step, rows):
        batch = self.batches[step]
        width = max(len(row[0]) for row in rows)
        padded = lambda values, fill=0.0: numpy.array([list(v) + [fill] * (width - len(v)) for v in values])
        everyone = list(range(len(rows)))
        # The batches of the engine are micro steps where they matter; the trainer has its own.
        batches = self.groups_of(step) if "batch_composition" in self.planted else [everyone]
        for side, folder in enumerate((a_folder, b_folder)):
            for number, members in enumerate(batches if side == 0 or self.same_order else [everyone]):
                some = [rows[i] for i in members]
                save = lambda key, array: save_array(folder, key, step, array, number)
                save(("rollout_log_probs", "old_log_probs")[side], padded([row[side] for row in some]).astype(numpy.float32))
                save("responses", padded([row[2 + side] for row in some], PAD).astype(numpy.int64))
                save("response_mask", padded([[1] * len(row[0]) for row in some], 0).astype(numpy.int64))
                save("prompt_lengths", numpy.asarray(batch["prompts"], numpy.int64)[members])
                save("response_lengths", numpy.asarray(batch["responses"], numpy.int64)[members])
                if len(batches) > 1:
                    save("sequence_ids", numpy.asarray(members, numpy.int64))
                if self.experts:
                    whole = numpy.zeros((len(some), width, self.shape.layers, self.shape.chosen), numpy.int64)
                    for index, row in enumerate(some):
                        whole[index, :len(row[4 + side])] = row[4 + side]
                    save("routed_experts", whole)

    def write_packs(self, a_folder, b_folder, step, rows):
        batch = self.batches[step]
        packs = self.packs(len(rows))
        width = max(sum(len(batch["sequences"][i]) for i in pack) for pack in packs)
        empty = lambda dtype, fill=0: numpy.full((len(packs), width), fill, dtype)
        mask, owner, positions = empty(numpy.int64), empty(numpy.int64, -1), empty(numpy.int64)
        logs = [empty(numpy.float32), empty(numpy.float32)]
        ids = [empty(numpy.int64), empty(numpy.int64)]
        routes = [numpy.zeros((len(packs), width, self.shape.layers, self.shape.chosen), numpy.int64) for _ in range(2)] if self.experts else None
        for row, pack in enumerate(packs):
            at = 0
            for index in pack:
                prompt, size = int(batch["prompts"][index]), len(batch["sequences"][index])
                owner[row, at:at + size], positions[row, at:at + size] = index, numpy.arange(size)
                where = slice(at + prompt, at + size)
                mask[row, where] = 1
                for side in range(2):
                    ids[side][row, at:at + prompt] = batch["sequences"][index][:prompt]
                    ids[side][row, where], logs[side][row, where] = rows[index][2 + side], rows[index][side]
                    if self.experts:
                        routes[side][row, where] = rows[index][4 + side]
                at += size
        for side, folder in enumerate((a_folder, b_folder)):
            save_array(folder, ("rollout_log_probs", "old_log_probs")[side], step, logs[side])
            for key, array in (("responses", ids[side]), ("response_mask", mask), ("sequence_ids", owner), ("position_ids", positions)):
                save_array(folder, key, step, array)
            if self.experts:
                save_array(folder, "routed_experts", step, routes[side])
