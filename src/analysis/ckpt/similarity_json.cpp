#include "src/analysis/ckpt/similarity_json.h"

#include "src/json/writer.h"

namespace msprobe::analysis::ckpt {
namespace {

using json::Writer;

void PutMetric(Writer& writer, std::string_view key, const PairResult& pair,
               const std::optional<double>& value) {
  writer.Key(key);
  if (pair.outcome == Outcome::kUnreadable) {
    writer.Text("error");
  } else if (pair.outcome == Outcome::kShapes || !value) {
    writer.Null();
  } else {
    writer.Float(*value);
  }
}

void PutShape(Writer& writer, const Shape& shape) {
  writer.BeginArray();
  for (const int64_t size : shape) {
    writer.Int(size);
  }
  writer.EndArray();
}

}  // namespace

std::string SimilarityJson(std::span<const PairResult> pairs, bool strict) {
  std::string text;
  Writer writer(text, 4, strict ? Writer::NonFinite::kNull : Writer::NonFinite::kPython);
  writer.BeginObject();
  for (const PairResult& pair : pairs) {
    writer.Key(pair.name);
    writer.BeginObject();
    PutMetric(writer, "l2", pair, pair.metrics.l2);
    PutMetric(writer, "cos", pair, pair.metrics.cosine);
    const int64_t count_a = ElementCount(pair.shape_a);
    const int64_t count_b = ElementCount(pair.shape_b);
    writer.Key("numel");
    if (count_a == count_b) {
      writer.Int(count_a);
    } else {
      PutShape(writer, {count_a, count_b});
    }
    writer.Key("shape");
    if (pair.shape_a == pair.shape_b) {
      PutShape(writer, pair.shape_a);
    } else {
      writer.BeginArray();
      PutShape(writer, pair.shape_a);
      PutShape(writer, pair.shape_b);
      writer.EndArray();
    }
    writer.EndObject();
  }
  writer.EndObject();
  return text;
}

}  // namespace msprobe::analysis::ckpt
