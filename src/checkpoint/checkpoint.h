// A checkpoint of any kind as one list of whole parameters: Megatron trees, state dicts in one file
// or in shards, Hugging Face folders, distributed checkpoints, MindSpore files. Opening reads
// names, shapes and places only; element bytes stay in the mapped files.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/checkpoint/parameter.h"

namespace msprobe::checkpoint {

enum class Kind {
  kMegatron,     // mp_rank_* folders of model_optim_rng.pt
  kTensorFile,   // one .pt, .safetensors, .npz, MindSpore .ckpt
  kHuggingFace,  // a folder with model*.safetensors or pytorch_model*.bin, with or without index
  kDeepSpeed,    // a folder of *_model_states.pt, or one whose file "latest" names such a folder
  kDistributed,  // a folder with .metadata and *.distcp (torch, FSDP, Megatron torch_dist)
};
std::string_view KindName(Kind kind);  // "Megatron", "Hugging Face", ...

// What is known about the model beside its tensors: from Megatron's args or Hugging Face's
// config.json. Absent = not recorded.
struct ModelFacts {
  std::optional<int64_t> layers;
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;  // key/value heads
  std::optional<int64_t> head_size;     // elements per head
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> experts;
  std::optional<int64_t> vocabulary;  // without padding
  std::optional<bool> gated;          // fc1 holds gate and up (SwiGLU, GeGLU)
  std::string architecture;           // Hugging Face's model_type, else empty
};

// What an optimizer or a scheduler was told beside its tensors, as text: None, names.
struct Setting {
  std::string name;
  std::string text;
};

struct Options {
  bool optimizer = false;            // take optimizer states and settings, too
  bool allow_missing_ranks = false;  // compare what is there instead of failing
  // Without the corrections for gated fc1, grouped experts, uneven stages and TE's layer norm of
  // fc1: exactly what the Python tool merges.
  bool compatible_merge = false;
};

struct Checkpoint {
  Kind kind = Kind::kTensorFile;
  std::filesystem::path path;  // the folder or file that was read, e.g. the iteration's
  std::optional<int64_t> iteration;
  ModelFacts facts;
  std::vector<Parameter> parameters;  // in order of first appearance; names are unique
  std::vector<Setting> settings;      // what is no number; numbers are parameters
  // For the log, once each: "rank folder mp_rank_01 is missing", "suspicious global os.system ...".
  std::vector<std::string> warnings;
  std::deque<TensorFile> files;  // what the pieces borrow from; addresses are stable

  uint64_t file_bytes() const;  // of all files
};

// Told by content, not by name. Errors name the path and what was looked for.
Result<Checkpoint> OpenCheckpoint(const std::filesystem::path& path, const Options& options);

}  // namespace msprobe::checkpoint
