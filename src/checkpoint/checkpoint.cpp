#include "src/checkpoint/checkpoint.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/deepspeed/reader.h"
#include "src/checkpoint/distributed/reader.h"
#include "src/checkpoint/hugging_face/reader.h"
#include "src/checkpoint/megatron/reader.h"
#include "src/checkpoint/tensor_file/reader.h"
#include "src/io/read_budget.h"

namespace msprobe::checkpoint {
namespace {

constexpr std::string_view kTensorSuffixes[] = {".pt",          ".pth", ".bin", ".ckpt",
                                                ".safetensors", ".npz", ".npy"};

std::vector<std::string> TensorFilesAmong(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (std::any_of(std::begin(kTensorSuffixes), std::end(kTensorSuffixes),
                    [&](std::string_view suffix) { return name.ends_with(suffix); })) {
      found.push_back(name);
    }
  }
  return found;
}

std::string FirstOf(std::vector<std::string> names) {
  constexpr size_t kShown = 6;
  if (names.empty()) {
    return "nothing";
  }
  const size_t count = names.size();
  names.resize(std::min(count, kShown));
  return base::Printable(base::Join(names, ", ")) +
         (count > kShown ? fmt::format(" and {} more", count - kShown) : "");
}

Status NoCheckpoint(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  return NotFoundError(
             fmt::format(
                 "{}: not a known kind of checkpoint; looked for mp_rank_* folders (Megatron), "
                 ".metadata (distributed), *_model_states.pt (DeepSpeed), *.safetensors or "
                 "pytorch_model*.bin with or without an "
                 "index (Hugging Face) and a single tensor file, found {}",
                 folder.native(), FirstOf(names)))
      .WithHint("pass the folder of one iteration, or one of the files");
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kMegatron:
      return "Megatron";
    case Kind::kTensorFile:
      return "tensor file";
    case Kind::kHuggingFace:
      return "Hugging Face";
    case Kind::kDeepSpeed:
      return "DeepSpeed";
    case Kind::kDistributed:
      return "torch distributed";
  }
  return "";
}

namespace {

// Marks parameters that repeat bytes without end: nobody can read them.
void LimitRepeatedBytes(Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const TensorFile& file : checkpoint.files) {
    bytes += file.size_bytes();
  }
  io::ReadBudget budget(bytes);
  for (Parameter& parameter : checkpoint.parameters) {
    for (size_t i = 0; parameter.status.ok() && i < parameter.pieces.size(); ++i) {
      parameter.status = budget.Take(parameter.pieces[i].view);
    }
    if (!parameter.status.ok()) {
      parameter.pieces.clear();
    }
  }
}

Result<Checkpoint> OpenByContent(const std::filesystem::path& path, const Options& options) {
  if (!base::Exists(path)) {
    return NotFoundError(fmt::format("{}: no such file or folder", path.native()));
  }
  if (!base::IsFolder(path)) {
    return OpenTensorFile(path, options);
  }
  // Asked first: a tracker alone looks like Megatron's tree, and Megatron's torch_dist has one,
  // too.
  if (LooksLikeDistributed(path)) {
    return OpenDistributed(path, options);
  }
  if (LooksLikeMegatron(path)) {
    return OpenMegatron(path, options);
  }
  if (LooksLikeHuggingFace(path)) {
    return OpenHuggingFace(path, options);
  }
  if (LooksLikeDeepSpeed(path)) {
    return OpenDeepSpeed(path, options);
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
  const std::vector<std::string> files = TensorFilesAmong(names);
  if (files.size() == 1) {
    return OpenTensorFile(path / files.front(), options);
  }
  return NoCheckpoint(path, names);
}

}  // namespace

Result<Checkpoint> OpenCheckpoint(const std::filesystem::path& path, const Options& options) {
  MSP_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenByContent(path, options));
  LimitRepeatedBytes(checkpoint);
  return checkpoint;
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t bytes = 0;
  for (const TensorFile& file : files) {
    bytes += file.size_bytes();
  }
  return bytes;
}

}  // namespace msprobe::checkpoint
