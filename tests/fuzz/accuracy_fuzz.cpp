// The first byte chooses: what a worker says as a frame, a record of a dump as a call's arguments,
// or a details file that is judged against itself.
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/analysis/accuracy/precision_compare/precision_compare.h"
#include "src/dump/entry_tree.h"

namespace {

using namespace msprobe::analysis::accuracy;  // NOLINT: one component is what this is about

constexpr size_t kSharedBytes = 4096;
constexpr size_t kMemoryBytes = size_t{1} << 20U;

void ReadFrame(std::string_view text) {
  const std::vector<std::byte> shared(kSharedBytes);
  (void)ReadFrameHeader(std::span<const char>(text.data(), text.size())).ok();
  (void)ReadGreeting(text).ok();
  const msprobe::Result<WorkerAnswer> answer = ReadAnswer(text, shared);
  if (!answer.ok()) {
    return;
  }
  OutputJudgeOptions options;
  for (const bool strict : {false, true}) {
    options.strict = strict;
    options.version = strict ? StandardVersion::k26 : StandardVersion::k811;
    (void)JudgeOutputs("Torch.exp.0", "forward", answer->bench, answer->device,
                       Standards::BuiltIn(), options)
        .ok();
  }
}

void MakeArguments(std::string_view text) {
  const msprobe::Result<msprobe::dump::EntryTree> tree = msprobe::dump::ParseEntry(text);
  if (!tree.ok() || (*tree)[0].kind != msprobe::dump::NodeKind::kObject) {
    return;
  }
  msprobe::Result<SharedMemory> memory = SharedMemory::Create(kMemoryBytes);
  if (!memory.ok()) {
    return;
  }
  TorchGenerator generator;
  MakeOptions options;
  ArgumentMaker maker("histc", options, generator, *memory);
  FrameWriter out;
  (void)maker.Keywords(*tree, tree->Find(0, "input_kwargs"), out).ok();
  (void)maker.Positional(*tree, tree->Find(0, "input_args"), out).ok();
}

void JudgeFile(std::string_view text) {
  const msprobe::Result<DetailsFile> file = DetailsFile::ReadText(text);
  if (!file.ok()) {
    return;
  }
  for (size_t i = 0; i < file->row_count(); ++i) {
    const DetailCells cells = file->row(i);
    if (const auto name = ParseOutputName(cells[detail_column::kApiName]); name) {
      for (const StandardVersion version : {StandardVersion::k811, StandardVersion::k26}) {
        (void)JudgeOutput(*name, cells, cells, Standards::BuiltIn(), {version, false, true});
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      ReadFrame(text);
      break;
    case 1:
      MakeArguments(text);
      break;
    default:
      JudgeFile(text);
      break;
  }
  return 0;
}
