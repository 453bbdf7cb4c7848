#include "src/analysis/kernel_dump/fusion_rules.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/io/kernel_dump/format.h"
#include "src/json/stream_reader.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::kernel_dump {

namespace {

using json::ValueKind;
using json::ValueTree;

constexpr std::string_view kOperators = "op";
constexpr std::string_view kOriginName = "_datadump_origin_name";
constexpr std::string_view kOriginOutput = "_datadump_origin_output_index";
constexpr std::string_view kOriginNames = "_datadump_original_op_names";

std::string_view TextOf(const ValueTree& tree, uint32_t object, std::string_view key) {
  const uint32_t found = object == ValueTree::kNone ? object : tree.Find(object, key);
  return found != ValueTree::kNone && tree[found].kind == ValueKind::kText ? tree[found].text
                                                                           : std::string_view();
}

// A number, which some writers put in quotes.
std::optional<size_t> NumberOf(const ValueTree& tree, uint32_t object, std::string_view key) {
  const uint32_t found = object == ValueTree::kNone ? object : tree.Find(object, key);
  if (found == ValueTree::kNone) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = tree[found].kind == ValueKind::kInt
                                            ? std::optional<int64_t>(tree[found].integer)
                                            : base::ParseInt(tree[found].text);
  return number && *number >= 0 ? std::optional<size_t>(static_cast<size_t>(*number))
                                : std::nullopt;
}

// Calls visit(child) for each object in the list `key` of an object.
template <typename Visit>
void ForEachObject(const ValueTree& tree, uint32_t object, std::string_view key,
                   const Visit& visit) {
  const uint32_t list = object == ValueTree::kNone ? object : tree.Find(object, key);
  if (list == ValueTree::kNone || tree[list].kind != ValueKind::kList) {
    return;
  }
  tree.ForEachChild(list, [&](uint32_t child) {
    if (tree[child].kind == ValueKind::kObject) {
      visit(child);
    }
  });
}

uint32_t MemberObject(const ValueTree& tree, uint32_t object, std::string_view key) {
  const uint32_t found = object == ValueTree::kNone ? object : tree.Find(object, key);
  return found != ValueTree::kNone && tree[found].kind == ValueKind::kObject ? found
                                                                             : ValueTree::kNone;
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

// Builds one operator at a time.
class FusionReader final : public json::Handler {
 public:
  explicit FusionReader(FusionRules& rules) : rules_(rules) {}

  const Status& status() const { return status_; }

  bool OnNull() override { return !building_ || Kept(builder_.Null()); }
  bool OnBool(bool value) override { return !building_ || Kept(builder_.Bool(value)); }
  bool OnInt(int64_t value) override { return !building_ || Kept(builder_.Int(value)); }
  bool OnFloat(double value, std::string_view digits) override {
    return !building_ || Kept(builder_.Float(value, digits));
  }
  bool OnText(std::string_view value) override { return !building_ || Kept(builder_.Text(value)); }
  bool OnKey(std::string_view key) override {
    if (building_) {
      builder_.Key(key);
    } else {
      is_operators_ = key == kOperators;
    }
    return true;
  }
  bool OnBeginObject() override {
    ++depth_;
    if (!building_ && list_depth_ != 0 && depth_ == list_depth_ + 1) {
      building_ = true;
      builder_.Reset();
    }
    is_operators_ = false;
    return !building_ || Kept(builder_.Begin(ValueKind::kObject));
  }
  bool OnEndObject() override {
    --depth_;
    if (!building_) {
      return true;
    }
    builder_.End();
    if (depth_ == list_depth_) {
      building_ = false;
      return AddOperator(builder_.tree());
    }
    return true;
  }
  bool OnBeginArray() override {
    ++depth_;
    if (building_) {
      return Kept(builder_.Begin(ValueKind::kList));
    }
    if (is_operators_) {
      list_depth_ = depth_;
    }
    is_operators_ = false;
    return true;
  }
  bool OnEndArray() override {
    --depth_;
    if (building_) {
      builder_.End();
    } else if (depth_ < list_depth_) {
      list_depth_ = 0;
    }
    return true;
  }

 private:
  bool Kept(bool fits) {
    if (!fits) {
      status_ = UnsupportedError("an operator of too many values");
    }
    return fits;
  }

  bool AddOperator(const ValueTree& tree) {
    const std::string_view name = TextOf(tree, 0, "name");
    if (name.empty()) {
      return true;
    }
    FusionRules::Operator op;
    ForEachObject(tree, 0, "attr", [&](uint32_t attribute) {
      if (TextOf(tree, attribute, "key") == kOriginNames) {
        const uint32_t list = MemberObject(tree, MemberObject(tree, attribute, "value"), "list");
        const uint32_t names = list == ValueTree::kNone ? list : tree.Find(list, "s");
        if (names != ValueTree::kNone && tree[names].kind == ValueKind::kList) {
          tree.ForEachChild(names, [&](uint32_t child) {
            op.last = io::kernel_dump::InFileNames(tree[child].text);
          });
        }
      }
    });
    ForEachObject(tree, 0, "output_desc", [&](uint32_t output) {
      std::optional<OutputPlace>& place = op.outputs.emplace_back();
      size_t number = 0;
      ForEachObject(tree, output, "attr", [&](uint32_t attribute) {
        const std::string_view key = TextOf(tree, attribute, "key");
        const uint32_t value = MemberObject(tree, attribute, "value");
        if (const std::string_view text = TextOf(tree, value, "s");
            key == kOriginName && !text.empty()) {
          place = OutputPlace{io::kernel_dump::InFileNames(text), 0};
        } else if (key == kOriginOutput) {
          number = NumberOf(tree, value, "i").value_or(0);
        }
      });
      if (place) {
        place->output = number;
      }
    });
    if (const uint32_t inputs = tree.Find(0, "input");
        inputs != ValueTree::kNone && tree[inputs].kind == ValueKind::kList) {
      tree.ForEachChild(inputs, [&](uint32_t child) {
        // "x:-1" orders two operators and is not a tensor.
        if (!tree[child].text.empty() && !tree[child].text.ends_with(":-1")) {
          op.inputs.push_back(ParseSource(tree[child].text));
        }
      });
    }
    rules_.tensors_ += op.outputs.size() + op.inputs.size();
    rules_.operators_[io::kernel_dump::InFileNames(name)] = std::move(op);
    if (rules_.operators_.size() > kMostFusionOperators || rules_.tensors_ > kMostFusionTensors) {
      status_ = UnsupportedError("too many operators");
      return false;
    }
    return true;
  }

  FusionRules& rules_;
  Status status_;
  json::ValueTreeBuilder builder_;
  size_t depth_ = 0;
  size_t list_depth_ = 0;      // of the list of operators around; 0: none
  bool is_operators_ = false;  // the key in front says so
  bool building_ = false;
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
