// Inside of the room: XML as events. Nothing is ever fetched or expanded: a document type
// declaration, where entities would be defined, is an error.
#pragma once

#include <string_view>

#include "msprobe/status.h"

namespace msprobe::report::internal {

// The attributes of one element; names as written, with prefix.
class XmlAttributes {
 public:
  explicit XmlAttributes(const char* const* pairs) : pairs_(pairs) {}
  // The value of the attribute with this name, without regard to a prefix; empty when absent.
  std::string_view Find(std::string_view local_name) const;

 private:
  const char* const* pairs_;
};

// Names come without prefix. After a failure nothing more is delivered.
class XmlHandler {
 public:
  virtual ~XmlHandler() = default;
  virtual Status OnBegin(std::string_view name, const XmlAttributes& attributes) = 0;
  virtual Status OnEnd(std::string_view name) = 0;
  virtual void OnText(std::string_view text) = 0;
};

// `text` has at most 2^31 - 1 bytes. Errors name the line.
Status ParseXml(std::string_view text, XmlHandler& handler);

}  // namespace msprobe::report::internal
