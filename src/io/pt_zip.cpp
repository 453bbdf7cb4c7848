// PyTorch files since 1.6: a zip archive with a pickle and one stored member per storage.
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/pickle_lister.h"
#include "src/io/pickle_reader.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kPickleName = "data.pkl";
constexpr uint64_t kSmallMemberBytes = 4096;
constexpr int64_t kNewestVersion = 10;

// Storages are members PREFIX/data/KEY; keys are looked up among members and nowhere else.
class ZipStorages final : public StorageSource {
 public:
  ZipStorages(const ZipArchive& archive, std::string_view prefix,
              const TensorFile::Options& options, TensorFileContents& contents)
      : archive_(archive), options_(options), contents_(contents), member_name_(prefix) {
    member_name_ += "data/";
    prefix_bytes_ = member_name_.size();
  }

  Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    const auto known = opened_.find(reference.key);
    std::span<const std::byte> bytes;
    if (known != opened_.end()) {
      bytes = known->second;
    } else {
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
      MSP_ASSIGN_OR_RETURN(bytes, OpenTensorMember(archive_, *entry, options_, contents_));
      opened_.emplace(reference.key, bytes);
    }
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
  std::unordered_map<std::string_view, std::span<const std::byte>> opened_;
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

}  // namespace

Result<std::span<const std::byte>> OpenTensorMember(const ZipArchive& archive,
                                                    const ZipEntry& entry,
                                                    const TensorFile::Options& options,
                                                    TensorFileContents& contents) {
  if (entry.stored()) {
    MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, archive.RawBytes(entry));
    if (options.verify_checksums && bytes.size() <= options.verify_stored_up_to_bytes) {
      MSP_RETURN_IF_ERROR(CheckMemberChecksum(entry, bytes));
    } else if (entry.crc32 != 0) {
      contents.unchecked.push_back({bytes, entry});
    }
    return bytes;
  }
  uint64_t inflated = 0;
  for (const ZipBytes& member : contents.inflated) {
    inflated += member.bytes.size();
  }
  if (entry.size_bytes >
      options.max_inflated_bytes * 4 - std::min(inflated, options.max_inflated_bytes * 4)) {
    return UnsupportedError(fmt::format("compressed members of more than {} bytes in one file",
                                        options.max_inflated_bytes * 4));
  }
  MSP_ASSIGN_OR_RETURN(ZipBytes content,
                       archive.Read(entry, options.max_inflated_bytes, options.verify_checksums));
  contents.inflated.push_back(std::move(content));
  return contents.inflated.back().bytes;
}

Status ReadPtZip(const ZipArchive& archive, const ZipEntry& data_pickle,
                 const TensorFile::Options& options, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kPtZip;
  const std::string_view prefix =
      data_pickle.name.substr(0, data_pickle.name.size() - kPickleName.size());
  if (archive.Find(std::string(prefix) + "constants.pkl") != nullptr) {
    return UnsupportedError("a TorchScript archive holds a program, not a plain checkpoint")
        .WithHint("save the state_dict() of the model instead");
  }
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

  const PickleLimits limits;
  MSP_ASSIGN_OR_RETURN(ZipBytes pickle_bytes,
                       archive.Read(data_pickle, limits.pickle_bytes, options.verify_checksums));
  MSP_ASSIGN_OR_RETURN(Pickle pickle, PickleReader::Read(pickle_bytes.bytes, limits), "member \"",
                       data_pickle.name, "\"");
  if (pickle_bytes.owned != nullptr) {
    contents.inflated.push_back(std::move(pickle_bytes));  // arrays inside borrow from it
  }
  contents.pickles.push_back(std::move(pickle));
  WarnAboutGlobals(contents.pickles.back(), contents.warnings);
  ZipStorages storages(archive, prefix, options, contents);
  storages.big_endian = byte_order == "big";
  return PickleLister(contents.pickles.back(), storages, contents).Run();
}

}  // namespace msprobe::io
