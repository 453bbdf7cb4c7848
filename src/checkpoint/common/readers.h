// Readers of the kinds of checkpoint that need nothing but a function each (megatron/ and
// distributed/ have headers of their own).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

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

}  // namespace msprobe::checkpoint
