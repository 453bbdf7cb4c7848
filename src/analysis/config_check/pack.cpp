#include "src/analysis/config_check/pack.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check {
namespace {

constexpr uint64_t kMaxPackBytes = uint64_t{10} << 30U;
constexpr uint64_t kMaxMemberBytes = uint64_t{1} << 30U;
constexpr uint64_t kMaxTotalBytes = uint64_t{10} << 30U;
constexpr uint64_t kMaxListBytes = uint64_t{1} << 20U;  // of env, pip and versions
constexpr size_t kMaxMembers = size_t{1} << 30U;

bool IsFolderPart(Part part) { return part != Part::kEnv && part != Part::kPip; }

uint64_t LimitOf(std::string_view member) {
  return member.find('/') == std::string_view::npos ? kMaxListBytes : kMaxMemberBytes;
}

}  // namespace

std::string_view PartName(Part part) {
  switch (part) {
    case Part::kEnv:
      return "env";
    case Part::kPip:
      return "pip";
    case Part::kDataset:
      return "dataset";
    case Part::kWeights:
      return "weights";
    case Part::kHyperparameters:
      return "hyperparameters";
    case Part::kRandom:
      return "random";
  }
  return "";
}

bool IsPackMember(std::string_view name) {
  if (name == kEnvMember || name == kPipMember || name == kVersionsMember ||
      name == kScriptEnvMember) {
    return true;
  }
  const std::string_view folder = name.substr(0, name.find('/'));
  return folder.size() < name.size() && std::any_of(kParts.begin(), kParts.end(), [&](Part part) {
           return IsFolderPart(part) && PartName(part) == folder;
         });
}

Result<std::unique_ptr<Pack>> Pack::Open(const std::filesystem::path& path,
                                         std::string_view label) {
  const auto with_path = [&path, label](Status status) {
    return std::move(status).AddContext(
        fmt::format("cannot read the {} pack {}", label, path.string()));
  };
  std::unique_ptr<Pack> pack(new Pack());
  pack->path_ = path;
  pack->label_ = label;
  if (!base::Exists(path)) {
    return NotFoundError(fmt::format("the {} pack {} does not exist", label, path.string()))
        .WithHint("msprobe config_check -d SCRIPT -o PACK.zip makes one");
  }
  Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return with_path(std::move(file).status());
  }
  pack->file_ = *std::move(file);
  if (pack->file_.bytes().size() > kMaxPackBytes) {
    return with_path(UnsupportedError("larger than 10 GiB"));
  }
  Result<io::ZipArchive> archive = io::ZipArchive::Open(pack->file_.bytes());
  if (!archive.ok()) {
    return with_path(std::move(archive).status())
        .WithHint("a pack is a zip that config_check -d or ConfigChecker wrote");
  }
  pack->archive_ = *std::move(archive);
  if (Status status = pack->TakeMembers(); !status.ok()) {
    return with_path(std::move(status));
  }
  return pack;
}

Status Pack::TakeMembers() {
  const std::vector<io::ZipEntry>& entries = archive_->entries();
  if (entries.size() > kMaxMembers) {
    return UnsupportedError(fmt::format("{} members", entries.size()));
  }
  for (const io::ZipEntry& entry : entries) {
    if (!entry.IsSafeToExtract()) {
      return BadFormatError(fmt::format("member \"{}\" would leave the output folder",
                                        base::Printable(entry.name)))
          .WithHint(
              "nothing was written; config_check never makes such a pack, so check where it comes "
              "from");
    }
    if (!IsPackMember(entry.name)) {
      ++foreign_member_count_;
      continue;
    }
    for (const Part part : kParts) {
      const std::string_view name = PartName(part);
      has_part_[static_cast<size_t>(part)] |= entry.name.substr(0, entry.name.find('/')) == name;
    }
    if (entry.name.back() != '/') {
      members_[entry.name] = &entry;
    }
  }
  uint64_t total_bytes = 0;
  for (const auto& [name, entry] : members_) {
    const uint64_t limit = LimitOf(name);
    if (entry->size_bytes > limit) {
      return UnsupportedError(
          fmt::format("member \"{}\" has {}, at most {} are read", base::Printable(name),
                      base::FormatBytes(entry->size_bytes), base::FormatBytes(limit)));
    }
    total_bytes += entry->size_bytes;
  }
  if (total_bytes > kMaxTotalBytes) {
    return UnsupportedError(fmt::format("its members have {} together, at most {} are read",
                                        base::FormatBytes(total_bytes),
                                        base::FormatBytes(kMaxTotalBytes)));
  }
  return {};
}

std::vector<std::string_view> Pack::MembersBelow(std::string_view folder) const {
  std::vector<std::string_view> names;
  for (auto at = members_.lower_bound(folder);
       at != members_.end() && at->first.starts_with(folder); ++at) {
    names.push_back(at->first);
  }
  return names;
}

uint64_t Pack::BytesOf(std::string_view member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? 0 : found->second->size_bytes;
}

Result<io::ZipBytes> Pack::Read(std::string_view member) const {
  const auto found = members_.find(member);
  if (found == members_.end()) {
    return NotFoundError(fmt::format("{}: no member \"{}\"", path_.string(), member));
  }
  Result<io::ZipBytes> bytes = archive_->Read(*found->second, LimitOf(member), true);
  if (!bytes.ok()) {
    return std::move(bytes).status().AddContext(path_.string());
  }
  return bytes;
}

Result<std::string> Pack::ReadText(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(member));
  return std::string(bytes.text());
}

Result<json::ValueTree> Pack::ReadJson(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(member));
  Result<json::ValueTree> tree = json::ParseValueTree(bytes.text());
  if (!tree.ok()) {
    return std::move(tree)
        .status()
        .AddContext(
            fmt::format("{}: member \"{}\" is not JSON", path_.string(), base::Printable(member)))
        .WithHint("collect this side again");
  }
  return tree;
}

Result<json::ValueTree> Pack::ReadJsonObject(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(json::ValueTree tree, ReadJson(member));
  if (tree[0].kind != json::ValueKind::kObject) {
    return BadFormatError(fmt::format("{}: member \"{}\" holds no object {{...}}", path_.string(),
                                      base::Printable(member)));
  }
  return tree;
}

Status Pack::Extract(const std::filesystem::path& folder) const {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  std::filesystem::path parent = folder;
  for (const auto& [name, entry] : members_) {
    const std::filesystem::path target = folder / std::string(name);
    if (target.parent_path() != parent) {
      parent = target.parent_path();
      MSP_RETURN_IF_ERROR(base::CreateFolders(parent));
    }
    MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(name));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(target, bytes.text()));
  }
  return {};
}

bool LooksLikePack(const std::filesystem::path& path) {
  if (!base::IsRegularFile(path)) {
    return false;
  }
  const Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return false;
  }
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(file->bytes());
  return archive.ok() &&
         std::any_of(archive->entries().begin(), archive->entries().end(),
                     [](const io::ZipEntry& entry) { return IsPackMember(entry.name); });
}

}  // namespace msprobe::analysis::config_check
