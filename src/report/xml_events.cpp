#include "src/report/xml_events.h"

#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <expat.h>
#include <fmt/format.h>

namespace msprobe::report::internal {
namespace {

constexpr size_t kMaxDepth = 256;

std::string_view LocalName(std::string_view name) {
  const size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};
using ParserOwner = std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser>;

struct Session {
  XML_Parser parser;
  XmlHandler& handler;
  size_t depth = 0;
  Status status;

  void Check(Status result) {
    if (!result.ok()) {
      status = std::move(result);
      XML_StopParser(parser, XML_FALSE);
    }
  }
};

void OnBegin(void* data, const char* name, const char** attributes) {
  auto& session = *static_cast<Session*>(data);
  if (++session.depth > kMaxDepth) {
    session.Check(BadFormatError(fmt::format("more than {} nested elements", kMaxDepth)));
    return;
  }
  session.Check(session.handler.OnBegin(LocalName(name), XmlAttributes(attributes)));
}

void OnEnd(void* data, const char* name) {
  auto& session = *static_cast<Session*>(data);
  // Expat still reports the end of an empty element whose beginning stopped it.
  if (session.status.ok()) {
    --session.depth;
    session.Check(session.handler.OnEnd(LocalName(name)));
  }
}

void OnText(void* data, const char* text, int length) {
  auto& session = *static_cast<Session*>(data);
  if (session.status.ok()) {
    session.handler.OnText({text, static_cast<size_t>(length)});
  }
}

void OnDoctype(void* data, const char* /*name*/, const char* /*system_id*/,
               const char* /*public_id*/, int /*has_internal_subset*/) {
  static_cast<Session*>(data)->Check(BadFormatError("document type declarations are not allowed"));
}

}  // namespace

std::string_view XmlAttributes::Find(std::string_view local_name) const {
  for (const char* const* pair = pairs_; pair != nullptr && *pair != nullptr; pair += 2) {
    if (LocalName(pair[0]) == local_name) {
      return pair[1];
    }
  }
  return {};
}

Status ParseXml(std::string_view text, XmlHandler& handler) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return UnsupportedError("an XML member of 2 GiB or more");
  }
  const ParserOwner parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) {
    return InternalError("no memory for an XML parser");
  }
  Session session{parser.get(), handler, 0, {}};
  XML_SetUserData(parser.get(), &session);
  XML_SetElementHandler(parser.get(), OnBegin, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  // In one call: Expat then works in place, and no token is scanned twice.
  const XML_Status parsed =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  const auto line = XML_GetCurrentLineNumber(parser.get());
  if (!session.status.ok()) {
    return std::move(session.status).AddContext(fmt::format("line {}", line));
  }
  if (parsed != XML_STATUS_OK) {
    return BadFormatError(fmt::format("line {}: not valid XML ({})", line,
                                      XML_ErrorString(XML_GetErrorCode(parser.get()))));
  }
  return {};
}

}  // namespace msprobe::report::internal
