#include "src/analysis/isolate/reference.h"

#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/dump/dump_file.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::isolate {
namespace {

constexpr std::string_view kRemedy =
    "record the good run with: msprobe dump --task tensor --level L0 -o good -- python3 train.py";

}  // namespace

Status CheckReference(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  const auto steps = [](const dump::RankFolder& rank) { return rank.step && rank.has_dump; };
  if (layout.ranks.empty() || !steps(layout.ranks.front()) ||
      std::filesystem::equivalent(layout.root, layout.ranks.front().folder)) {
    return UnsupportedError(
               fmt::format("{} is not the folder of a run with its steps", path.string()))
        .WithHint("name the dump_path of the good run, which holds step0 and so on");
  }
  const std::filesystem::path file = layout.ranks.front().folder / dump::kDumpFileName;
  uint64_t modules = 0;
  uint64_t tensors = 0;
  dump::LeafWalker walker;
  const Result<dump::DumpHeader> header = dump::ReadDumpFile(
      file, {.allow_truncated = true},
      [&](std::string_view name, const dump::EntryTree& tree) -> Status {
        if (!name.starts_with("Module.")) return {};
        ++modules;
        walker.ForEach(name, tree, [&](std::string_view /*leaf*/, uint32_t index) {
          tensors += dump::LeafText(tree, index, "data_name").empty() ? 0 : 1;
        });
        return {};
      });
  if (!header.ok()) return header.status();
  if (modules == 0) {
    return UnsupportedError(fmt::format("{} holds no modules", file.string()))
        .WithHint(std::string(kRemedy));
  }
  if (tensors == 0) {
    return UnsupportedError(fmt::format("{} holds statistics only, and modules cannot run on those",
                                        file.string()))
        .WithHint(std::string(kRemedy));
  }
  return {};
}

}  // namespace msprobe::analysis::isolate
