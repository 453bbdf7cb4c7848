#include "src/dump/member_stream.h"

#include <utility>

#include <fmt/format.h>

namespace msprobe::dump {

MemberStream::MemberStream(Visit member, std::string_view expanded_key, Visit entry)
    : member_(std::move(member)), expanded_key_(expanded_key), entry_(std::move(entry)) {}

bool MemberStream::Fail(Status status) {
  status_ = std::move(status);
  stopped_ = true;
  return false;
}

bool MemberStream::StartValue(std::string_view what) {
  if (stopped_) {
    return false;
  }
  if (building_) {
    return true;
  }
  if (level_ == Level::kOutside) {
    return Fail(
        BadFormatError(fmt::format("it holds {} where an object {{...}} was expected", what)));
  }
  builder_.Reset();
  building_ = true;
  value_begin_ = nullptr;
  return true;
}

bool MemberStream::FinishValue(bool taken) {
  if (!taken) {
    return Fail(BadFormatError(
        fmt::format("\"{}\" holds more than {} values", name_, EntryTreeBuilder::kMaxNodes)));
  }
  if (!builder_.complete()) {
    return true;
  }
  building_ = false;
  Result<bool> go_on = (level_ == Level::kExpanded ? entry_ : member_)(name_, builder_.tree());
  if (!go_on.ok()) {
    return Fail(std::move(go_on).status());
  }
  stopped_ = !*go_on;
  return *go_on;
}

bool MemberStream::OnNull() { return StartValue("null") && FinishValue(builder_.Null()); }

bool MemberStream::OnBool(bool value) {
  return StartValue("true or false") && FinishValue(builder_.Bool(value));
}

bool MemberStream::OnInt(int64_t value) {
  return StartValue("a number") && FinishValue(builder_.Int(value));
}

bool MemberStream::OnFloat(double value, std::string_view digits) {
  return StartValue("a number") && FinishValue(builder_.Float(value, digits));
}

bool MemberStream::OnText(std::string_view value) {
  return StartValue("text") && FinishValue(builder_.Text(value));
}

bool MemberStream::OnBeginObject() {
  if (stopped_) {
    return false;
  }
  if (!building_ && level_ == Level::kOutside) {
    level_ = Level::kTop;
    return true;
  }
  if (!building_ && level_ == Level::kTop && entry_ && name_ == expanded_key_) {
    level_ = Level::kExpanded;
    found_expanded_ = true;
    return true;
  }
  const bool is_whole_value = !building_;
  if (!StartValue("an object")) {
    return false;
  }
  if (is_whole_value) {
    value_begin_ = place_;
  }
  return FinishValue(builder_.Begin(NodeKind::kObject));
}

bool MemberStream::OnKey(std::string_view key) {
  if (stopped_) {
    return false;
  }
  if (building_) {
    builder_.Key(key);
  } else {
    name_.assign(key);
  }
  return true;
}

bool MemberStream::OnEndObject() {
  if (stopped_) {
    return false;
  }
  if (building_) {
    builder_.End();
    return FinishValue(true);
  }
  level_ = level_ == Level::kExpanded ? Level::kTop : Level::kOutside;
  return true;
}

bool MemberStream::OnBeginArray() {
  return StartValue("a list") && FinishValue(builder_.Begin(NodeKind::kList));
}

bool MemberStream::OnEndArray() {
  if (stopped_) {
    return false;
  }
  builder_.End();
  return FinishValue(true);
}

}  // namespace msprobe::dump
