// Writes one tensor as PyTorch would: a zip archive of stored members, data aligned to 64 bytes.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/io/tensor_output.h"
#include "src/kernels/crc32.h"
#include "src/tensor/element_blocks.h"

namespace msprobe {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kZip64From = 0xFFFFFFFF;

template <typename Integer>
void AppendLittle(Integer value, std::string& out) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFFU));
  }
}

// Emits the opcodes that Python's pickler chooses under protocol 2, memo entries included.
class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}

  void Global(std::string_view module, std::string_view name) {
    out_ += 'c';
    out_ += module;
    out_ += '\n';
    out_ += name;
    out_ += '\n';
    Memoize();
  }
  void Text(std::string_view text) {
    out_ += 'X';
    AppendLittle(static_cast<uint32_t>(text.size()), out_);
    out_ += text;
    Memoize();
  }
  void Int(int64_t value) {
    if (value < 0x100) {
      out_ += 'K';
      AppendLittle(static_cast<uint8_t>(value), out_);
    } else if (value < 0x10000) {
      out_ += 'M';
      AppendLittle(static_cast<uint16_t>(value), out_);
    } else if (value <= INT32_MAX) {
      out_ += 'J';
      AppendLittle(static_cast<int32_t>(value), out_);
    } else {
      std::string bytes;
      AppendLittle(value, bytes);
      while (bytes.back() == '\0' && (bytes[bytes.size() - 2] & '\x80') == 0) {
        bytes.pop_back();
      }
      out_ += '\x8a';
      out_ += static_cast<char>(bytes.size());
      out_ += bytes;
    }
  }
  void Sizes(const Shape& sizes) {
    if (sizes.empty()) {
      out_ += ')';
      return;
    }
    constexpr std::string_view kTupleOpcodes = "\x85\x86\x87";
    const bool marked = sizes.size() > kTupleOpcodes.size();
    out_ += marked ? "(" : "";
    for (int64_t size : sizes) {
      Int(size);
    }
    out_ += marked ? 't' : kTupleOpcodes[sizes.size() - 1];
    Memoize();
  }
  void Raw(std::string_view opcodes) { out_ += opcodes; }
  void Memoize() {
    out_ += 'q';
    out_ += static_cast<char>(memo_++);
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
  uint8_t memo_ = 0;
};

// Empty for types that only torch 2.1 and later have: they are written over untyped storages.
std::string_view StorageClassName(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "DoubleStorage";
    case DType::kFloat32:
      return "FloatStorage";
    case DType::kFloat16:
      return "HalfStorage";
    case DType::kBFloat16:
      return "BFloat16Storage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kInt32:
      return "IntStorage";
    case DType::kInt16:
      return "ShortStorage";
    case DType::kInt8:
      return "CharStorage";
    case DType::kUInt8:
      return "ByteStorage";
    case DType::kBool:
      return "BoolStorage";
    case DType::kComplex64:
      return "ComplexFloatStorage";
    case DType::kComplex128:
      return "ComplexDoubleStorage";
    default:
      return "";
  }
}

std::string TensorPickle(const TensorView& tensor) {
  const std::string_view storage_class = StorageClassName(tensor.dtype);
  const bool untyped = storage_class.empty();
  PickleWriter pickle;
  pickle.Global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.Raw("((");
  pickle.Text("storage");
  pickle.Global(untyped ? "torch.storage" : "torch", untyped ? "UntypedStorage" : storage_class);
  pickle.Text("0");
  pickle.Text("cpu");
  pickle.Int(untyped ? static_cast<int64_t>(tensor.size_bytes()) : tensor.element_count());
  pickle.Raw("t");
  pickle.Memoize();
  pickle.Raw("Q");
  pickle.Int(0);
  pickle.Sizes(tensor.shape);
  pickle.Sizes(ContiguousStrides(tensor.shape));
  pickle.Raw("\x89");
  pickle.Global("collections", "OrderedDict");
  pickle.Raw(")R");
  pickle.Memoize();
  if (untyped) {
    pickle.Global("torch", DTypeName(tensor.dtype));
  }
  pickle.Raw("t");
  pickle.Memoize();
  pickle.Raw("R");
  pickle.Memoize();
  pickle.Raw(".");
  return pickle.text();
}

struct Member {
  std::string_view name;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;
  uint64_t offset = 0;
};

// Version needed, flags (UTF-8 names), method, time and date: the same in both headers.
void AppendCommonFields(std::string& out, bool zip64) {
  AppendLittle<uint16_t>(zip64 ? 45 : 20, out);
  AppendLittle<uint16_t>(0x0800, out);
  AppendLittle<uint16_t>(0, out);
  AppendLittle<uint32_t>(0, out);
}

uint32_t Saturated(uint64_t value) {
  return value >= kZip64From ? 0xFFFFFFFFU : static_cast<uint32_t>(value);
}

// Byte offset of the CRC field in a local header.
constexpr uint64_t kLocalCrcOffset = 14;

// The padding goes into an extra field "FB" so that the data starts at a multiple of 64.
std::string LocalHeader(const Member& member) {
  const bool zip64 = member.size_bytes >= kZip64From;
  std::string extra;
  if (zip64) {
    AppendLittle<uint16_t>(0x0001, extra);
    AppendLittle<uint16_t>(16, extra);
    AppendLittle(member.size_bytes, extra);
    AppendLittle(member.size_bytes, extra);
  }
  constexpr size_t kFixedBytes = 30;
  constexpr size_t kExtraHeaderBytes = 4;
  const size_t unpadded =
      member.offset + kFixedBytes + member.name.size() + extra.size() + kExtraHeaderBytes;
  const size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  extra += "FB";
  AppendLittle(static_cast<uint16_t>(padding), extra);
  extra.append(padding, 'Z');

  std::string header = "PK\x03\x04";
  AppendCommonFields(header, zip64);
  AppendLittle(member.crc32, header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(static_cast<uint16_t>(member.name.size()), header);
  AppendLittle(static_cast<uint16_t>(extra.size()), header);
  header += member.name;
  return header + extra;
}

std::string DirectoryHeader(const Member& member) {
  std::string extra;
  for (uint64_t value : {member.size_bytes, member.size_bytes, member.offset}) {
    if (value >= kZip64From) {
      AppendLittle(value, extra);
    }
  }
  if (!extra.empty()) {
    std::string field;
    AppendLittle<uint16_t>(0x0001, field);
    AppendLittle(static_cast<uint16_t>(extra.size()), field);
    extra.insert(0, field);
  }
  std::string header = "PK\x01\x02";
  AppendLittle<uint16_t>(extra.empty() ? 20 : 45, header);
  AppendCommonFields(header, !extra.empty());
  AppendLittle(member.crc32, header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(static_cast<uint16_t>(member.name.size()), header);
  AppendLittle(static_cast<uint16_t>(extra.size()), header);
  AppendLittle<uint16_t>(0, header);  // comment
  AppendLittle<uint16_t>(0, header);  // disk
  AppendLittle<uint16_t>(0, header);  // internal attributes
  AppendLittle<uint32_t>(0, header);  // external attributes
  AppendLittle(Saturated(member.offset), header);
  header += member.name;
  return header + extra;
}

std::string EndRecords(uint64_t count, uint64_t directory_bytes, uint64_t directory_offset) {
  std::string out;
  if (directory_offset >= kZip64From) {
    const uint64_t end_offset = directory_offset + directory_bytes;
    out += "PK\x06\x06";
    AppendLittle<uint64_t>(44, out);
    AppendLittle<uint16_t>(45, out);
    AppendLittle<uint16_t>(45, out);
    AppendLittle<uint64_t>(0, out);  // both disk numbers
    AppendLittle(count, out);
    AppendLittle(count, out);
    AppendLittle(directory_bytes, out);
    AppendLittle(directory_offset, out);
    out += "PK\x06\x07";
    AppendLittle<uint32_t>(0, out);
    AppendLittle(end_offset, out);
    AppendLittle<uint32_t>(1, out);
  }
  out += "PK\x05\x06";
  AppendLittle<uint32_t>(0, out);  // both disk numbers
  AppendLittle(static_cast<uint16_t>(count), out);
  AppendLittle(static_cast<uint16_t>(count), out);
  AppendLittle(static_cast<uint32_t>(directory_bytes), out);
  AppendLittle(Saturated(directory_offset), out);
  AppendLittle<uint16_t>(0, out);
  return out;
}

// The members of an archive while its bytes are put together. Offsets count from the begin of the
// file, of which `out` is the part not yet written.
class ArchiveLayout {
 public:
  void AddText(std::string_view name, std::string_view content, std::string& out) {
    AddHeader({name, content.size(), kernels::Crc32(content), written_ + out.size()}, out);
    out += content;
  }
  // The data follows behind what `out` holds.
  void AddData(std::string_view name, uint64_t size_bytes, uint32_t crc32, std::string& out) {
    AddHeader({name, size_bytes, crc32, written_ + out.size()}, out);
    data_ = members_.size() - 1;
    written_ += out.size() + size_bytes;
  }
  void SetDataCrc(uint32_t crc32) { members_[data_].crc32 = crc32; }
  uint64_t data_crc_offset() const { return members_[data_].offset + kLocalCrcOffset; }
  void AddDirectory(std::string& out) const {
    const uint64_t offset = written_ + out.size();
    const size_t begin = out.size();
    for (const Member& member : members_) {
      out += DirectoryHeader(member);
    }
    out += EndRecords(members_.size(), out.size() - begin, offset);
  }

 private:
  void AddHeader(const Member& member, std::string& out) {
    members_.push_back(member);
    out += LocalHeader(member);
  }

  std::vector<Member> members_;
  uint64_t written_ = 0;
  size_t data_ = 0;
};

}  // namespace

Status io::WritePtTo(base::AtomicFile& file, const TensorView& view,
                     std::optional<uint32_t> data_crc32) {
  const bool plain = view.is_plain();
  // A strided view passes through once: its checksum is filled in afterwards.
  uint32_t crc32 = data_crc32 ? *data_crc32 : plain ? kernels::Crc32(view.bytes()) : 0;
  ArchiveLayout archive;
  std::string head;
  archive.AddText("archive/data.pkl", TensorPickle(view), head);
  archive.AddText("archive/byteorder", "little", head);
  archive.AddData("archive/data/0", view.size_bytes(), crc32, head);

  const auto make_tail = [&archive] {
    std::string tail;
    archive.AddText("archive/version", "3\n", tail);
    archive.AddDirectory(tail);
    return tail;
  };
  if (plain) {
    return WriteParts(file, head, view.bytes(), make_tail());
  }
  MSP_RETURN_IF_ERROR(file.Write(head));
  const bool compute = !data_crc32.has_value();
  std::vector<std::byte> scratch;
  MSP_RETURN_IF_ERROR(tensor::ForEachBlock(view, tensor::kCopyBlockElements, scratch,
                                           [&](std::span<const std::byte> block, size_t) {
                                             crc32 = compute ? kernels::Crc32(block, crc32) : crc32;
                                             return file.Write(block);
                                           }));
  if (compute) {
    std::string crc;
    AppendLittle(crc32, crc);
    MSP_RETURN_IF_ERROR(file.WriteAt(archive.data_crc_offset(), crc));
    archive.SetDataCrc(crc32);
  }
  return file.Write(make_tail());
}

Status WritePtFile(const std::filesystem::path& path, const TensorView& tensor) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(io::WritePtTo(file, tensor, std::nullopt));
  return file.Commit();
}

}  // namespace msprobe
