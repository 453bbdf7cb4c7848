#include "src/analysis/kernel_dump/fusion_rules.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/io/kernel_dump/format.h"
#include "src/json/document.h"
#include "src/json/stream_reader.h"

namespace msprobe::analysis::kernel_dump {

namespace {

using json::Json;

constexpr std::string_view kOperators = "op";
constexpr std::string_view kOriginName = "_datadump_origin_name";
constexpr std::string_view kOriginOutput = "_datadump_origin_output_index";
constexpr std::string_view kOriginNames = "_datadump_original_op_names";

std::string_view TextOf(const Json& object, std::string_view key) {
  return json::TextOf(json::Member(object, key));
}

// "conv:1"; a name without a number is output 0.
OutputPlace ParseSource(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::optional<int64_t> number =
      colon == std::string_view::npos ? std::nullopt : base::ParseInt(text.substr(colon + 1));
  if (!number || *number < 0) {
    return {io::kernel_dump::InFileNames(text), 0};
  }
  return {io::kernel_dump::InFileNames(text.substr(0, colon)), static_cast<size_t>(*number)};
}

}  // namespace

// Finds the operators, the objects of the list "op", and reads them one at a time.
class FusionReader final : public json::Handler {
 public:
  explicit FusionReader(FusionRules& rules) : rules_(rules) {}

  const Status& status() const { return status_; }

  bool OnNull() override { return true; }
  bool OnBool(bool /*value*/) override { return true; }
  bool OnNumber(std::string_view /*digits*/) override { return true; }
  bool OnInt(int64_t /*value*/) override { return true; }
  bool OnFloat(double /*value*/, std::string_view /*digits*/) override { return true; }
  bool OnText(std::string_view /*value*/) override { return true; }
  bool OnKey(std::string_view key) override {
    is_operators_ = begin_ == nullptr && key == kOperators;
    return true;
  }
  bool OnBeginObject() override {
    ++depth_;
    if (list_depth_ != 0 && depth_ == list_depth_ + 1) {
      begin_ = place() - 1;
    }
    is_operators_ = false;
    return true;
  }
  bool OnEndObject() override {
    --depth_;
    if (begin_ == nullptr || depth_ != list_depth_) {
      return true;
    }
    const std::string_view text(begin_, static_cast<size_t>(place() - begin_));
    begin_ = nullptr;
    const Result<Json> op = json::ParseDocument(text);
    status_ = op.ok() ? AddOperator(*op) : UnsupportedError("an operator of too many values");
    return status_.ok();
  }
  bool OnBeginArray() override {
    ++depth_;
    if (is_operators_) {
      list_depth_ = depth_;
    }
    is_operators_ = false;
    return true;
  }
  bool OnEndArray() override {
    --depth_;
    if (depth_ < list_depth_) {
      list_depth_ = 0;
    }
    return true;
  }

 private:
  // Where a tensor came from, as the attributes of an output say.
  static std::optional<OutputPlace> OriginOf(const Json& output) {
    std::optional<OutputPlace> place;
    size_t number = 0;
    for (const Json& attribute : json::ItemsOf(json::Member(output, "attr"))) {
      const std::string_view key = TextOf(attribute, "key");
      const Json& value = json::Member(attribute, "value");
      if (const std::string_view text = TextOf(value, "s"); key == kOriginName && !text.empty()) {
        place = OutputPlace{io::kernel_dump::InFileNames(text), 0};
      } else if (key == kOriginOutput) {
        // Some writers put the number in quotes.
        const Json& index = json::Member(value, "i");
        const int64_t told = index.is_number_integer()
                                 ? json::IntOf(index)
                                 : base::ParseInt(json::TextOf(index)).value_or(0);
        number = static_cast<size_t>(std::max<int64_t>(told, 0));
      }
    }
    if (place) {
      place->output = number;
    }
    return place;
  }

  Status AddOperator(const Json& object) {
    const std::string_view name = TextOf(object, "name");
    if (name.empty()) {
      return {};
    }
    FusionRules::Operator op;
    for (const Json& attribute : json::ItemsOf(json::Member(object, "attr"))) {
      if (TextOf(attribute, "key") == kOriginNames) {
        const Json& list = json::Member(json::Member(attribute, "value"), "list");
        for (const Json& original : json::ItemsOf(json::Member(list, "s"))) {
          op.last = io::kernel_dump::InFileNames(json::TextOf(original));
        }
      }
    }
    for (const Json& output : json::ItemsOf(json::Member(object, "output_desc"))) {
      if (output.is_object()) {
        op.outputs.push_back(OriginOf(output));
      }
    }
    for (const Json& input : json::ItemsOf(json::Member(object, "input"))) {
      // "x:-1" orders two operators and is not a tensor.
      const std::string& source = json::TextOf(input);
      if (!source.empty() && !source.ends_with(":-1")) {
        op.inputs.push_back(ParseSource(source));
      }
    }
    rules_.tensors_ += op.outputs.size() + op.inputs.size();
    rules_.operators_[io::kernel_dump::InFileNames(name)] = std::move(op);
    return rules_.operators_.size() > kMostFusionOperators || rules_.tensors_ > kMostFusionTensors
               ? UnsupportedError("too many operators")
               : Status();
  }

  FusionRules& rules_;
  Status status_;
  const char* begin_ = nullptr;  // of the operator that is open
  size_t depth_ = 0;
  size_t list_depth_ = 0;      // of the list of operators around; 0: none
  bool is_operators_ = false;  // the key in front says so
};

Result<FusionRules> FusionRules::Read(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  FusionRules rules;
  FusionReader reader(rules);
  MSP_RETURN_IF_ERROR(json::ParseStream(file.text(), reader).AddContext(path.string()));
  MSP_RETURN_IF_ERROR(Status(reader.status()).AddContext(path.string()));
  if (rules.empty()) {
    return BadFormatError(fmt::format("{} names no operators", path.string()))
        .WithHint("expected: the graph of the compiled model as JSON, as ATC writes it");
  }
  return rules;
}

std::optional<OutputPlace> FusionRules::Origin(std::string_view op, size_t output) const {
  const auto found = operators_.find(op);
  if (found == operators_.end()) {
    return std::nullopt;
  }
  const Operator& known = found->second;
  if (output < known.outputs.size() && known.outputs[output]) {
    return known.outputs[output];
  }
  return known.last.empty() ? std::nullopt : std::optional<OutputPlace>({known.last, output});
}

std::optional<OutputPlace> FusionRules::InputOrigin(std::string_view op, size_t input) const {
  const auto found = operators_.find(op);
  if (found == operators_.end() || input >= found->second.inputs.size()) {
    return std::nullopt;
  }
  const OutputPlace& source = found->second.inputs[input];
  const std::optional<OutputPlace> origin = Origin(source.op, source.output);
  return origin ? origin : source;
}

std::map<OutputPlace, OutputPlace> FusionRules::ByOrigin() const {
  std::map<OutputPlace, OutputPlace> places;
  for (const auto& [name, op] : operators_) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i]) {
        places.emplace(*op.outputs[i], OutputPlace{name, i});
      }
    }
  }
  for (const auto& [name, op] : operators_) {
    // An operator whose outputs the file leaves out has one.
    for (size_t i = 0; !op.last.empty() && i < std::max<size_t>(op.outputs.size(), 1); ++i) {
      if (i >= op.outputs.size() || !op.outputs[i]) {
        places.emplace(OutputPlace{op.last, i}, OutputPlace{name, i});
      }
    }
  }
  return places;
}

}  // namespace msprobe::analysis::kernel_dump
