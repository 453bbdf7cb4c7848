// PyTorch files since 1.6: a zip archive with a pickle and one stored member per storage.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/pickle_lister.h"
#include "src/io/pickle_reader.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kPickleName = "data.pkl";
constexpr uint64_t kSmallMemberBytes = 4096;
constexpr uint64_t kHeaderBytes = uint64_t{1} << 20U;  // no .npy header that is read is longer
constexpr int64_t kNewestVersion = 10;
constexpr uint64_t kMostCodeBytes = uint64_t{64} << 20U;

// Storages are members PREFIX/FOLDER/KEY, the folder being "data/" for all but constants; keys are
// looked up among members and nowhere else.
class ZipStorages final : public StorageSource {
 public:
  ZipStorages(const ZipArchive& archive, std::string_view prefix, std::string_view folder,
              const TensorFile::Options& options, TensorFileContents& contents)
      : archive_(archive), options_(options), contents_(contents), member_name_(prefix) {
    member_name_ += folder;
    prefix_bytes_ = member_name_.size();
  }

  Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    auto known = opened_.find(reference.key);
    if (known == opened_.end()) {
      member_name_.resize(prefix_bytes_);
      member_name_ += reference.key;
      const ZipEntry* entry = archive_.Find(member_name_);
      if (entry == nullptr) {
        return BadFormatError(fmt::format("member \"{}\" is missing", member_name_.substr(0, 200)));
      }
      // PyTorch stores nothing but the storage: a compressed member of another size is a trap.
      if (!entry->stored() && entry->size_bytes != wanted) {
        return BadFormatError(
            fmt::format("member \"{}\" inflates to {} bytes, its storage declares {}",
                        entry->name.substr(0, 200), entry->size_bytes, wanted));
      }
      // A member that cannot be read is not tried again for each tensor that names it.
      known =
          opened_.emplace(reference.key, OpenTensorMember(archive_, *entry, options_, contents_))
              .first;
    }
    if (!known->second.ok()) {
      return known->second.status();
    }
    const std::span<const std::byte> bytes = *known->second;
    if (bytes.size() < wanted) {
      return BadFormatError(fmt::format("storage \"{}\" declares {} bytes, its member has {}",
                                        reference.key.substr(0, 50), wanted, bytes.size()));
    }
    return bytes.first(wanted);
  }

 private:
  const ZipArchive& archive_;
  const TensorFile::Options& options_;
  TensorFileContents& contents_;
  std::string member_name_;
  size_t prefix_bytes_ = 0;
  std::unordered_map<std::string_view, Result<std::span<const std::byte>>> opened_;
};

// A small text member beside the pickle; empty when absent.
Result<std::string> ReadSmallMember(const ZipArchive& archive, std::string_view prefix,
                                    std::string_view name) {
  std::string full(prefix);
  full += name;
  const ZipEntry* entry = archive.Find(full);
  if (entry == nullptr) {
    return std::string();
  }
  MSP_ASSIGN_OR_RETURN(const ZipBytes content, archive.Read(*entry, kSmallMemberBytes, true));
  return std::string(base::Trim(content.text()));
}

// The names in a line such as `  __buffers__ = ["running_mean", ]`.
void AddListedNames(std::string_view line, std::unordered_set<std::string>& names) {
  for (size_t open = line.find('"'); open != std::string_view::npos; open = line.find('"', open)) {
    const size_t close = line.find('"', open + 1);
    if (close == std::string_view::npos) {
      return;
    }
    names.emplace(line.substr(open + 1, close - open - 1));
    open = close + 1;
  }
}

// What the sources of a TorchScript archive declare about its modules; they are read as far as they
// are of a sane size, and run by nobody. "code/__torch__/torch/nn/modules/linear.py" declares the
// classes of __torch__.torch.nn.modules.linear.
Status ReadModuleMembers(const ZipArchive& archive, std::string_view prefix,
                         ModuleMembers& members) {
  constexpr std::string_view kEnding = ".py";
  constexpr std::string_view kClass = "class ";
  uint64_t bytes_left = kMostCodeBytes;
  const std::string folder = std::string(prefix) + "code/";
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.starts_with(folder) || !entry.name.ends_with(kEnding)) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const ZipBytes code, archive.Read(entry, bytes_left, true));
    bytes_left -= code.bytes.size();
    const std::string_view path(entry.name);
    const std::string module = base::ReplaceAll(
        path.substr(folder.size(), path.size() - folder.size() - kEnding.size()), "/", ".");
    std::unordered_set<std::string>* names = nullptr;
    for (const std::string_view line : base::Split(code.text(), '\n')) {
      const std::string_view text = base::Trim(line);
      if (line.starts_with(kClass)) {
        const std::string_view name = line.substr(kClass.size());
        names = &members[fmt::format("{}.{}", module, name.substr(0, name.find_first_of("(:")))];
      } else if (names != nullptr &&
                 (text.starts_with("__parameters__ =") || text.starts_with("__buffers__ ="))) {
        AddListedNames(text, *names);
      }
    }
  }
  return {};
}

// One pickle and the tensors in it, whose storages are members PREFIX/FOLDER/KEY.
Status ListPickle(const ZipArchive& archive, const ZipEntry& member, std::string_view prefix,
                  std::string_view folder, bool big_endian, const TensorFile::Options& options,
                  TensorFileContents& contents, const ModuleMembers* members = nullptr) {
  const PickleLimits limits = PickleLimits::ForStored(member.compressed_bytes);
  MSP_ASSIGN_OR_RETURN(ZipBytes pickle_bytes,
                       archive.Read(member, limits.pickle_bytes, options.verify_checksums));
  MSP_ASSIGN_OR_RETURN(Pickle pickle, PickleReader::Read(pickle_bytes.bytes, limits), "member \"",
                       member.name, "\"");
  if (pickle_bytes.owned != nullptr) {
    contents.inflated_bytes += pickle_bytes.bytes.size();
    contents.inflated.push_back(std::move(pickle_bytes));  // arrays inside borrow from it
  }
  contents.pickles.push_back(std::move(pickle));
  WarnAboutGlobals(contents.pickles.back(), contents.warnings);
  ZipStorages storages(archive, prefix, folder, options, contents);
  storages.big_endian = big_endian;
  return PickleLister(contents.pickles.back(), storages, contents, members).Run();
}

// The bytes of a member as they lie in the file. Members that lie inside each other would inflate,
// or be checksummed, the same bytes again and again.
Result<std::span<const std::byte>> OpenOnce(const ZipArchive& archive, const ZipEntry& entry,
                                            TensorFileContents& contents) {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, archive.RawBytes(entry));
  if (bytes.size() > archive.size_bytes() - contents.opened_bytes) {
    return BadFormatError(fmt::format(
        "member \"{}\" of {} bytes overlaps others: together they are longer than the file",
        entry.name.substr(0, 200), bytes.size()));
  }
  contents.opened_bytes += bytes.size();
  return bytes;
}

}  // namespace

Result<std::span<const std::byte>> OpenTensorMember(const ZipArchive& archive,
                                                    const ZipEntry& entry,
                                                    const TensorFile::Options& options,
                                                    TensorFileContents& contents) {
  if (entry.stored()) {
    MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                         OpenOnce(archive, entry, contents));
    if (options.verify_checksums && bytes.size() <= options.verify_stored_up_to_bytes) {
      MSP_RETURN_IF_ERROR(CheckMemberChecksum(entry, bytes));
    } else if (entry.crc32 != 0) {
      contents.unchecked.push_back({bytes, entry});
    }
    return bytes;
  }
  if (entry.size_bytes > options.max_inflated_bytes * 4 -
                             std::min(contents.inflated_bytes, options.max_inflated_bytes * 4)) {
    return UnsupportedError(fmt::format("compressed members of more than {} bytes in one file",
                                        options.max_inflated_bytes * 4));
  }
  MSP_RETURN_IF_ERROR(OpenOnce(archive, entry, contents).status());
  MSP_ASSIGN_OR_RETURN(
      ZipBytes content,
      options.headers_only
          ? archive.ReadFront(entry, options.max_inflated_bytes, kHeaderBytes)
          : archive.Read(entry, options.max_inflated_bytes, options.verify_checksums));
  contents.inflated_bytes += content.bytes.size();
  contents.inflated.push_back(std::move(content));
  return contents.inflated.back().bytes;
}

Status ReadPtZip(const ZipArchive& archive, const ZipEntry& data_pickle,
                 const TensorFile::Options& options, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kPtZip;
  // PyTorch takes one or the other, depending on its version.
  for (const ZipEntry& entry : archive.entries()) {
    if (archive.Find(entry.name) != &entry) {
      return BadFormatError(fmt::format("member \"{}\" occurs twice", entry.name.substr(0, 200)));
    }
  }
  const std::string_view prefix =
      data_pickle.name.substr(0, data_pickle.name.size() - kPickleName.size());
  MSP_ASSIGN_OR_RETURN(const std::string version, ReadSmallMember(archive, prefix, "version"));
  const std::optional<int64_t> number = base::ParseInt(version);
  if (!version.empty() && (!number || *number < 1 || *number > kNewestVersion)) {
    return UnsupportedError(
        fmt::format("PyTorch file format version \"{}\" is not known", version.substr(0, 20)));
  }
  MSP_ASSIGN_OR_RETURN(const std::string byte_order, ReadSmallMember(archive, prefix, "byteorder"));
  if (!byte_order.empty() && byte_order != "little" && byte_order != "big") {
    return BadFormatError(
        fmt::format("byte order \"{}\" is neither little nor big", byte_order.substr(0, 20)));
  }

  // torch.jit.save: the attributes of a module tree like any object's, the constants of its code in
  // a second pickle, where freezing moves the weights, too. Of the code only what it declares to be
  // parameters and buffers is read.
  const ZipEntry* constants = archive.Find(std::string(prefix) + "constants.pkl");
  contents.pickles.reserve(2);  // tensors and scalars may borrow from a pickle
  ModuleMembers members;
  if (constants != nullptr) {
    MSP_RETURN_IF_ERROR(ReadModuleMembers(archive, prefix, members));
  }
  MSP_RETURN_IF_ERROR(ListPickle(archive, data_pickle, prefix, "data/", byte_order == "big",
                                 options, contents, constants != nullptr ? &members : nullptr));
  if (constants == nullptr) {
    return {};
  }
  contents.format = TensorFileFormat::kTorchScript;
  const size_t tensors = contents.tensors.size();
  const size_t scalars = contents.scalars.size();
  MSP_RETURN_IF_ERROR(ListPickle(archive, *constants, prefix, "constants/", byte_order == "big",
                                 options, contents));
  // As the code calls them: CONSTANTS.c0.
  const auto rename = [](std::vector<std::string>& path) {
    if (!path.empty()) {
      path[0].insert(0, 1, 'c');
    }
    path.insert(path.begin(), "CONSTANTS");
  };
  for (size_t i = tensors; i < contents.tensors.size(); ++i) {
    rename(contents.tensors[i].path);
    contents.tensors[i].is_attribute = true;
  }
  for (size_t i = scalars; i < contents.scalars.size(); ++i) {
    rename(contents.scalars[i].path);
  }
  return {};
}

}  // namespace msprobe::io
