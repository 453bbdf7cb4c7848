"""Answers of a tiny Llama with random weights in vLLM's engine, which runs in this process; one step of a capture is a batch of requests.

usage: vllm_generate.py [--capture CONFIG.json] [--eps EPS]
--eps: of the norms, as a kernel library might have its own.
"""
import argparse
import os
import tempfile

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1")  # before vLLM: its model is to be in this process
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
import transformers  # noqa: E402
import vllm  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--capture")
parser.add_argument("--eps", type=float, default=1e-6)
options = parser.parse_args()
transformers.set_seed(1)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
    max_position_embeddings=128, rms_norm_eps=options.eps))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    # enforce_eager keeps it from compiling what could then not be seen. A cache of few blocks: attention has it as its argument, whole.
    engine = vllm.LLM(folder, enforce_eager=True, skip_tokenizer_init=True, dtype="float32", max_model_len=64, max_num_seqs=4,
                      num_gpu_blocks_override=16)
debugger = PrecisionDebugger(options.capture) if options.capture else None
found = []
engine.apply_model(found.append)
sampling = vllm.SamplingParams(temperature=0, max_tokens=6, detokenize=False)
for step in range(2):
    prompts = [{"prompt_token_ids": [10 * step + request + token for token in range(3, 6 + request)]} for request in range(3)]
    if debugger:
        debugger.start(model=found[0])
    answers = engine.generate(prompts, sampling, use_tqdm=False)
    if debugger:
        debugger.stop()
        debugger.step()
    for answer in answers:
        print("step %d, prompt of %d tokens: %s" % (step, len(answer.prompt_token_ids), list(answer.outputs[0].token_ids)), flush=True)
