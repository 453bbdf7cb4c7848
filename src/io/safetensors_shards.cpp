#include "src/io/safetensors_shards.h"

#include <utility>

#include <fmt/format.h>

#include "src/io/dense_view.h"
#include "src/io/safetensors_header.h"
#include "src/json/stream_reader.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kOffsetsKey = "saved_offsets";
constexpr int kMaxShardingDepth = 8;
constexpr int kDepthOfOffsets = 3;  // the object, that of a tensor, the list

// Takes the one text from the metadata in the header; all else was read before.
class MetadataHandler final : public json::Handler {
 public:
  bool OnNull() override { return true; }
  bool OnBool(bool) override { return true; }
  bool OnInt(int64_t) override { return true; }
  bool OnFloat(double, std::string_view) override { return true; }
  bool OnText(std::string_view value) override {
    if (depth_ == 2 && in_metadata_ && is_sharding_) {
      sharding = value;
    }
    return true;
  }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      in_metadata_ = key == kSafetensorsMetadataKey;
    } else {
      is_sharding_ = key == kShardingInfoKey;
    }
    return true;
  }
  bool OnBeginObject() override { return Deeper(1); }
  bool OnEndObject() override { return Deeper(-1); }
  bool OnBeginArray() override { return Deeper(1); }
  bool OnEndArray() override { return Deeper(-1); }

  std::string sharding;

 private:
  bool Deeper(int levels) {
    depth_ += levels;
    return true;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  bool is_sharding_ = false;
};

// Takes the numbers of every "saved_offsets"; what else newer writers say of a tensor is skipped.
class ShardingHandler final : public json::Handler {
 public:
  bool OnNull() override { return IsElsewhere(); }
  bool OnBool(bool) override { return IsElsewhere(); }
  bool OnFloat(double, std::string_view) override { return IsElsewhere(); }
  bool OnText(std::string_view) override { return IsElsewhere(); }

  bool OnInt(int64_t value) override {
    if (!in_offsets_) {
      return IsElsewhere();
    }
    Shape& offset = offsets.find(name_)->second;
    if (depth_ != kDepthOfOffsets || value < 0 || offset.size() >= kMaxRank) {
      return false;
    }
    offset.push_back(value);
    return true;
  }

  bool OnBeginObject() override {
    ++depth_;
    return !in_offsets_;
  }
  bool OnEndObject() override {
    complete_ = --depth_ == 0;
    return true;
  }

  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      name_ = key;
    } else if (depth_ == 2 && key == kOffsetsKey) {
      in_offsets_ = true;
      return offsets.try_emplace(name_).second;
    }
    return true;
  }

  bool OnBeginArray() override {
    ++depth_;
    return depth_ > 1 && !(in_offsets_ && depth_ > kDepthOfOffsets);
  }
  bool OnEndArray() override {
    in_offsets_ = false;
    --depth_;
    return true;
  }

  // Whether nothing stopped it before the end.
  bool complete() const { return complete_; }

  std::unordered_map<std::string, Shape> offsets;

 private:
  bool IsElsewhere() const { return depth_ > 0 && !in_offsets_; }

  int depth_ = 0;
  bool complete_ = false;
  bool in_offsets_ = false;
  std::string name_;
};

}  // namespace

Result<std::unordered_map<std::string, Shape>> ReadShardOffsets(std::span<const std::byte> file) {
  MSP_ASSIGN_OR_RETURN(const std::string_view header, SafetensorsHeader(file));
  MetadataHandler metadata;
  MSP_RETURN_IF_ERROR(json::ParseStream(header, metadata, nullptr, kMaxSafetensorsDepth));
  if (metadata.sharding.empty()) {
    return std::unordered_map<std::string, Shape>();
  }
  ShardingHandler handler;
  const Status parsed = json::ParseStream(metadata.sharding, handler, nullptr, kMaxShardingDepth);
  if (!parsed.ok() || !handler.complete()) {
    return BadFormatError(
        fmt::format("{} in the metadata is not what PyTorch writes", kShardingInfoKey));
  }
  return std::move(handler.offsets);
}

}  // namespace msprobe::io
