// A vendor's library, opened at run time, and the functions found in it. The only place that talks
// to the dynamic loader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/device/device.h"

namespace msprobe::device {

// Stays open until the process ends: the threads of a vendor's library cannot be unloaded.
class Library {
 public:
  Library() = default;

  // What `override_variable` names in the environment wins, whatever `loading` says. Otherwise the
  // first of `names` that this process has loaded already; with kMayLoad also the first that the
  // loader finds.
  struct Search {
    const char* override_variable;
    std::vector<std::string> names;
    std::string_view purpose;       // in the error: "Ascend devices"
    std::string_view install_hint;  // what may be done when there is none; may be empty
  };
  static Result<Library> Open(const Search& search, Loading loading);
  // Only if this process has it; nothing else is tried.
  static Library IfLoaded(const char* name);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  // Null when the library does not export it.
  template <typename Function>
  Function* Find(const char* symbol) const {
    return reinterpret_cast<Function*>(FindAddress(symbol));
  }

 private:
  explicit Library(void* handle);
  void* FindAddress(const char* symbol) const;

  void* handle_ = nullptr;
  std::string path_;
};

// Which features a library is too old for. A feature is a number; its name, such as "overflow
// status", stands in messages behind "no".
class FeatureTable {
 public:
  explicit FeatureTable(std::vector<std::string_view> feature_names);

  // Looks a function up; one that is absent takes its feature away.
  template <typename Function>
  void Load(const Library& library, size_t feature, const char* symbol, Function*& target) {
    target = library.Find<Function>(symbol);
    if (target == nullptr) {
      missing_[feature].emplace_back(symbol);
    }
  }

  // Ok, or kUnsupported with the functions that `library` lacks for it.
  Status Require(const Library& library, size_t feature) const;
  // A sentence per feature that is not available.
  std::vector<std::string> Limitations() const;

 private:
  std::vector<std::string_view> names_;
  std::vector<std::vector<std::string>> missing_;  // by feature
};

}  // namespace msprobe::device
