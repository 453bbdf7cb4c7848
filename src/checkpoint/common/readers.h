// Readers of the kinds of checkpoint that need nothing but a function each (megatron/ and
// distributed/ have headers of their own), and what is done to parameters behind them.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"
#include "src/json/document.h"

namespace msprobe::checkpoint {

// Folders of DeepSpeed: a tracker "latest" that names the folder of a step, in which the ranks keep
// model and optimizer states. With ZeRO 1 and 2 the model states hold the whole model; with ZeRO 3
// every rank holds its part of each parameter in float32, one after the other. Opens the folder
// with the tracker, or that of a step. Tensor and pipeline parallel models are refused; the hint
// says how to make a file of them.
bool LooksLikeDeepSpeed(const std::filesystem::path& folder);
Result<Checkpoint> OpenDeepSpeed(const std::filesystem::path& folder, const Options& options);

// GGUF files: one, or the parts "-00001-of-00003.gguf" of a folder.
std::vector<std::string> GgufFilesIn(const std::filesystem::path& folder);
Result<Checkpoint> OpenGguf(const std::filesystem::path& folder,
                            std::span<const std::string> files);
// The parameters of the files that were opened, under Hugging Face's names.
Status AddGgufParameters(Checkpoint& checkpoint);

// Folders as Hugging Face's libraries write them, model*.safetensors or pytorch_model*.bin with or
// without an index. Facts about the model come from config.json where there is one.
bool LooksLikeHuggingFace(const std::filesystem::path& folder);
Result<Checkpoint> OpenHuggingFace(const std::filesystem::path& folder, const Options& options);

// A state dict in one file of any format that TensorFile opens. An empty file is a warning, a file
// without any parameter of a model an error.
Result<Checkpoint> OpenTensorFile(const std::filesystem::path& file, const Options& options);

// Quantised parameters as one parameter each: codes, scales, zero points and group indices, which
// lie in tensors of their own, become one tensor of codes that reads as values.

// `quantization_config` itself, or the root of hf_quant_config.json. What it does not know is left
// out: names and shapes decide.
QuantisationFacts ReadQuantisation(const json::Json& config);

// Replaces what belongs together, recognised by names, dtypes and shapes. Parts that do not fit
// make a parameter that cannot be read; its status names both shapes.
void FoldQuantised(Checkpoint& checkpoint);

// BASE+ADAPTER: base weights with a low-rank adapter of peft added, W + s B A, which is computed
// block by block in double precision where it is compared.

// The halves of a path, split at the last '+' of which both exist. A path that exists is not
// split, whatever its name.
std::optional<std::pair<std::filesystem::path, std::filesystem::path>> SplitAtAdapter(
    const std::filesystem::path& path);

// `base` with the adapter in `folder` merged into it. Parameters whose adapter does not fit cannot
// be read; adapters of another kind than LoRA, rsLoRA and DoRA are refused by name.
Status MergeAdapter(const std::filesystem::path& folder, const Options& options, Checkpoint& base);

}  // namespace msprobe::checkpoint
