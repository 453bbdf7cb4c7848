#include "src/device/library.h"

#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

std::string LoaderError() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown reason" : base::Printable(text);
}

}  // namespace

Library::Library(void* handle) : handle_(handle) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) {
    path_ = map->l_name;
  }
}

Library Library::IfLoaded(const char* name) {
  void* handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? Library() : Library(handle);
}

Result<Library> Library::Open(const Search& search, Loading loading) {
  const char* chosen = std::getenv(search.override_variable);
  if (chosen != nullptr && *chosen != '\0') {
    void* handle = ::dlopen(chosen, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      return NotFoundError(fmt::format("cannot load the library that {} names: {}",
                                       search.override_variable, LoaderError()));
    }
    return Library(handle);
  }
  for (const std::string& name : search.names) {
    Library library = IfLoaded(name.c_str());
    if (library.is_open()) {
      return library;
    }
  }
  if (loading == Loading::kOnlyIfLoaded) {
    return NotFoundError(fmt::format("{} is not loaded in this process: it uses no {}",
                                     search.names.front(), search.purpose));
  }
  // A library that is there but cannot be loaded says more than one that is absent.
  std::string reason;
  for (const std::string& name : search.names) {
    void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      return Library(handle);
    }
    const std::string error = LoaderError();
    const bool absent = error.starts_with(name + ": cannot open shared object file");
    if (!absent && reason.empty()) {
      reason = error;
    }
  }
  Status status = NotFoundError(
      reason.empty() ? fmt::format("{} is not installed, or not on the search path of the loader",
                                   search.names.front())
                     : fmt::format("{} cannot be loaded: {}", search.names.front(), reason));
  return std::move(status).WithHint(search.install_hint);
}

void* Library::FindAddress(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

FeatureTable::FeatureTable(std::vector<std::string_view> feature_names)
    : names_(std::move(feature_names)), missing_(names_.size()) {}

Status FeatureTable::Require(const Library& library, size_t feature) const {
  const std::vector<std::string>& missing = missing_[feature];
  if (missing.empty()) {
    return {};
  }
  return UnsupportedError(fmt::format("{} lacks {}: no {}", library.path(),
                                      base::Join(missing, ", "), names_[feature]));
}

std::vector<std::string> FeatureTable::Limitations() const {
  std::vector<std::string> sentences;
  for (size_t feature = 0; feature < names_.size(); ++feature) {
    if (!missing_[feature].empty()) {
      sentences.push_back(fmt::format("no {}: the library lacks {}", names_[feature],
                                      base::Join(missing_[feature], ", ")));
    }
  }
  return sentences;
}

}  // namespace msprobe::device
