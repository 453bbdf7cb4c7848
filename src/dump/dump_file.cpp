#include "src/dump/dump_file.h"

#include <utility>

#include <fmt/format.h>

#include "src/dump/json_source.h"
#include "src/dump/member_stream.h"
#include "src/json/stream_reader.h"

namespace msprobe::dump {
namespace {

constexpr std::string_view kDataKey = "data";
constexpr std::string_view kBlanks = " \t\r\n";

void TakeHeaderMember(std::string_view key, const EntryTree& value, DumpHeader& header) {
  std::optional<std::string>* field = nullptr;
  if (key == "task") {
    field = &header.task;
  } else if (key == "level") {
    field = &header.level;
  } else if (key == "framework") {
    field = &header.framework;
  } else if (key == "dump_data_dir") {
    field = &header.dump_data_dir;
  }
  if (field == nullptr) {
    if (key != kDataKey && header.extras.size() < kMaxExtras) {
      header.extras.push_back({std::string(key), value});
    }
    return;
  }
  field->reset();
  if (value[0].kind == NodeKind::kText) {
    field->emplace(value[0].text);
  }
}

// An error of the parser, told about the file, with the way out when the end of the file is
// missing.
Status ParseError(Status status, const std::filesystem::path& path, bool truncated) {
  Status told = std::move(status).AddContext("cannot read " + path.string());
  if (!truncated) {
    return told;
  }
  return std::move(told).WithHint(
      "the file is truncated, as after an interrupted run or copy; --allow-truncated uses the "
      "complete entries before this point");
}

// Feeds the whole file to `stream`. Sets `truncated` where the end of the file is missing and that
// is allowed.
Status ParseFile(const std::filesystem::path& path, std::string_view text, bool allow_truncated,
                 MemberStream& stream, bool* truncated) {
  if (text.find_first_not_of(kBlanks) == std::string_view::npos) {
    *truncated = true;
    return allow_truncated ? Status() : ParseError(BadFormatError("the file is empty"), path, true);
  }
  json::ParseOutcome outcome;
  Status parsed = json::ParseStream(text, stream, &outcome);
  MSP_RETURN_IF_ERROR(stream.status(), "cannot read ", path.string());
  *truncated = outcome.truncated;
  if (parsed.ok() || (outcome.truncated && allow_truncated)) {
    return {};
  }
  return ParseError(std::move(parsed), path, outcome.truncated);
}

}  // namespace

Result<DumpHeader> ReadDumpFile(
    const std::filesystem::path& path, const ReadOptions& options,
    const std::function<Status(std::string_view name, const EntryTree& entry)>& on_entry) {
  MSP_ASSIGN_OR_RETURN(const internal::JsonSource file, internal::JsonSource::Open(path));
  DumpHeader header;
  header.size_bytes = file.text().size();
  header.recovery = file.recovery();
  Status refused;  // the caller's, which is returned as it is
  MemberStream stream(
      [&header](std::string_view key, const EntryTree& value) -> Result<bool> {
        TakeHeaderMember(key, value, header);
        return true;
      },
      kDataKey,
      [&header, &on_entry, &refused](std::string_view name,
                                     const EntryTree& entry) -> Result<bool> {
        ++header.entry_count;
        refused = on_entry(name, entry);
        return refused.ok();
      });
  MSP_RETURN_IF_ERROR(
      ParseFile(path, file.text(), options.allow_truncated, stream, &header.truncated));
  MSP_RETURN_IF_ERROR(std::move(refused));
  header.has_data = stream.found_expanded();
  return header;
}

}  // namespace msprobe::dump
