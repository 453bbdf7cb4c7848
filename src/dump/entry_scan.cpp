#include "src/dump/entry_scan.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/base/utf8.h"
#include "src/dump/json_source.h"
#include "src/dump/value_skip.h"

namespace msprobe::dump {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, const VisitScannedEntry& on_entry)
      : begin_(text.data()), at_(text.data()), end_(at_ + text.size()), on_entry_(on_entry) {
    outcome_.size_bytes = text.size();
    if (text.starts_with(base::kByteOrderMark)) {
      at_ += base::kByteOrderMark.size();
    }
  }

  Result<EntryScanOutcome> Run() {
    at_ = internal::SkipBlanks(at_, end_);
    if (at_ != end_ && *at_ != '{') {
      return Error("it contains no object {...}");
    }
    MSP_RETURN_IF_ERROR(Members([this](std::string_view key) { return TopMember(key); }));
    return std::move(outcome_);
  }

 private:
  Status Error(std::string_view what) const {
    return BadFormatError(fmt::format("byte {}: {}", at_ - begin_, what));
  }

  // The document ends here, in the middle of something.
  Status Truncated() {
    outcome_.truncated = true;
    stopped_ = true;
    return {};
  }

  // The members of the object at `at_`; `member` finds itself in front of a value and leaves behind
  // it.
  template <typename Member>
  Status Members(const Member& member) {
    at_ = at_ == end_ ? end_ : at_ + 1;
    for (bool first = true;; first = false) {
      at_ = internal::SkipBlanks(at_, end_);
      if (at_ != end_ && *at_ == '}') {
        ++at_;
        return {};
      }
      if (!first) {
        if (at_ != end_ && *at_ != ',') {
          return Error("expected ',' or '}'");
        }
        at_ = at_ == end_ ? end_ : internal::SkipBlanks(at_ + 1, end_);
      }
      if (at_ == end_) {
        return Truncated();
      }
      if (*at_ != '"') {
        return Error("expected a key in double quotes");
      }
      bool plain = true;
      const char* key = at_ + 1;
      const char* quote = internal::EndOfText(key, end_, &plain);
      if (quote == nullptr) {
        return Truncated();
      }
      std::string_view name(key, static_cast<size_t>(quote - key));
      if (!plain) {
        Result<EntryTree> decoded =
            json::ParseValueTree(std::string_view(key - 1, name.size() + 2));
        if (!decoded.ok()) {
          return Error("a key holds an unknown escape or a raw control character");
        }
        decoded_ = *std::move(decoded);
        name = decoded_[0].text;
      }
      at_ = internal::SkipBlanks(quote + 1, end_);
      if (at_ != end_ && *at_ != ':') {
        return Error("expected ':' after a key");
      }
      at_ = at_ == end_ ? end_ : internal::SkipBlanks(at_ + 1, end_);
      if (at_ == end_) {
        return Truncated();
      }
      MSP_RETURN_IF_ERROR(member(name));
      if (stopped_) {
        return {};
      }
    }
  }

  Status TopMember(std::string_view key) {
    if (key == "data" && *at_ == '{') {
      outcome_.has_data = true;
      return Members([this](std::string_view name) { return Entry(name); });
    }
    const internal::SkippedValue value = internal::SkipValue(at_, end_);
    if (value.end == nullptr) {
      return Truncated();
    }
    if ((key == "framework" || key == "task") && *at_ == '"') {
      MSP_ASSIGN_OR_RETURN(const EntryTree tree,
                           json::ParseValueTree({at_, static_cast<size_t>(value.end - at_)}));
      (key == "task" ? outcome_.task : outcome_.framework).emplace(tree[0].text);
    }
    at_ = value.end;
    return {};
  }

  Status Entry(std::string_view name) {
    const internal::SkippedValue value = internal::SkipValue(at_, end_);
    if (value.end == nullptr) {
      return Truncated();
    }
    ScannedEntry entry;
    entry.name = name;
    entry.text = {at_, static_cast<size_t>(value.end - at_)};
    entry.offset = static_cast<uint64_t>(at_ - begin_);
    entry.is_suspicious = value.is_suspicious;
    ++outcome_.entry_count;
    stopped_ = !on_entry_(entry, outcome_);
    at_ = value.end;
    return {};
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  const VisitScannedEntry& on_entry_;
  EntryScanOutcome outcome_;
  EntryTree decoded_;  // a key with escapes
  bool stopped_ = false;
};

}  // namespace

Result<EntryScanOutcome> ScanEntryText(std::string_view text, const VisitScannedEntry& on_entry) {
  return Scanner(text, on_entry).Run();
}

Result<EntryScanOutcome> ScanEntries(const std::filesystem::path& path,
                                     const VisitScannedEntry& on_entry) {
  // Pages that were walked over are given back now and then, or the whole file would stay in
  // memory.
  constexpr uint64_t kReleaseBytes = uint64_t{4} << 20U;
  MSP_ASSIGN_OR_RETURN(const internal::JsonSource file, internal::JsonSource::Open(path));
  uint64_t released = 0;
  const auto visit = [&](const ScannedEntry& entry, const EntryScanOutcome& so_far) {
    const bool go_on = on_entry(entry, so_far);
    if (entry.offset - released >= kReleaseBytes) {
      file.ReleaseText(released, entry.offset - released);
      released = entry.offset;
    }
    return go_on;
  };
  Result<EntryScanOutcome> outcome = ScanEntryText(file.text(), visit);
  if (!outcome.ok()) {
    return std::move(outcome).status().AddContext("cannot read " + path.string());
  }
  outcome->recovery = file.recovery();
  return outcome;
}

struct EntryAccess::File {
  std::filesystem::path path;
  internal::JsonSource source;
};

EntryAccess::EntryAccess(std::unique_ptr<File> file) : file_(std::move(file)) {}
EntryAccess::EntryAccess(EntryAccess&&) noexcept = default;
EntryAccess& EntryAccess::operator=(EntryAccess&&) noexcept = default;
EntryAccess::~EntryAccess() = default;

Result<EntryAccess> EntryAccess::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(internal::JsonSource source, internal::JsonSource::Open(path));
  auto file = std::make_unique<File>();
  file->path = path;
  file->source = std::move(source);
  return EntryAccess(std::move(file));
}

Result<EntryTree> EntryAccess::Read(uint64_t offset, uint64_t bytes) const {
  EntryTree tree;
  MSP_RETURN_IF_ERROR(Read(offset, bytes, tree));
  return tree;
}

Status EntryAccess::Read(uint64_t offset, uint64_t bytes, EntryTree& tree) const {
  const std::string_view text = file_->source.text();
  if (offset > text.size() || bytes > text.size() - offset) {
    return IoError(
        fmt::format("cannot read {}: it was truncated while being read", file_->path.string()));
  }
  Status parsed = json::ParseValueTree(text.substr(offset, bytes), tree);
  return parsed.ok() ? std::move(parsed)
                     : std::move(parsed).AddContext(fmt::format("cannot read {}: entry at byte {}",
                                                                file_->path.string(), offset));
}

}  // namespace msprobe::dump
