#include <algorithm>
#include <utility>

#include "src/base/files.h"
#include "src/json/config.h"
#include "src/json/config_tree.h"
#include "src/json/parse_engine.h"

namespace msprobe::json {
namespace {

// Turns events into the tree; lines are counted on the way, so that a large file is walked once.
class JsonTree final : public Handler {
 public:
  JsonTree(std::string_view text, internal::TreeUse use) : text_(text), builder_(use) {}

  bool OnNull() override { return Add({}); }
  bool OnBool(bool value) override {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kBool;
    scalar.boolean = value;
    return Add(std::move(scalar));
  }
  bool OnInt(int64_t value) override {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kInt;
    scalar.integer = value;
    scalar.number = static_cast<double>(value);
    return Add(std::move(scalar));
  }
  bool OnFloat(double value, std::string_view digits) override {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kFloat;
    scalar.number = value;
    scalar.text = digits;
    return Add(std::move(scalar));
  }
  bool OnText(std::string_view value) override {
    ConfigValue scalar;
    scalar.kind = ConfigKind::kText;
    scalar.text = value;
    return Add(std::move(scalar));
  }
  bool OnBeginObject() override { return builder_.Begin(ConfigKind::kObject, Line()); }
  bool OnKey(std::string_view key) override { return builder_.Key(std::string(key), Line()); }
  bool OnEndObject() override { return builder_.End(); }
  bool OnBeginArray() override { return builder_.Begin(ConfigKind::kList, Line()); }
  bool OnEndArray() override { return builder_.End(); }

  size_t* position() { return &position_; }
  internal::TreeBuilder& builder() { return builder_; }

 private:
  bool Add(ConfigValue scalar) {
    scalar.line = Line();
    return builder_.Add(std::move(scalar));
  }

  int Line() {
    const auto from = text_.begin() + static_cast<std::ptrdiff_t>(counted_);
    const auto to = text_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ += static_cast<int>(std::count(from, to, '\n'));
    counted_ = position_;
    return line_;
  }

  std::string_view text_;
  internal::TreeBuilder builder_;
  size_t position_ = 0;
  size_t counted_ = 0;
  int line_ = 1;
};

Result<Config> ParseJson(std::string_view text, std::string file_name, internal::TreeUse use) {
  JsonTree tree(text, use);
  MSP_RETURN_IF_ERROR(internal::Parse(text, internal::Dialect::kConfig, tree, nullptr,
                                      internal::kConfigDepth, tree.position()),
                      file_name);
  MSP_RETURN_IF_ERROR(Status(tree.builder().status()), file_name);
  return Config{std::move(file_name), tree.builder().TakeRoot()};
}

}  // namespace

Result<Config> ParseJsonConfig(std::string_view text, std::string file_name) {
  return ParseJson(text, std::move(file_name), internal::TreeUse::kSettings);
}

Result<Config> ParseJsonData(std::string_view text, std::string file_name) {
  return ParseJson(text, std::move(file_name), internal::TreeUse::kData);
}

Result<Config> LoadJsonConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(path, internal::kConfigLimitBytes));
  return ParseJsonConfig(text, path.string());
}

}  // namespace msprobe::json
