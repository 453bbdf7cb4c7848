"""Tiny models of Transformers by family, each with the data set it is trained on. Weights and data are random: nothing is
downloaded.

FAMILIES: {name: function that gives (model, list of examples)}
"""
import torch
import transformers

VOCABULARY = 48
LENGTH = 8

FAMILIES = {}


def family(make):
    FAMILIES[make.__name__] = make
    return make


def _texts(count, **more):
    generator = torch.Generator().manual_seed(5)
    examples = []
    for _ in range(count):
        ids = torch.randint(3, VOCABULARY, (LENGTH,), generator=generator)
        examples.append(dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids, **more))
    return examples


def _sizes(**more):
    return dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                max_position_embeddings=LENGTH * 4, **more)


@family
def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **_sizes())), _texts(16)


@family
def gpt2():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=LENGTH * 4,
                                     bos_token_id=0, eos_token_id=1)
    return transformers.GPT2LMHeadModel(config), _texts(16)


@family
def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**_sizes())), _texts(16)


@family
def mixtral():
    config = transformers.MixtralConfig(num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True,
                                        **_sizes())
    return transformers.MixtralForCausalLM(config), _texts(16)


@family
def t5():
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
                                   decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config), _texts(16)


@family
def vit():
    sizes = _sizes()
    del sizes["vocab_size"], sizes["max_position_embeddings"]
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **sizes)
    generator = torch.Generator().manual_seed(5)
    examples = [dict(pixel_values=torch.randn(3, 8, 8, generator=generator), labels=torch.tensor(number % 3))
                for number in range(16)]
    return transformers.ViTForImageClassification(config), examples


@family
def whisper():
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=4, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=LENGTH,
        max_target_positions=LENGTH * 4, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    generator = torch.Generator().manual_seed(5)
    examples = [dict(input_features=torch.randn(4, 2 * LENGTH, generator=generator), labels=text["labels"])
                for text in _texts(16)]
    return transformers.WhisperForConditionalGeneration(config), examples
