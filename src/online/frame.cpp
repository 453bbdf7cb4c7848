#include "src/online/frame.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "src/kernels/crc32.h"

namespace msprobe::online {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<std::byte, kTensorAlignment> kPadding = {};
constexpr uint32_t kMostPlainTextBytes = 4096;
constexpr uint32_t kMostDTypeBytes = 32;

template <typename Number>
void AppendNumber(Number value, std::string& out) {
  std::array<char, sizeof(value)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(value));
  out.append(bytes.data(), bytes.size());
}

void AppendText(std::string_view text, std::string& out) {
  AppendNumber(static_cast<uint32_t>(text.size()), out);
  out += text;
}

uint64_t PaddingBehind(uint64_t bytes) {
  return (kTensorAlignment - bytes % kTensorAlignment) % kTensorAlignment;
}

std::string HeaderRoom() { return std::string(kFrameHeaderBytes, '\0'); }

// Puts the header in front of `frame`, whose head begins with room for it.
void FillHeader(FrameKind kind, uint64_t session, uint64_t sequence, Frame& frame) {
  const std::string_view own = std::string_view(frame.head).substr(kFrameHeaderBytes);
  uint32_t crc32 = kernels::Crc32(std::as_bytes(std::span(own.data(), own.size())));
  for (const std::span<const std::byte> part : frame.data) {
    crc32 = kernels::Crc32(part, crc32);
  }
  std::string header;
  AppendNumber(kFrameMagic, header);
  AppendNumber(kFrameVersion, header);
  AppendNumber(static_cast<uint16_t>(kind), header);
  AppendNumber(session, header);
  AppendNumber(sequence, header);
  AppendNumber(frame.size_bytes() - kFrameHeaderBytes, header);
  AppendNumber(crc32, header);
  AppendNumber(uint32_t{0}, header);
  header.copy(frame.head.data(), kFrameHeaderBytes);
}

class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> payload) : payload_(payload) {}

  template <typename Number>
  Result<Number> Read() {
    if (rest().size() < sizeof(Number)) {
      return Short();
    }
    Number value;
    std::memcpy(&value, rest().data(), sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  Result<std::string> Text(uint32_t most) {
    MSP_ASSIGN_OR_RETURN(const uint32_t size, Read<uint32_t>());
    if (size > most) {
      return BadFormatError(
          fmt::format("a frame has a text of {} bytes at byte {}, more than {}", size, at_, most));
    }
    if (rest().size() < size) {
      return Short();
    }
    std::string text(reinterpret_cast<const char*>(rest().data()), size);
    at_ += size;
    return text;
  }
  Result<std::span<const std::byte>> Aligned(uint64_t bytes) {
    const uint64_t padding = PaddingBehind(at_);
    if (rest().size() < padding || rest().size() - padding < bytes) {
      return Short();
    }
    const std::span<const std::byte> found = rest().subspan(padding, bytes);
    at_ += padding + bytes;
    return found;
  }
  Status AtEnd() const {
    return rest().empty() ? OkStatus()
                          : BadFormatError(fmt::format("a frame has {} bytes too many at its end",
                                                       rest().size()));
  }

 private:
  std::span<const std::byte> rest() const { return payload_.subspan(at_); }
  Status Short() const { return BadFormatError(fmt::format("a frame ends early at byte {}", at_)); }

  const std::span<const std::byte> payload_;
  size_t at_ = 0;
};

Result<CallTensor> ReadTensorHead(PayloadReader& reader, uint64_t& bytes) {
  CallTensor tensor;
  MSP_ASSIGN_OR_RETURN(tensor.name, reader.Text(kMostCallNameBytes));
  MSP_ASSIGN_OR_RETURN(const std::string dtype, reader.Text(kMostDTypeBytes));
  const std::optional<DType> known = ParseDType(dtype);
  MSP_ASSIGN_OR_RETURN(const uint8_t axes, reader.Read<uint8_t>());
  if (!known || axes > kMostTensorAxes) {
    return BadFormatError("a frame has a tensor of an unknown dtype, or with too many axes");
  }
  tensor.dtype = *known;
  uint64_t span = DTypeSize(*known);  // as if no axis were empty
  uint64_t product = span;
  for (uint8_t axis = 0; axis < axes; ++axis) {
    MSP_ASSIGN_OR_RETURN(const int64_t size, reader.Read<int64_t>());
    if (size < 0 ||
        __builtin_mul_overflow(span, std::max<uint64_t>(static_cast<uint64_t>(size), 1), &span) ||
        span > kMostPayloadBytes) {
      return BadFormatError("a frame has a tensor of a shape that cannot be");
    }
    product *= static_cast<uint64_t>(size);
    tensor.shape.push_back(size);
  }
  MSP_ASSIGN_OR_RETURN(bytes, reader.Read<uint64_t>());
  if (bytes != product) {
    return BadFormatError(fmt::format("a frame has {} bytes for a tensor of shape {} and dtype {}",
                                      bytes, ShapeText(tensor.shape), dtype));
  }
  return tensor;
}

}  // namespace

uint64_t Frame::size_bytes() const {
  uint64_t bytes = head.size();
  for (const std::span<const std::byte> part : data) {
    bytes += part.size();
  }
  return bytes;
}

Frame HelloFrame(uint64_t session, uint64_t sequence, const Hello& hello) {
  Frame frame{HeaderRoom(), {}};
  AppendNumber(hello.rank, frame.head);
  AppendText(hello.framework, frame.head);
  FillHeader(FrameKind::kHello, session, sequence, frame);
  return frame;
}

Result<Frame> CallFrame(uint64_t session, uint64_t sequence, const Call& call) {
  if (call.name.size() > kMostCallNameBytes || call.record.size() > kMostRecordBytes ||
      call.tensors.size() > kMostCallTensors) {
    return UnsupportedError(
        fmt::format("a call with a name of {} bytes, a record of {} bytes and {} tensors",
                    call.name.size(), call.record.size(), call.tensors.size()));
  }
  Frame frame{HeaderRoom(), {}};
  AppendNumber(call.rank, frame.head);
  AppendNumber(call.step, frame.head);
  AppendText(call.name, frame.head);
  AppendText(call.record, frame.head);
  AppendNumber(static_cast<uint32_t>(call.tensors.size()), frame.head);
  for (const CallTensor& tensor : call.tensors) {
    if (tensor.shape.size() > kMostTensorAxes || tensor.name.size() > kMostCallNameBytes) {
      return UnsupportedError(fmt::format("a tensor with {} axes", tensor.shape.size()));
    }
    AppendText(tensor.name, frame.head);
    AppendText(DTypeName(tensor.dtype), frame.head);
    AppendNumber(static_cast<uint8_t>(tensor.shape.size()), frame.head);
    for (const int64_t size : tensor.shape) {
      AppendNumber(size, frame.head);
    }
    AppendNumber(static_cast<uint64_t>(tensor.bytes.size()), frame.head);
  }
  uint64_t at = frame.head.size() - kFrameHeaderBytes;
  for (const CallTensor& tensor : call.tensors) {
    const uint64_t padding = PaddingBehind(at);
    frame.data.push_back(std::span(kPadding).first(padding));
    frame.data.push_back(tensor.bytes);
    at += padding + tensor.bytes.size();
  }
  if (at > kMostPayloadBytes) {
    return UnsupportedError(fmt::format("a call of {} bytes", at));
  }
  FillHeader(FrameKind::kCall, session, sequence, frame);
  return frame;
}

Frame EndFrame(uint64_t session, uint64_t sequence, const End& end) {
  Frame frame{HeaderRoom(), {}};
  AppendNumber(end.sent_calls, frame.head);
  AppendNumber(end.dropped_calls, frame.head);
  AppendNumber(end.dropped_bytes, frame.head);
  FillHeader(FrameKind::kEnd, session, sequence, frame);
  return frame;
}

Frame TakenFrame(uint64_t session, uint64_t sequence) {
  Frame frame{HeaderRoom(), {}};
  FillHeader(FrameKind::kTaken, session, sequence, frame);
  return frame;
}

Frame RefusedFrame(uint64_t session, std::string_view why) {
  Frame frame{HeaderRoom(), {}};
  AppendText(why.substr(0, kMostPlainTextBytes), frame.head);
  FillHeader(FrameKind::kRefused, session, 0, frame);
  return frame;
}

Frame DigestFrame(FrameKind kind, uint64_t session, const kernels::Sha256Digest& digest) {
  Frame frame{HeaderRoom(), {}};
  frame.head.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  FillHeader(kind, session, 0, frame);
  return frame;
}

Result<FrameHeader> ReadFrameHeader(std::span<const std::byte> bytes) {
  PayloadReader reader(bytes);
  MSP_ASSIGN_OR_RETURN(const uint32_t magic, reader.Read<uint32_t>());
  MSP_ASSIGN_OR_RETURN(const uint16_t version, reader.Read<uint16_t>());
  MSP_ASSIGN_OR_RETURN(const uint16_t kind, reader.Read<uint16_t>());
  FrameHeader header;
  MSP_ASSIGN_OR_RETURN(header.session, reader.Read<uint64_t>());
  MSP_ASSIGN_OR_RETURN(header.sequence, reader.Read<uint64_t>());
  MSP_ASSIGN_OR_RETURN(header.payload_bytes, reader.Read<uint64_t>());
  MSP_ASSIGN_OR_RETURN(header.crc32, reader.Read<uint32_t>());
  MSP_ASSIGN_OR_RETURN(const uint32_t reserved, reader.Read<uint32_t>());
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  if (magic != kFrameMagic) {
    return BadFormatError("what came is not a frame of msprobe");
  }
  if (version != kFrameVersion) {
    return BadFormatError(fmt::format("a frame of version {}; this msprobe knows version {}",
                                      version, kFrameVersion));
  }
  header.kind = static_cast<FrameKind>(kind);
  if (header.kind < FrameKind::kHello || header.kind > FrameKind::kProof || reserved != 0) {
    return BadFormatError(fmt::format("a frame of the unknown kind {}", kind));
  }
  const uint64_t most =
      header.kind == FrameKind::kCall ? kMostPayloadBytes : kMostPlainPayloadBytes;
  if (header.payload_bytes > most) {
    return BadFormatError(
        fmt::format("a frame of {} bytes, more than {}", header.payload_bytes, most));
  }
  return header;
}

Status CheckPayload(const FrameHeader& header, std::span<const std::byte> payload) {
  if (payload.size() != header.payload_bytes) {
    return BadFormatError(
        fmt::format("a frame of {} bytes instead of {}", payload.size(), header.payload_bytes));
  }
  if (kernels::Crc32(payload) != header.crc32) {
    return BadFormatError("a frame whose checksum is another: it was damaged on its way");
  }
  return {};
}

Result<Hello> ReadHello(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  Hello hello;
  MSP_ASSIGN_OR_RETURN(hello.rank, reader.Read<int64_t>());
  MSP_ASSIGN_OR_RETURN(hello.framework, reader.Text(kMostPlainTextBytes));
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  if (hello.rank < 0) {
    return BadFormatError("a frame names a rank below 0");
  }
  return hello;
}

Result<End> ReadEnd(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  End end;
  MSP_ASSIGN_OR_RETURN(end.sent_calls, reader.Read<uint64_t>());
  MSP_ASSIGN_OR_RETURN(end.dropped_calls, reader.Read<uint64_t>());
  MSP_ASSIGN_OR_RETURN(end.dropped_bytes, reader.Read<uint64_t>());
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  return end;
}

Result<std::string> ReadRefused(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  MSP_ASSIGN_OR_RETURN(std::string why, reader.Text(kMostPlainTextBytes));
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  return why;
}

Result<kernels::Sha256Digest> ReadDigest(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  MSP_ASSIGN_OR_RETURN(const auto digest, reader.Read<kernels::Sha256Digest>());
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  return digest;
}

Result<Call> ReadCall(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  Call call;
  MSP_ASSIGN_OR_RETURN(call.rank, reader.Read<int64_t>());
  MSP_ASSIGN_OR_RETURN(call.step, reader.Read<int64_t>());
  MSP_ASSIGN_OR_RETURN(call.name, reader.Text(kMostCallNameBytes));
  MSP_ASSIGN_OR_RETURN(call.record, reader.Text(kMostRecordBytes));
  MSP_ASSIGN_OR_RETURN(const uint32_t count, reader.Read<uint32_t>());
  if (call.rank < 0 || call.step < 0 || count > kMostCallTensors) {
    return BadFormatError(
        "a frame has a rank or step below 0, or more tensors than a call can have");
  }
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t bytes = 0;
    MSP_ASSIGN_OR_RETURN(CallTensor tensor, ReadTensorHead(reader, bytes));
    call.tensors.push_back(std::move(tensor));
    sizes.push_back(bytes);
  }
  for (uint32_t i = 0; i < count; ++i) {
    MSP_ASSIGN_OR_RETURN(call.tensors[i].bytes, reader.Aligned(sizes[i]));
  }
  MSP_RETURN_IF_ERROR(reader.AtEnd());
  return call;
}

namespace {

constexpr std::string_view kRankWord = "rank";

template <typename Number>
std::optional<Number> WholeNumber(std::string_view text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty()
             ? std::optional(number)
             : std::nullopt;
}

}  // namespace

std::string FolderFileName(const FolderFile& file) {
  const std::string begin = fmt::format("{}{}.{:016x}", kRankWord, file.rank, file.session);
  switch (file.kind) {
    case FrameKind::kHello:
      return begin + ".start";
    case FrameKind::kEnd:
      return begin + ".end";
    default:
      return fmt::format("{}.{:08}.call", begin, file.sequence);
  }
}

std::optional<FolderFile> ParseFolderFileName(std::string_view name) {
  FolderFile file;
  if (!name.starts_with(kRankWord)) {
    return std::nullopt;
  }
  const size_t first = name.find('.');
  const size_t last = name.rfind('.');
  if (first == std::string_view::npos || last == first) {
    return std::nullopt;
  }
  const std::string_view what = name.substr(last + 1);
  std::string_view middle = name.substr(first + 1, last - first - 1);
  if (what == "call") {
    const size_t dot = middle.find('.');
    const auto sequence = dot == std::string_view::npos
                              ? std::nullopt
                              : WholeNumber<uint64_t>(middle.substr(dot + 1), 10);
    if (!sequence) {
      return std::nullopt;
    }
    file.sequence = *sequence;
    middle = middle.substr(0, dot);
  } else if (what == "start" || what == "end") {
    file.kind = what == "start" ? FrameKind::kHello : FrameKind::kEnd;
  } else {
    return std::nullopt;
  }
  const auto rank =
      WholeNumber<int64_t>(name.substr(kRankWord.size(), first - kRankWord.size()), 10);
  const auto session = WholeNumber<uint64_t>(middle, 16);
  if (!rank || *rank < 0 || !session) {
    return std::nullopt;
  }
  file.rank = *rank;
  file.session = *session;
  // One spelling only, so that a name that was read names the file.
  return FolderFileName(file) == name ? std::optional(file) : std::nullopt;
}

}  // namespace msprobe::online
