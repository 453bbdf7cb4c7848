#include "src/dump/dump_file.h"

#include <utility>

#include <fmt/format.h>

#include "src/dump/entry_tree.h"
#include "src/dump/json_source.h"
#include "src/dump/names.h"
#include "src/json/stream_reader.h"

namespace msprobe::dump {
namespace {

// The part of a row's name for a member of an entry; empty for members that hold no values of
// the call.
std::string_view SectionName(std::string_view key) {
  if (key == "input_args" || key == "input_kwargs") {
    return "input";
  }
  return key == "is_recompute" || key == "is_nan" ? std::string_view() : key;
}

bool IsLeaf(const EntryTree& tree, uint32_t index) {
  const NodeKind kind = tree[index].kind;
  if (kind == NodeKind::kObject) {
    return !LeafText(tree, index, "type").empty();
  }
  return kind != NodeKind::kList;
}

}  // namespace

std::string_view LeafText(const EntryTree& tree, uint32_t index, std::string_view key) {
  const uint32_t child = tree.Find(index, key);
  return child != EntryTree::kNone && tree[child].kind == NodeKind::kText ? tree[child].text
                                                                          : std::string_view();
}

bool IsTensorLeaf(const EntryTree& tree, uint32_t index) {
  return !LeafText(tree, index, "dtype").empty();
}

void LeafWalker::ForEach(std::string_view entry_name, const EntryTree& tree, const Visit& visit) {
  const EntryName parsed = ParseEntryName(entry_name);
  const bool has_sections =
      !parsed.is_debug && !parsed.is_parameters_grad && tree[0].kind == NodeKind::kObject;
  name_ = entry_name;
  open_.clear();
  if (!has_sections && IsLeaf(tree, 0)) {
    visit(name_, 0);
    return;
  }
  open_.push_back({0, name_.size(), 0});
  for (uint32_t index = 1; index < tree.size();) {
    while (tree[open_.back().index].end == index) {
      open_.pop_back();
    }
    Open& parent = open_.back();
    const Node& node = tree[index];
    name_.resize(parent.name_length);
    const bool in_list = tree[parent.index].kind == NodeKind::kList;
    const bool is_section = has_sections && open_.size() == 1;
    const std::string_view part = is_section ? SectionName(node.key) : node.key;
    if (is_section && part.empty()) {
      index = node.end;
      continue;
    }
    if (!in_list) {
      name_ += '.';
      name_ += part;
    } else if (!parsed.is_parameters_grad) {
      name_ += '.';
      name_ += std::to_string(parent.next_child);
    }
    ++parent.next_child;
    if (IsLeaf(tree, index)) {
      visit(name_, index);
      index = node.end;
    } else {
      open_.push_back({index, name_.size(), 0});
      ++index;
    }
  }
}

Status CheckDataName(std::string_view data_name) {
  if (data_name.find('/') != std::string_view::npos || data_name == "..") {
    return BadFormatError(fmt::format("the data_name \"{}\" is not a plain file name", data_name));
  }
  return OkStatus();
}

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

// An error of the parser, with the file's name and a hint when the end of the file is
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

// Takes the members of a file apart, by a quick walk as long as its JSON is plain, else by the
// parser, which then passes over the entries that were delivered already.
class FileReader {
 public:
  using OnEntry = std::function<Status(std::string_view name, const EntryTree& entry)>;

  FileReader(const internal::JsonSource& file, const ReadOptions& options, const OnEntry& on_entry)
      : file_(file), options_(options), on_entry_(on_entry) {}

  // False: the parser has to read the rest.
  bool Walk() {
    MemberStream stream = MakeStream();
    Follow(&stream);
    is_walking_ = true;
    const bool is_whole = ReadQuickly(file_.text(), stream) && stream.status().ok();
    is_walking_ = false;
    Follow(nullptr);
    header_.has_data = stream.found_expanded();
    return is_whole || !refused_.ok();
  }

  MemberStream MakeStream() {
    header_ = {};
    return MemberStream(
        [this](std::string_view key, const EntryTree& value) -> Result<bool> {
          TakeHeaderMember(key, value, header_);
          return true;
        },
        kDataKey,
        [this](std::string_view name, const EntryTree& entry) -> Result<bool> {
          if (++header_.entry_count > delivered_) {
            delivered_ = header_.entry_count;
            KeepPlace();
            refused_ = on_entry_(name, entry);
          }
          ReleaseWhatWasRead();
          return refused_.ok();
        });
  }

  // The stream that is read.
  void Follow(const MemberStream* stream) {
    stream_ = stream;
    released_ = 0;
  }

  // The caller's error, which is returned as it is.
  const Status& refused() const { return refused_; }
  DumpHeader& header() { return header_; }

 private:
  // Pages that were walked over are given back now and then, or the whole file would stay in
  // memory.
  static constexpr uint64_t kReleaseBytes = uint64_t{4} << 20U;

  uint64_t ReadBytes() const {
    return static_cast<uint64_t>(stream_->place() - file_.text().data());
  }

  void KeepPlace() {
    if (options_.read_bytes != nullptr && stream_ != nullptr) {
      *options_.read_bytes = ReadBytes();
    }
    if (options_.places == nullptr || !is_walking_ || stream_->value_text().empty()) {
      return;
    }
    const std::string_view value = stream_->value_text();
    options_.places->push_back(
        {static_cast<uint64_t>(value.data() - file_.text().data()), value.size()});
  }

  void ReleaseWhatWasRead() {
    if (stream_ != nullptr && ReadBytes() - released_ >= 2 * kReleaseBytes) {
      file_.ReleaseText(released_, kReleaseBytes);
      released_ += kReleaseBytes;
    }
  }

  const internal::JsonSource& file_;
  const ReadOptions& options_;
  const OnEntry& on_entry_;
  const MemberStream* stream_ = nullptr;
  bool is_walking_ = false;
  uint64_t released_ = 0;  // bytes in front that were given back
  uint64_t delivered_ = 0;
  DumpHeader header_;
  Status refused_;
};

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
  if (options.size_bytes != nullptr) {
    *options.size_bytes = file.text().size();
  }
  FileReader reader(file, options, on_entry);
  DumpHeader& header = reader.header();
  if (!reader.Walk()) {
    MemberStream stream = reader.MakeStream();
    reader.Follow(&stream);
    MSP_RETURN_IF_ERROR(
        ParseFile(path, file.text(), options.allow_truncated, stream, &header.truncated));
    header.has_data = stream.found_expanded();
  }
  MSP_RETURN_IF_ERROR(Status(reader.refused()));
  header.size_bytes = file.text().size();
  header.recovery = file.recovery();
  return std::move(header);
}

}  // namespace msprobe::dump
