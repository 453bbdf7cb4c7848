// A checkpoint of any kind as one list of whole parameters: Megatron trees, state dicts in one file
// or in shards, Hugging Face folders, distributed checkpoints, MindSpore files. Opening reads
// names, shapes and places only; element bytes stay in the mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/io/coded/coded_tensor.h"

namespace msprobe::checkpoint {

// One parameter of a model, wherever its parts lie: rectangular pieces, each a view of mapped bytes
// and its place in the whole. Cutting, joining and transposing only move views, so that a merged
// parameter is never built in memory.

inline constexpr size_t kNoFile = SIZE_MAX;

struct Piece {
  TensorView view;        // borrows from the checkpoint's files
  Shape offset;           // of the view's first element in the parameter; as long as its shape
  size_t file = kNoFile;  // index into Checkpoint::files: whose pages may go when the piece is read
  // Holds elements that no file contains as such (dequantised, a number of the optimizer).
  std::shared_ptr<const std::vector<std::byte>> memory = nullptr;
  // Elements that are codes: the view then has dtype float32 and no data, its strides count
  // elements of `coded`, and its first one is element `coded_first` of that.
  std::shared_ptr<const io::CodedTensor> coded = nullptr;
  int64_t coded_first = 0;

  // Moves the first element by so many elements of what is stored.
  void Advance(int64_t elements);
};

struct Parameter {
  std::string name;
  DType dtype = DType::kFloat32;  // of the first piece; pieces may differ
  Shape shape;                    // of the whole
  // Tile the shape: no gap, no overlap. In row-major order of their offsets. None for a parameter
  // without elements.
  std::vector<Piece> pieces;
  // Set where `dtype` stands for bytes of elements without a dtype here: "F4".
  std::string raw_dtype = {};
  // Not ok: this parameter cannot be read (the others can). The shape may still be known.
  Status status;
  // Remarks for a careful reader: "copies differ on TP ranks 0 and 1", ...
  std::vector<std::string> notes;

  int64_t element_count() const { return ElementCount(shape); }
};

// The whole of one tensor.
Parameter MakeParameter(std::string name, const TensorView& view, size_t file);

// The whole of one tensor of codes.
Parameter MakeParameter(std::string name, std::shared_ptr<const io::CodedTensor> coded);

// "bf16", "fp8_e4m3 block 128x128", "q4_k": what the first piece is stored as.
std::string FormatOf(const Parameter& parameter);

// Sets `shape` and checks that the pieces tile it; sorts them. An error names the first gap or
// overlap.
Status CheckTiling(Parameter& parameter);

// All other results keep the name of the (first) source, its status when not ok, and its notes.

// Joined along `axis`; all other sizes must be equal. Fails for 0-d parameters.
Result<Parameter> Concatenate(std::span<const Parameter> parts, size_t axis);
// Elements [begin, begin + count) along `axis`.
Result<Parameter> Slice(const Parameter& source, size_t axis, int64_t begin, int64_t count);
// Axes 0 and 1 of a matrix exchanged.
Result<Parameter> Transpose(const Parameter& source);
// One row of axis 0 taken out: rank falls by one. For parameters that stack layers or experts.
Result<Parameter> Select(const Parameter& source, int64_t index);

enum class Kind {
  kMegatron,     // mp_rank_* folders of model_optim_rng.pt
  kTensorFile,   // one .pt, .safetensors, .npz, MindSpore .ckpt
  kHuggingFace,  // a folder with model*.safetensors or pytorch_model*.bin, with or without index
  kDeepSpeed,    // a folder of *_model_states.pt, or one whose file "latest" names such a folder
  kGguf,         // a .gguf file, or a folder with its parts
  kDistributed,  // a folder with .metadata and *.distcp (torch, FSDP, Megatron torch_dist)
};
std::string_view KindName(Kind kind);  // "Megatron", "Hugging Face", ...

// Facts about the model other than its tensors, from Megatron's args or Hugging Face's
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

// What config.json (quantization_config) or hf_quant_config.json says. 0 or empty: nothing.
struct QuantisationFacts {
  std::string
      method;  // "fp8", "gptq", "awq", "compressed-tensors", "bitsandbytes", "modelopt", ...
  std::string checkpoint_format;  // "gptq", "gptq_v2"
  int64_t bits = 0;
  int64_t group = 0;
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  bool power_of_two_scales = false;
  bool symmetric = true;
};

// A setting of an optimizer or a scheduler other than a tensor or number, as text: None, names.
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
  QuantisationFacts quantisation;
  std::vector<Parameter> parameters;  // in order of first appearance; names are unique
  std::vector<Setting> settings;      // what is not a number; numbers are parameters
  // For the log, once each: "rank folder mp_rank_01 is missing", "suspicious global os.system ...".
  std::vector<std::string> warnings;
  std::deque<TensorFile> files;  // what the pieces borrow from; addresses are stable

  uint64_t file_bytes() const;  // of all files
};

// Told by content, not by name. A path that does not exist and has a '+' is that of a base model
// and that of an adapter, which is merged into it (common/readers.h). Errors name the path and what
// was looked for.
bool IsWithAdapter(const std::filesystem::path& path);
Result<Checkpoint> OpenCheckpoint(const std::filesystem::path& path, const Options& options);

}  // namespace msprobe::checkpoint
