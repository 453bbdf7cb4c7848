// PyTorch files before 1.6: five pickles in a row, then the storages one after the other.
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/io/byte_order.h"
#include "src/io/contents.h"
#include "src/io/pickle_lister.h"
#include "src/io/pickle_reader.h"

namespace msprobe::io {
namespace {

constexpr int64_t kLegacyProtocolVersion = 1001;

class LegacyStorages final : public StorageSource {
 public:
  // Notes the element size of every storage that the pickle refers to: the file itself does not say
  // it again.
  void Declare(const Pickle& pickle) {
    for (PickleId id = 0; id < pickle.value_count(); ++id) {
      if (pickle.kind(id) != PickleKind::kPersistentId) {
        continue;
      }
      // A broken reference makes its tensor unreadable when that is rebuilt.
      if (const Result<StorageReference> reference = ParseStorageReference(pickle, id);
          reference.ok()) {
        declared_.try_emplace(reference->key, DTypeSize(reference->dtype));
      }
    }
  }

  // Reads the storage of each key from `rest`; returns the bytes left over.
  Result<size_t> Locate(const Pickle& keys, std::span<const std::byte> rest) {
    if (keys.kind(keys.root()) != PickleKind::kList) {
      return BadFormatError("the list of storage keys is missing");
    }
    for (PickleId key : keys.items(keys.root())) {
      const auto declared =
          keys.kind(key) == PickleKind::kText ? declared_.find(keys.text(key)) : declared_.end();
      if (declared == declared_.end()) {
        return BadFormatError("a storage key is listed that no tensor declares");
      }
      if (rest.size() < sizeof(int64_t)) {
        return BadFormatError(
            fmt::format("the file ends before storage \"{}\"", keys.text(key).substr(0, 50)));
      }
      const int64_t count =
          big_endian ? LoadBig<int64_t>(rest.data()) : LoadLittle<int64_t>(rest.data());
      rest = rest.subspan(sizeof(int64_t));
      if (count < 0 || static_cast<uint64_t>(count) > rest.size() / declared->second) {
        return BadFormatError(
            fmt::format("storage \"{}\" claims {} elements of {} bytes, {} bytes are left",
                        keys.text(key).substr(0, 50), count, declared->second, rest.size()));
      }
      const size_t bytes = static_cast<size_t>(count) * declared->second;
      located_.insert_or_assign(declared->first, rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    return rest.size();
  }

  Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    const auto found = located_.find(reference.key);
    if (found == located_.end()) {
      return BadFormatError(
          fmt::format("storage \"{}\" is not in the file", reference.key.substr(0, 50)));
    }
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    const std::span<const std::byte> bytes = found->second;
    if (bytes.size() < wanted) {
      return BadFormatError(fmt::format("storage \"{}\" declares {} bytes, the file has {}",
                                        reference.key.substr(0, 50), wanted, bytes.size()));
    }
    if (!reference.is_view) {
      return bytes.first(wanted);
    }
    const auto element_bytes = static_cast<uint64_t>(DTypeSize(reference.dtype));
    const uint64_t count = wanted / element_bytes;
    const auto offset = static_cast<uint64_t>(reference.view_offset);
    const auto size = static_cast<uint64_t>(reference.view_size);
    if (offset > count || size > count - offset) {
      return BadFormatError(
          fmt::format("a view of storage \"{}\" reaches outside it", reference.key.substr(0, 50)));
    }
    return bytes.subspan(offset * element_bytes, size * element_bytes);
  }

 private:
  std::unordered_map<std::string_view, size_t> declared_;  // element size by key
  std::unordered_map<std::string_view, std::span<const std::byte>> located_;
};

// Reads the next pickle and moves on.
Result<Pickle> NextPickle(std::span<const std::byte>& rest, std::string_view what) {
  MSP_ASSIGN_OR_RETURN(Pickle pickle, PickleReader::Read(rest), what);
  rest = rest.subspan(pickle.end_offset());
  return pickle;
}

}  // namespace

Status ReadPtLegacy(std::span<const std::byte> bytes, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kPtLegacy;
  std::span<const std::byte> rest = bytes;
  MSP_ASSIGN_OR_RETURN(const Pickle magic, NextPickle(rest, "magic number"));
  MSP_ASSIGN_OR_RETURN(const Pickle version, NextPickle(rest, "protocol version"));
  if (version.AsInt(version.root()) != kLegacyProtocolVersion) {
    return UnsupportedError("a legacy PyTorch file of unknown protocol version");
  }
  MSP_ASSIGN_OR_RETURN(const Pickle system, NextPickle(rest, "system information"));
  MSP_ASSIGN_OR_RETURN(Pickle object, NextPickle(rest, "object pickle"));
  MSP_ASSIGN_OR_RETURN(const Pickle keys, NextPickle(rest, "list of storage keys"));
  contents.pickles.push_back(std::move(object));
  const Pickle& pickle = contents.pickles.back();
  WarnAboutGlobals(pickle, contents.warnings);

  LegacyStorages storages;
  const PickleId little_endian = system.Find(system.root(), "little_endian");
  storages.big_endian = little_endian != kNoPickleValue && system.AsInt(little_endian) == 0;
  storages.Declare(pickle);
  MSP_ASSIGN_OR_RETURN(const size_t left, storages.Locate(keys, rest));
  if (left > 0) {
    contents.warnings.push_back(fmt::format("{} bytes after the last storage", left));
  }
  return PickleLister(pickle, storages, contents).Run();
}

}  // namespace msprobe::io
