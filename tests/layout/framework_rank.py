"""One rank of a real framework's training, captured.   usage: framework_rank.py WAY RANK WORLD FOLDER [fault]

Every parameter is filled from its global name, so that all layouts of a model begin with the same weights.
fault: one module computes something else, on all ranks.
"""
import json
import os
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
for _name in ("", "megatron", "torchtitan"):
    sys.path.append(os.path.join(os.path.dirname(HERE), "python", "frameworks", _name))

WAY, RANK, WORLD, FOLDER, FAULT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], "fault" in sys.argv[5:]
if WAY.startswith("megatron"):
    import megatron_on_cpu  # noqa: F401  before anything of Megatron
if WAY.startswith("torchtitan"):
    import triton_by_name  # noqa: F401  before anything of torchtitan

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

VOCABULARY, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 32, 8, 4, 32, 4, 2


def whole_value(name, shape):
    """The weight of this global name and shape, the same in every process."""
    value = torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.2 * value
    return 0.1 * value if len(shape) == 1 else value / shape[-1] ** 0.5


def data(step):
    """[batch, length + 1] tokens."""
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)


def start(models):
    """The debugger of this rank; what the judge has to know of its names is written beside the dump."""
    from msprobe.pytorch import PrecisionDebugger
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "config%d.json" % RANK)
    with open(path, "w") as file:
        json.dump({"task": "tensor", "level": "mix" if "mix" in WAY else "L0", "dump_path": os.path.join(FOLDER, "dump"), "tensor": {}}, file)
    return PrecisionDebugger(path)


def tell(parameters, layers=None):
    with open(os.path.join(FOLDER, "told%d.json" % RANK), "w") as file:
        json.dump({"layers": layers or {}, "experts": {}, "parameters": parameters}, file)


def meet(backend="gloo"):
    if WORLD > 1 or WAY.startswith(("megatron", "deepspeed", "torchtitan")):
        dist.init_process_group(backend, init_method="file://" + os.path.join(FOLDER, "meeting"), rank=RANK, world_size=WORLD)


def spoil(module):
    """The planted fault: what this module gives is one and a half times too large."""
    if not FAULT:
        return
    inner = module.forward

    def forward(*arguments, **named):
        from msprobe import _native
        result = inner(*arguments, **named)
        before = _native.inside(True)
        try:
            return (result[0] * 1.5,) + tuple(result[1:]) if isinstance(result, tuple) else result * 1.5
        finally:
            _native.inside(before)

    module.forward = forward


# ---- Megatron-core ----


def megatron():
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import initialize_rng_tracker
    from megatron.core.transformer.transformer_config import TransformerConfig
    meet()
    words = WAY.split("-")
    tp, pp = (WORLD if "tp" in words else 1), (WORLD if "pp" in words else 1)
    sizes = dict(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp)
    if "vpp" in words and pp > 1:
        sizes["virtual_pipeline_model_parallel_size"] = 2
    layers = 4 if "vpp" in words else LAYERS
    parallel_state.initialize_model_parallel(**sizes)
    initialize_rng_tracker(inference_rng_tracker=True)
    is_llama = "llama" in words
    more = dict(normalization="RMSNorm" if is_llama else "LayerNorm")
    if "swiglu" in words or is_llama:
        more.update(gated_linear_unit=True, activation_func=F.silu, add_bias_linear=False)
    config = TransformerConfig(
        num_layers=layers, hidden_size=WIDTH, num_attention_heads=HEADS, ffn_hidden_size=2 * WIDTH, use_cpu_initialization=True,
        pipeline_dtype=torch.float32, hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False,
        bias_activation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False,
        deallocate_pipeline_outputs=False, sequence_parallel="sp" in words and tp > 1, **more, **sizes)
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=False, overlap_grad_reduce=False, check_for_nan_in_grad=False)
    chunks, names, parameters, count = [], {}, {}, sizes.get("virtual_pipeline_model_parallel_size", 1)
    for number in range(count):
        stage = number if count > 1 else None
        first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage) if count > 1 else \
            parallel_state.is_pipeline_first_stage()
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage) if count > 1 else \
            parallel_state.is_pipeline_last_stage()
        layer_spec = get_gpt_layer_local_spec(normalization="RMSNorm") if is_llama else get_gpt_layer_local_spec()
        model = GPTModel(config, layer_spec, VOCABULARY, LENGTH, position_embedding_type="rope",
                         share_embeddings_and_output_weights=False, pre_process=first, post_process=last,
                         **(dict(vp_stage=stage) if count > 1 else {}))
        prefix = "%d." % number if count > 1 else ""
        for index, layer in enumerate(model.decoder.layers):
            here, there = "decoder.layers.%d" % index, "decoder.layers.%d" % (layer.layer_number - 1)
            names[prefix + "module." + here] = there
        for name, parameter in model.named_parameters():
            path = name
            for index, layer in enumerate(model.decoder.layers):
                if name.startswith("decoder.layers.%d." % index):
                    path = "decoder.layers.%d.%s" % (layer.layer_number - 1, name.split(".", 3)[3])
            shape = list(parameter.shape)
            cut = getattr(parameter, "tensor_model_parallel", False) and tp > 1
            if cut:
                shape[parameter.partition_dim] *= tp
            value = whole_value(path, shape)
            if cut:
                blocks = 2 if "linear_fc1" in path and config.gated_linear_unit else 1
                value = torch.cat([block.chunk(tp, parameter.partition_dim)[parallel_state.get_tensor_model_parallel_rank()]
                                   for block in value.chunk(blocks, parameter.partition_dim)], parameter.partition_dim)
            with torch.no_grad():
                parameter.copy_(value)
            parameters[prefix + "module." + name] = list(parameter.shape)
        for layer in model.decoder.layers:
            if layer.layer_number == 2:
                spoil(layer.mlp.linear_fc2)
        chunks.append(DistributedDataParallel(config, ddp, model))
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-3, clip_grad=1.0 if "clip" in words else 0.0,
                                                       params_dtype=torch.float32), chunks)
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    micro = 2
    rows = BATCH // micro // (WORLD if "dp" in words else 1)

    def batches(step):
        mine = data(step).chunk(WORLD if "dp" in words else 1)[RANK if "dp" in words else 0]
        return iter(mine.split(rows))

    def forward_step(batch, model):
        ids = next(batch)
        positions = torch.arange(LENGTH).expand(rows, -1)
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)[None, None]
        output = model(ids[:, :-1].contiguous(), positions, mask, labels=ids[:, 1:].contiguous())
        return output, lambda losses: (losses.float().mean(), {"loss": losses.detach().mean()})

    debugger = start(chunks)
    for model in chunks:
        model.zero_grad_buffer()
    optimizer.zero_grad()
    given = [batches(0) for _ in chunks]
    debugger.start(model=chunks if len(chunks) > 1 else chunks[0])
    get_forward_backward_func()(
        forward_step_func=forward_step, data_iterator=given if len(chunks) > 1 else given[0],
        model=chunks if len(chunks) > 1 else chunks[0], num_microbatches=micro, seq_length=LENGTH, micro_batch_size=rows,
        forward_only=False)
    optimizer.step()
    debugger.stop()
    debugger.step()
    debugger._session.close()
    tell(parameters, names)


# ---- PyTorch: one Llama-like model ----


class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, value):
        return value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(WIDTH), Norm(WIDTH)
        self.wq, self.wk, self.wv, self.wo = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.w1, self.w3 = torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False), torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.w2 = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, value):
        x = self.norm1(value)
        b, s, _ = x.shape
        q, k, v = (w(x).view(b, s, -1, WIDTH // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, -1)
        value = value + self.wo(x)
        x = self.norm2(value)
        return value + self.w2(F.silu(self.w1(x)) * self.w3(x))


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(whole_value(name, parameter.shape))

    def forward(self, ids):
        value = self.embed(ids)
        for layer in self.layers:
            value = layer(value)
        return self.head(self.norm(value))


def train_plain(model, called, optimizer, parts, backward=None, step=None):
    """parts: over how many ranks the batch is shared."""
    debugger = start([model])
    ids = data(0).chunk(parts)[RANK % parts]
    tell({name: list(parameter.shape) for name, parameter in model.named_parameters()})
    debugger.start(model=model)
    logits = called(ids[:, :-1].contiguous())
    loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
    (backward or torch.Tensor.backward)(loss)
    (step or optimizer.step)()
    debugger.stop()
    debugger.step()
    debugger._session.close()


def fsdp2():
    from torch.distributed.fsdp import fully_shard
    meet()
    model = Llama()
    spoil(model.layers[1].w2)
    if WORLD > 1:
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    train_plain(model, model, torch.optim.AdamW(model.parameters(), lr=1e-3), WORLD)


def ddp():
    meet()
    model = Llama()
    spoil(model.layers[1].w2)
    called = torch.nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    train_plain(called if "wrapped" in WAY else model, called, torch.optim.AdamW(model.parameters(), lr=1e-3), WORLD)


def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, PrepareModuleInput, parallelize_module
    from torch.distributed.tensor import Replicate, Shard
    meet()
    model = Llama()
    spoil(model.layers[1].w2)
    if WORLD > 1:
        mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
        plan = {"wq": ColwiseParallel(), "wk": ColwiseParallel(), "wv": ColwiseParallel(), "wo": RowwiseParallel(),
                "w1": ColwiseParallel(), "w3": ColwiseParallel(), "w2": RowwiseParallel()}
        for layer in model.layers:
            parallelize_module(layer, mesh, plan)
        parallelize_module(model, mesh, {"embed": RowwiseParallel(input_layouts=Replicate()),
                                         "head": ColwiseParallel(output_layouts=Replicate())})
    train_plain(model, model, torch.optim.AdamW(model.parameters(), lr=1e-3), 1)


def deepspeed():
    import deepspeed as framework
    os.environ.update(RANK=str(RANK), LOCAL_RANK=str(RANK), WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=os.environ["MEETING_PORT"])
    framework.init_distributed("gloo")
    model = Llama()
    spoil(model.layers[1].w2)
    engine, optimizer, _, _ = framework.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        config={"train_micro_batch_size_per_gpu": BATCH // WORLD, "zero_allow_untested_optimizer": True,
                "zero_optimization": {"stage": int(WAY[-1]), "reduce_bucket_size": 2000, "allgather_bucket_size": 2000,
                                      "stage3_prefetch_bucket_size": 2000, "stage3_param_persistence_threshold": 100}})
    train_plain(engine.module, engine, optimizer, WORLD, engine.backward, engine.step)
    import glob
    for path in glob.glob("/dev/shm/deepspeed_*_%s_%d" % (os.environ["MASTER_PORT"], RANK)):
        os.remove(path)


def torchtitan():
    import llama as titan  # of tests/python/frameworks/torchtitan
    from torch.distributed.tensor import DTensor, distribute_tensor
    meet()
    way = "tensor" if "tensor" in WAY else "fsdp"
    titan.DEGREES["tensor"] = dict(tensor_parallel_degree=WORLD, data_parallel_shard_degree=1)
    titan.DEGREES["fsdp"] = dict(data_parallel_shard_degree=WORLD)
    model = titan.shared_out(way)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = whole_value(name, parameter.shape)
            if isinstance(parameter, DTensor):
                value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
            parameter.copy_(value)
    layers = list(model.layers.values()) if hasattr(model.layers, "values") else list(model.layers)
    spoil(layers[1].feed_forward)
    loss_of = titan.CrossEntropyLoss.Config().build()
    optimizers = titan.default_adamw(lr=1e-2).build(model_parts=[model])
    parts = WORLD if way == "fsdp" else 1
    debugger = start([model])
    ids = data(0).chunk(parts)[RANK % parts] % titan.VOCABULARY
    tell({name: list(parameter.shape) for name, parameter in model.named_parameters()})
    debugger.start(model=model)
    loss, _ = loss_of(model(ids[:, :-1].contiguous(), torch.arange(LENGTH).expand(len(ids), -1)), ids[:, 1:].contiguous())
    loss.backward()
    optimizers.step()
    debugger.stop()
    debugger.step()
    debugger._session.close()


def transformers():
    """Llama of Transformers with the weights that Megatron's has, taken apart."""
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=HEADS, rms_norm_eps=1e-5, max_position_embeddings=LENGTH, tie_word_embeddings=False, attn_implementation="eager"))
    names = {"input_layernorm": "input_layernorm", "post_attention_layernorm": "pre_mlp_layernorm",
             "self_attn.o_proj": "self_attention.linear_proj", "mlp.down_proj": "mlp.linear_fc2"}
    with torch.no_grad():
        for number, layer in enumerate(model.model.layers):
            path = "decoder.layers.%d." % number
            fused = whole_value(path + "self_attention.linear_qkv.weight", [3 * WIDTH, WIDTH]).view(HEADS, 3, WIDTH // HEADS, WIDTH)
            for place, projection in enumerate((layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)):
                projection.weight.copy_(fused[:, place].reshape(WIDTH, WIDTH))
            gate, up = whole_value(path + "mlp.linear_fc1.weight", [4 * WIDTH, WIDTH]).chunk(2)
            layer.mlp.gate_proj.weight.copy_(gate)
            layer.mlp.up_proj.weight.copy_(up)
            for mine, theirs in names.items():
                weight = layer.get_submodule(mine).weight
                weight.copy_(whole_value(path + theirs + ".weight", list(weight.shape)))
        model.model.embed_tokens.weight.copy_(whole_value("embedding.word_embeddings.weight", [VOCABULARY, WIDTH]))
        model.model.norm.weight.copy_(whole_value("decoder.final_layernorm.weight", [WIDTH]))
        model.lm_head.weight.copy_(whole_value("output_layer.weight", [VOCABULARY, WIDTH]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train_plain(model, lambda ids: model(ids, use_cache=False).logits, optimizer, 1)


WAYS = {"megatron": megatron, "transformers": transformers, "fsdp2": fsdp2, "ddp": ddp, "dtensor": dtensor, "deepspeed": deepspeed, "torchtitan": torchtitan}
WAYS[WAY.split("-")[0]]()
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
