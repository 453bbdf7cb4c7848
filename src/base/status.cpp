#include "msprobe/status.h"

namespace msprobe {

Status::Status(StatusCode code, std::string message)
    : rep_(code == StatusCode::kOk ? nullptr
                                   : std::make_unique<Rep>(Rep{code, std::move(message), {}})) {}

Status::Status(const Status& other)
    : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) {
    rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  }
  return *this;
}

std::string Status::message() const { return ok() ? "ok" : rep_->message; }

const std::string& Status::hint() const {
  static const std::string none;
  return ok() ? none : rep_->hint;
}

Status& Status::AddContext(std::string_view context) & {
  if (!ok()) {
    rep_->message.insert(0, std::string(context) + ": ");
  }
  return *this;
}

Status&& Status::AddContext(std::string_view context) && { return std::move(AddContext(context)); }

Status& Status::WithHint(std::string_view hint) & {
  if (!ok()) {
    rep_->hint = hint;
  }
  return *this;
}

Status&& Status::WithHint(std::string_view hint) && { return std::move(WithHint(hint)); }

Status UsageError(std::string message) { return {StatusCode::kUsage, std::move(message)}; }
Status NotFoundError(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status BadFormatError(std::string message) { return {StatusCode::kBadFormat, std::move(message)}; }
Status UnsupportedError(std::string message) {
  return {StatusCode::kUnsupported, std::move(message)};
}
Status MismatchError(std::string message) { return {StatusCode::kMismatch, std::move(message)}; }
Status IoError(std::string message) { return {StatusCode::kIo, std::move(message)}; }
Status DeviceError(std::string message) { return {StatusCode::kDevice, std::move(message)}; }
Status InternalError(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

}  // namespace msprobe
