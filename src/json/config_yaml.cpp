#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <new>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "src/base/files.h"
#include "src/json/config.h"
#include "src/json/config_tree.h"
#include "src/json/yaml_scalar.h"

namespace msprobe::json {
namespace {

// No tag, and the standard ones that say what the spelling says anyway.
constexpr std::array<std::string_view, 6> kPlainTags = {"",
                                                        "?",
                                                        "tag:yaml.org,2002:null",
                                                        "tag:yaml.org,2002:bool",
                                                        "tag:yaml.org,2002:int",
                                                        "tag:yaml.org,2002:float"};

constexpr std::string_view kBinaryTag = "tag:yaml.org,2002:binary";
constexpr std::string_view kTimestampTag = "tag:yaml.org,2002:timestamp";

// Values that aliases repeat in one document: far more than people write, few enough to hold.
constexpr size_t kMostCopied = 100'000;
// The bytes of the texts that anchors and aliases repeat: one long text may be named very often.
constexpr size_t kMostCopiedBytes = size_t{64} << 20U;

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

struct TreeSize {
  size_t nodes = 0;
  size_t bytes = 0;  // of texts and keys
};

TreeSize SizeOf(const ConfigValue& root) {
  TreeSize size;
  std::vector<const ConfigValue*> pending = {&root};
  while (!pending.empty()) {
    const ConfigValue* value = pending.back();
    pending.pop_back();
    ++size.nodes;
    size.bytes += value->text.size();
    for (const ConfigValue& item : value->items) {
      pending.push_back(&item);
    }
    for (const auto& [key, member] : value->members) {
      size.bytes += key.size();
      pending.push_back(&member);
    }
  }
  return size;
}

size_t Depth(const ConfigValue& root) {
  size_t deepest = 0;
  std::vector<std::pair<const ConfigValue*, size_t>> pending = {{&root, 0}};
  while (!pending.empty()) {
    const auto [value, depth] = pending.back();
    pending.pop_back();
    deepest = std::max(deepest, depth);
    for (const ConfigValue& item : value->items) {
      pending.emplace_back(&item, depth + 1);
    }
    for (const auto& [key, member] : value->members) {
      pending.emplace_back(&member, depth + 1);
    }
  }
  return deepest;
}

// yaml-cpp's events into the tree. They cannot be stopped, so after a failure they are only
// ignored. An alias becomes a copy of what its anchor named; copies count against the limits of
// values and of bytes, so that nested aliases and long texts cannot blow up.
class YamlTree final : public YAML::EventHandler {
 public:
  explicit YamlTree(internal::TreeUse use)
      : is_data_(use == internal::TreeUse::kData), builder_(use) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (is_data_ && builder_.expects_key()) {
      builder_.Key("null", LineOf(mark), ConfigKind::kNull);
      return;
    }
    AddScalar(ConfigValue{}, mark, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (builder_.expects_key()) {
      Remember(anchor, TextValue(text, LineOf(mark)));
      AddKey(text, tag, LineOf(mark));
      return;
    }
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      AddScalar(TextValue(text, LineOf(mark)), mark, anchor);
    } else if (std::find(kPlainTags.begin(), kPlainTags.end(), tag) != kPlainTags.end()) {
      AddScalar(Resolve(text), mark, anchor);
    } else if (is_data_ && (tag == kBinaryTag || tag == kTimestampTag)) {
      ConfigValue value = TextValue(text, LineOf(mark));
      value.is_typed_text = true;
      AddScalar(std::move(value), mark, anchor);
    } else {
      builder_.Fail(LineOf(mark), fmt::format("tag {} is not supported", tag));
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const int line = LineOf(mark);
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      builder_.Fail(line, "an alias refers to a node that contains it");
      return;
    }
    const Anchored& named = known->second;
    if (builder_.expects_key()) {
      if (named.value.kind != ConfigKind::kText) {
        builder_.Fail(line, "a key must be text");
      } else if (CountBytes(named.size.bytes, line)) {
        builder_.Key(named.value.text, line);
      }
      return;
    }
    if (builder_.depth() + named.depth > static_cast<size_t>(internal::kConfigDepth)) {
      builder_.Fail(line, fmt::format("more than {} nested levels", internal::kConfigDepth));
      return;
    }
    copied_ += named.size.nodes;
    if (copied_ > kMostCopied) {
      builder_.Fail(line, fmt::format("its aliases come to more than {} values", kMostCopied));
      return;
    }
    if (builder_.Count(named.size.nodes, line) && CountBytes(named.size.bytes, line)) {
      builder_.Add(named.value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(ConfigKind::kList, mark, anchor);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(ConfigKind::kObject, mark, anchor);
  }
  void OnMapEnd() override { End(); }

  internal::TreeBuilder& builder() { return builder_; }

 private:
  struct Anchored {
    ConfigValue value;
    TreeSize size;
    size_t depth = 0;
  };

  bool CountBytes(size_t bytes, int line) {
    copied_bytes_ += bytes;
    if (copied_bytes_ > kMostCopiedBytes) {
      return builder_.Fail(
          line, fmt::format("its anchors and aliases repeat more than {} bytes", kMostCopiedBytes));
    }
    return true;
  }

  static ConfigValue TextValue(const std::string& text, int line) {
    ConfigValue value;
    value.kind = ConfigKind::kText;
    value.text = text;
    value.line = line;
    return value;
  }

  ConfigValue Resolve(const std::string& text) const {
    return is_data_ ? internal::ResolvePlainData(text) : internal::ResolvePlainScalar(text);
  }

  void AddKey(const std::string& text, const std::string& tag, int line) {
    const bool plain = is_data_ && (tag.empty() || tag == "?");
    if (plain && text == "<<") {
      builder_.MergeKey(line);
    } else {
      builder_.Key(text, line, plain ? Resolve(text).kind : ConfigKind::kText);
    }
  }

  void AddScalar(ConfigValue value, const YAML::Mark& mark, YAML::anchor_t anchor) {
    value.line = LineOf(mark);
    if (builder_.expects_key()) {
      builder_.Fail(value.line, "a key must be text");
      return;
    }
    if (builder_.Add(std::move(value)) && builder_.last() != nullptr) {
      Remember(anchor, *builder_.last());
    }
  }

  void Begin(ConfigKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (builder_.expects_key()) {
      builder_.Fail(LineOf(mark), "a key must be text");
      return;
    }
    open_anchors_.push_back(anchor);
    builder_.Begin(kind, LineOf(mark));
  }

  void End() {
    if (builder_.failed() || !builder_.End()) {
      return;
    }
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    if (builder_.last() != nullptr) {
      Remember(anchor, *builder_.last());
    }
  }

  void Remember(YAML::anchor_t anchor, const ConfigValue& value) {
    if (anchor == YAML::NullAnchor || builder_.failed()) {
      return;
    }
    const TreeSize size = SizeOf(value);
    if (builder_.Count(size.nodes, value.line) && CountBytes(size.bytes, value.line)) {
      anchors_[anchor] = {value, size, Depth(value)};
    }
  }

  const bool is_data_;
  size_t copied_ = 0;
  size_t copied_bytes_ = 0;
  internal::TreeBuilder builder_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::vector<YAML::anchor_t> open_anchors_;
};

Result<Config> ParseYaml(std::string_view text, std::string file_name, internal::TreeUse use) {
  YamlTree tree(use);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    parser.HandleNextDocument(tree);
    if (!tree.builder().failed()) {
      YamlTree second(use);
      if (parser.HandleNextDocument(second)) {
        return BadFormatError(fmt::format("{}: holds more than one document", file_name));
      }
    }
  } catch (const YAML::Exception& error) {
    return BadFormatError(fmt::format("{}: line {} column {}: {}", file_name, error.mark.line + 1,
                                      error.mark.column + 1, error.msg));
  } catch (const std::bad_alloc&) {  // not the file's fault
    throw;
  } catch (const std::exception& error) {
    return BadFormatError(fmt::format("{}: not valid YAML ({})", file_name, error.what()));
  }
  MSP_RETURN_IF_ERROR(Status(tree.builder().status()), file_name);
  return Config{std::move(file_name), tree.builder().TakeRoot()};
}

}  // namespace

Result<Config> ParseYamlConfig(std::string_view text, std::string file_name) {
  return ParseYaml(text, std::move(file_name), internal::TreeUse::kSettings);
}

Result<Config> ParseYamlData(std::string_view text, std::string file_name) {
  return ParseYaml(text, std::move(file_name), internal::TreeUse::kData);
}

Result<Config> LoadYamlConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, internal::kConfigLimitBytes));
  return ParseYamlConfig(text, path.string());
}

}  // namespace msprobe::json
