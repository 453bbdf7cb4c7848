#include "src/capture/bench_step.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"

namespace msprobe::capture {
namespace {

std::optional<uint32_t> CrcOf(std::string_view text) {
  constexpr size_t kDigits = 8;
  uint32_t crc = 0;
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, crc, 16);
  return text.size() == kDigits && error == std::errc() && behind == end ? std::optional(crc)
                                                                         : std::nullopt;
}

CheckedTensor TensorOf(const dump::EntryTree& tree, uint32_t leaf) {
  CheckedTensor tensor;
  tensor.crc32 = CrcOf(dump::LeafText(tree, leaf, "md5"));
  const uint32_t shape = tree.Find(leaf, "shape");
  if (shape != dump::EntryTree::kNone && tree[shape].kind == dump::NodeKind::kList) {
    tree.ForEachChild(shape, [&](uint32_t size) { tensor.shape.push_back(tree[size].integer); });
  }
  return tensor;
}

// Tensors may be nested in lists and objects, which a description of a tensor is not looked into.
void TakeTensors(const dump::EntryTree& tree, uint32_t member, std::vector<CheckedTensor>& out) {
  for (uint32_t index = member; index < tree[member].end;) {
    if (tree[index].kind == dump::NodeKind::kObject && dump::IsTensorLeaf(tree, index)) {
      out.push_back(TensorOf(tree, index));
      index = tree[index].end;
    } else {
      ++index;
    }
  }
}

// kUnknown where tensors cannot be paired.
BenchStep::Answer JudgeTensors(const std::vector<CheckedTensor>& before,
                               const std::vector<CheckedTensor>& now) {
  using Outcome = BenchStep::Outcome;
  if (before.size() != now.size()) {
    return {};
  }
  BenchStep::Answer answer{Outcome::kEqual, 0};
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i].shape != now[i].shape ||
        before[i].crc32.has_value() != now[i].crc32.has_value()) {
      return {};
    }
    if (answer.outcome == Outcome::kEqual && before[i].crc32 != now[i].crc32) {
      answer = {Outcome::kDiffers, i};
    }
  }
  return answer;
}

}  // namespace

bool CheckedCall::IsInput(std::string_view member) {
  return member.starts_with("input") || member == "parameters";
}

bool CheckedCall::IsOutput(std::string_view member) { return member == "output"; }

Result<std::shared_ptr<const BenchStep>> BenchStep::Load(const base::Path& root, int64_t step,
                                                         std::optional<int64_t> rank) {
  const base::Path step_path = base::WithoutLastSlash(root) / fmt::format("step{}", step);
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(step_path), "bench_path");
  const dump::RankFolder* chosen = nullptr;
  for (const dump::RankFolder& folder : layout.ranks) {
    if (folder.has_dump && !folder.process && folder.rank == rank) {
      chosen = &folder;
    }
  }
  if (chosen == nullptr && layout.ranks.size() == 1 && layout.ranks.front().has_dump) {
    chosen = &layout.ranks.front();
  }
  if (chosen == nullptr) {
    return NotFoundError(fmt::format("bench_path: {} holds {} ranks, none of them {}",
                                     step_path.string(), layout.ranks.size(),
                                     rank ? fmt::format("rank{}", *rank)
                                          : std::string("without a number, as this process has")));
  }
  auto bench = std::make_shared<BenchStep>();
  bench->folder_ = chosen->folder;
  bool has_checksum = false;
  const auto take = [&](std::string_view name, const dump::EntryTree& tree) -> Status {
    if (tree[0].kind != dump::NodeKind::kObject) {
      return {};
    }
    CheckedCall& call = bench->calls_[std::string(name)];
    call = {};
    tree.ForEachChild(0, [&](uint32_t member) {
      if (CheckedCall::IsInput(tree[member].key)) {
        TakeTensors(tree, member, call.inputs);
      } else if (CheckedCall::IsOutput(tree[member].key)) {
        TakeTensors(tree, member, call.outputs);
      }
    });
    has_checksum = has_checksum || std::any_of(call.outputs.begin(), call.outputs.end(),
                                               [](const auto& t) { return t.crc32.has_value(); });
    return {};
  };
  MSP_ASSIGN_OR_RETURN(
      [[maybe_unused]] const dump::DumpHeader header,
      dump::ReadDumpFile(chosen->folder / dump::kDumpFileName, dump::ReadOptions(), take),
      "bench_path");
  if (!bench->calls_.empty() && !has_checksum) {
    return UsageError(fmt::format("bench_path: {} has no checksums",
                                  (chosen->folder / dump::kDumpFileName).string()))
        .WithHint("capture the earlier run with \"summary_mode\": \"md5\"");
  }
  return std::shared_ptr<const BenchStep>(std::move(bench));
}

BenchStep::Answer BenchStep::Judge(std::string_view name, const CheckedCall& call) const {
  const auto found = calls_.find(std::string(name));
  if (found == calls_.end() || call.outputs.empty()) {
    return {};
  }
  const Answer inputs = JudgeTensors(found->second.inputs, call.inputs);
  if (inputs.outcome != Outcome::kEqual) {
    return {inputs.outcome == Outcome::kDiffers ? Outcome::kOtherInputs : Outcome::kUnknown, 0};
  }
  return JudgeTensors(found->second.outputs, call.outputs);
}

}  // namespace msprobe::capture
