"""vLLM's engine in this process: requests of different lengths are batched together, sampled, and answered; a batch of requests is
a step.   usage: serve.py"""
import os
import tempfile

import only_what_is_installed  # noqa: F401  before anything of vLLM

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1",
                  VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind")
import torch  # noqa: E402
import transformers  # noqa: E402
import vllm  # noqa: E402

from torch_training import Run  # noqa: E402

VOCABULARY = 128


def write_model(folder):
    """A Llama with random weights, as vLLM loads one."""
    transformers.set_seed(11)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, bos_token_id=1, eos_token_id=2)).save_pretrained(folder)


def main():
    run = Run()
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder)
        # Attention has the cache as its argument, whole: it has few blocks.
        engine = vllm.LLM(folder, skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=64, max_num_seqs=4,
                          num_gpu_blocks_override=16, seed=3)
    model = []
    engine.apply_model(model.append)
    run.watch(model[0])
    generator = torch.Generator().manual_seed(5)
    wanted = vllm.SamplingParams(temperature=0.8, max_tokens=4, min_tokens=4, seed=5, logprobs=3, detokenize=False)
    for number in run.steps():
        prompts = [{"prompt_token_ids": torch.randint(3, VOCABULARY, (3 + length,), generator=generator).tolist()}
                   for length in range(3)]
        answers = [answer.outputs[0] for answer in engine.generate(prompts, wanted, use_tqdm=False)]
        run.end_step([(answer.token_ids, [sorted((token, value.logprob) for token, value in choices.items())
                                          for choices in answer.logprobs]) for answer in answers])
    run.close()


if __name__ == "__main__":
    main()
