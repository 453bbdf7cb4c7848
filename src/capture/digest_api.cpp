// The C interface of msprobe/digest.h over the component digest.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/digest.h"

#include "src/capture/c_api_edge.h"
#include "src/digest/digest.h"
#include "src/io/contents.h"
#include "src/json/document.h"

using msprobe::DType;
using msprobe::OkStatus;
using msprobe::Result;
using msprobe::Shape;
using msprobe::Status;
using msprobe::TensorView;
using msprobe::UsageError;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
using msprobe::capture::View;

struct msprobe_digest {
  std::optional<msprobe::digest::Builder> builder;
  msprobe::digest::Digest head;  // without entries
  std::optional<msprobe::base::ThreadPool> pool;
  std::string text;
};

namespace {

namespace json = msprobe::json;
using json::Json;

std::optional<int64_t> NumberIn(const Json& object, std::string_view key) {
  const Json* const value = json::FindGiven(object, key);
  return value == nullptr ? std::nullopt : std::optional(json::IntOf(*value));
}

Result<msprobe::checkpoint::Checkpoint> DeclaredIn(const Json& settings) {
  msprobe::checkpoint::Checkpoint declared;
  for (const Json& item : json::ItemsOf(json::Member(settings, "parameters"))) {
    msprobe::checkpoint::Parameter parameter;
    parameter.name = json::TextOf(json::Member(item, "name"));
    const std::optional<DType> dtype =
        msprobe::ParseDType(json::TextOf(json::Member(item, "dtype")));
    for (const Json& size : json::ItemsOf(json::Member(item, "shape"))) {
      parameter.shape.push_back(json::IntOf(size));
    }
    if (parameter.name.empty() || !dtype) {
      return UsageError(
          fmt::format("parameter \"{}\" needs a name and a dtype that is known", parameter.name));
    }
    parameter.dtype = *dtype;
    if (const std::string& problem = json::TextOf(json::Member(item, "problem"));
        !problem.empty()) {
      parameter.status = msprobe::MismatchError(problem);
    }
    MSP_RETURN_IF_ERROR(
        msprobe::io::DenseBytes(parameter.shape, msprobe::DTypeSize(*dtype)).status());
    declared.parameters.push_back(std::move(parameter));
  }
  declared.facts.attention_heads = NumberIn(settings, "attention_heads");
  declared.facts.query_groups = NumberIn(settings, "query_groups");
  declared.facts.vocabulary = NumberIn(settings, "vocabulary");
  if (const Json* const gated = json::FindGiven(settings, "gated")) {
    declared.facts.gated = json::BoolOf(*gated);
  }
  return declared;
}

}  // namespace

extern "C" {

int msprobe_digest_open(msprobe_text settings_json, msprobe_digest** out) noexcept {
  return Guarded([&]() -> Status {
    if (out == nullptr) {
      return UsageError("msprobe_digest_open needs a place for the digest");
    }
    MSP_ASSIGN_OR_RETURN(const Json settings, json::ParseDocument(View(settings_json)));
    MSP_ASSIGN_OR_RETURN(const msprobe::checkpoint::Checkpoint declared, DeclaredIn(settings));
    msprobe::digest::BuildOptions options;
    if (const Json* const dtype = json::FindGiven(settings, "dtype")) {
      const auto cast = msprobe::digest::ParseCast(json::TextOf(*dtype));
      if (!cast) {
        return UsageError(fmt::format("dtype \"{}\" is none of float32, bfloat16 and float16",
                                      json::TextOf(*dtype)));
      }
      options.cast = *cast;
    }
    auto opened = std::make_unique<msprobe_digest>();
    MSP_ASSIGN_OR_RETURN(opened->builder, msprobe::digest::Builder::Make(declared, options));
    opened->head.rank = NumberIn(settings, "rank");
    opened->head.world_size = NumberIn(settings, "world_size").value_or(1);
    opened->head.source = json::TextOf(json::Member(settings, "source"));
    opened->pool.emplace(static_cast<size_t>(NumberIn(settings, "threads").value_or(1)));
    *out = opened.release();
    return OkStatus();
  });
}

void msprobe_digest_close(msprobe_digest* digest) noexcept {
  const std::unique_ptr<msprobe_digest> owned(digest);
}

int msprobe_digest_add(msprobe_digest* digest, size_t parameter, const int64_t* offset,
                       size_t dimensions, const msprobe_tensor* tensor) noexcept {
  return Guarded([&]() -> Status {
    if (digest == nullptr || !digest->builder || (offset == nullptr && dimensions > 0)) {
      return UsageError("there is no digest to add to");
    }
    MSP_ASSIGN_OR_RETURN(const TensorView view, HostView(tensor));
    if (view.element_count() == 0) {
      return OkStatus();
    }
    msprobe::checkpoint::Piece piece;
    piece.view = view;
    piece.offset.assign(offset, offset + dimensions);
    return digest->builder->Add(parameter, {&piece, 1}, /*in_memory=*/true, *digest->pool);
  });
}

int msprobe_digest_text(msprobe_digest* digest, const char** text, size_t* length) noexcept {
  return Guarded([&]() -> Status {
    if (digest == nullptr || text == nullptr || length == nullptr) {
      return UsageError("there is no digest, or no place for its text");
    }
    if (digest->builder) {
      msprobe::digest::Digest whole = digest->builder->Take();
      whole.rank = digest->head.rank;
      whole.world_size = digest->head.world_size;
      whole.source = digest->head.source;
      digest->text = msprobe::digest::DigestJson(whole);
      digest->builder.reset();
    }
    *text = digest->text.c_str();
    *length = digest->text.size();
    return OkStatus();
  });
}

}  // extern "C"
