#include "src/analysis/accuracy/check/dump_calls.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/dump_file.h"

namespace msprobe::analysis::accuracy {
namespace {

// "Torch.matmul.0.forward" without the direction; empty where the direction is not the last part.
std::string_view WithoutDirection(std::string_view name, std::string_view direction) {
  if (name.size() <= direction.size() + 1 || !name.ends_with(direction) ||
      name[name.size() - direction.size() - 1] != '.') {
    return {};
  }
  return name.substr(0, name.size() - direction.size() - 1);
}

// Names become parts of file names and cells.
bool HasSpecialCharacters(std::string_view name) {
  return name.find_first_of("/\\'\"`$;&|<>*?\n\r\t") != std::string_view::npos;
}

}  // namespace

Result<DumpCalls> ReadDumpCalls(const std::filesystem::path& path) {
  DumpCalls read;
  std::unordered_map<std::string, RecordPlace> backward;
  Status wrong;
  MSP_ASSIGN_OR_RETURN(
      const dump::EntryScanOutcome scanned,
      dump::ScanEntries(path, [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
        if (entry.name.find("Module") != std::string_view::npos) {
          return true;
        }
        const bool is_forward = entry.name.find("forward") != std::string_view::npos;
        const std::string_view name =
            WithoutDirection(entry.name, is_forward ? "forward" : "backward");
        if (name.empty() || HasSpecialCharacters(name)) {
          wrong = BadFormatError(fmt::format("{}: \"{}\" is no name of a call",
                                             base::Printable(path.string()),
                                             base::Printable(entry.name)))
                      .WithHint("give the dump.json of level L1 or mix");
          return false;
        }
        const RecordPlace place = {entry.offset, entry.text.size()};
        if (is_forward) {
          read.calls.push_back({std::string(name), place, std::nullopt});
        } else {
          backward.insert_or_assign(std::string(name), place);
        }
        return true;
      }));
  MSP_RETURN_IF_ERROR(std::move(wrong));
  if (!scanned.has_data) {
    return BadFormatError(fmt::format("{}: something wrong with dump, no data found in dump.json",
                                      base::Printable(path.string())));
  }
  for (DumpCall& call : read.calls) {
    if (const auto found = backward.find(call.name); found != backward.end()) {
      call.backward = found->second;
    }
  }
  read.framework = scanned.framework.value_or("");
  read.truncated = scanned.truncated;
  if (read.calls.empty()) {
    read.warnings.emplace_back("the dump holds no call of an operator; dump with level L1 or mix");
  }
  dump::ReadOptions options;
  options.allow_truncated = true;
  MSP_ASSIGN_OR_RETURN(
      const dump::DumpHeader header,
      dump::ReadDumpFile(path, options, [](std::string_view, const auto&) { return OkStatus(); }));
  if (header.dump_data_dir && !header.dump_data_dir->empty()) {
    read.tensor_folder = path.parent_path() / "dump_tensor_data";
  }
  return read;
}

}  // namespace msprobe::analysis::accuracy
