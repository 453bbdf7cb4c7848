// The addresses of a served folder:
//   /<token>/                          the list
//   /<token>/files/<path>.vis.db       the page of a graph, whose script asks for
//   /<token>/files/<path>.vis.db?g0    its parts (docs/formats/graph_page.md), made when asked for
//   /<token>/files/<path>.html         a page as it lies in the folder
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/graph/stored_graph.h"
#include "src/report/texts.h"
#include "src/serve/http_server.h"

namespace msprobe::serve {

// The list of a folder's graphs and pages: one line each, what it says first.

struct IndexLine {
  std::string path;        // from the folder
  std::string verdict;     // a word; empty: none is known
  std::string tone;        // of the verdict: "good", "caution", "bad"; empty: the word tells
  std::string text;        // the answer, where the runs part, or what the file is
  std::string made_by;     // "msprobe graph", "comparison of 1 rank, 40 nodes"; may be empty
  bool is_broken = false;  // `text` tells why it cannot be read
  int64_t changed = 0;     // seconds since 1970
};

// As it may stand in an element or an attribute.
std::string EscapeHtml(std::string_view text);
// A path as it may stand in an address, '/' kept.
std::string EscapePath(std::string_view path);

// `nonce`: of the style sheet, which the policy of the answer names.
// `listing`: where it is not the whole, and what could not be looked at.
std::string IndexPage(std::string_view folder, const std::vector<IndexLine>& lines,
                      const Folder::Listing& listing, std::string_view nonce,
                      report::Language language = report::Language::kEnglish);
std::string ErrorPage(std::string_view title, std::string_view message, std::string_view hint,
                      std::string_view nonce);
std::string PolicyOf(std::string_view nonce);

class Site {
 public:
  // Parts that are kept for the next question; those of the latest rank in any case.
  static constexpr uint64_t kMostCachedBytes = uint64_t{512} << 20U;

  Site(Folder folder, std::string token, std::string listened_host);

  Response Answer(const Request& request);

 private:
  using Bytes = std::shared_ptr<const std::string>;
  // Trees or tensors of a rank of a file.
  struct Cached {
    std::string key;
    std::map<std::string, Bytes, std::less<>> parts;
    uint64_t bytes = 0;
  };

  Response List(report::Language language);
  Response Graph(const std::string& path, base::InputFile file, std::string_view part);
  Response Shell(const std::string& path, base::InputFile file);
  Response Error(int status, std::string_view title, const Status& why);
  IndexLine LineOf(const Folder::Entry& entry, base::InputFile file);
  // Null: it has no part of this name.
  Result<Bytes> Part(const std::string& path, base::InputFile file, std::string_view part);

  const Folder folder_;
  const std::string token_;
  const std::string listened_host_;
  std::list<Cached> cache_;                 // the latest first
  std::map<std::string, IndexLine> lines_;  // by path and content of the file
};

}  // namespace msprobe::serve
