// How every fallible call of msprobe reports its outcome: a Status, or a Result<T> that holds a
// value or a Status. No exceptions cross a component's border; whoever receives a Status either
// handles it or adds context and passes it on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace msprobe {

enum class StatusCode : uint8_t {
  kOk,
  kUsage,        // the command line or a config asks for something impossible
  kNotFound,     // a named file, key or tensor does not exist
  kBadFormat,    // bytes that break their format's rules
  kUnsupported,  // valid, but nothing this build can handle
  kMismatch,     // two inputs that cannot be used together
  kIo,           // the operating system refused a read, write or mapping
  kDevice,       // an accelerator or its runtime failed
  kInternal,     // a bug of ours
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : rep_->code; }
  // The sentence with all its context, outermost first: "cannot read a/b.pt: member data/0:
  // truncated".
  std::string message() const;
  // What the user can do about it; empty when nothing is known.
  const std::string& hint() const;

  // Both return *this, so that they chain on a temporary: `return
  // BadFormatError("...").WithHint("...")`.
  Status& AddContext(std::string_view context) &;
  Status&& AddContext(std::string_view context) &&;
  Status& WithHint(std::string_view hint) &;
  Status&& WithHint(std::string_view hint) &&;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
    std::string hint;
  };
  std::unique_ptr<Rep> rep_;
};

inline Status OkStatus() { return {}; }
Status UsageError(std::string message);
Status NotFoundError(std::string message);
Status BadFormatError(std::string message);
Status UnsupportedError(std::string message);
Status MismatchError(std::string message);
Status IoError(std::string message);
Status DeviceError(std::string message);
Status InternalError(std::string message);

// A value, or the reason why there is none. Dereferencing without a value is a bug (checked by
// assert).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}         // NOLINT: implicit
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 1; }
  const Status& status() const& {
    static const Status success;
    return ok() ? success : *std::get_if<0>(&state_);
  }
  Status status() && { return ok() ? Status() : std::move(*std::get_if<0>(&state_)); }

  T& operator*() & { return *std::get_if<1>(&state_); }
  const T& operator*() const& { return *std::get_if<1>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<1>(&state_)); }
  T* operator->() { return std::get_if<1>(&state_); }
  const T* operator->() const { return std::get_if<1>(&state_); }

 private:
  std::variant<Status, T> state_;
};

namespace internal {
inline Status WithContext(Status status) { return status; }
template <typename... Parts>
Status WithContext(Status status, const Parts&... parts) {
  std::string context;
  ((context += parts), ...);
  return std::move(status).AddContext(context);
}
}  // namespace internal

}  // namespace msprobe

#define MSP_CONCAT_INNER(a, b) a##b
#define MSP_CONCAT(a, b) MSP_CONCAT_INNER(a, b)

// MSP_RETURN_IF_ERROR(expression [, context parts...]): the parts are joined and put in front of
// the error's text.
#define MSP_RETURN_IF_ERROR(expression, ...)                                                     \
  do {                                                                                           \
    if (::msprobe::Status msp_status = (expression); !msp_status.ok()) {                         \
      return ::msprobe::internal::WithContext(std::move(msp_status) __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                            \
  } while (false)

// MSP_ASSIGN_OR_RETURN(declaration, expression [, context parts...]): for Result<T>.
#define MSP_ASSIGN_OR_RETURN(declaration, expression, ...)                  \
  MSP_ASSIGN_OR_RETURN_IMPL(MSP_CONCAT(msp_result_, __LINE__), declaration, \
                            expression __VA_OPT__(, ) __VA_ARGS__)
#define MSP_ASSIGN_OR_RETURN_IMPL(result, declaration, expression, ...)               \
  auto result = (expression);                                                         \
  if (!result.ok()) {                                                                 \
    return ::msprobe::internal::WithContext(std::move(result).status() __VA_OPT__(, ) \
                                                __VA_ARGS__);                         \
  }                                                                                   \
  declaration = *std::move(result)
