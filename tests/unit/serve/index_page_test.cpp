#include <gtest/gtest.h>

#include "src/serve/site.h"

namespace msprobe::serve {
namespace {

TEST(IndexPage, NamesOfFilesAreTextAndAddresses) {
  IndexLine line;
  line.path = "a/<script>\"&' ?#%.html";
  line.verdict = "differ";
  line.text = "it starts with <b>";
  const std::string page = IndexPage("/x<y", {line}, {}, "0123");
  EXPECT_EQ(page.find("<script>"), std::string::npos);
  EXPECT_NE(page.find("a/&lt;script&gt;&quot;&amp;&#39; ?#%.html"), std::string::npos);
  EXPECT_NE(page.find("href=\"files/a/%3Cscript%3E%22%26%27%20%3F%23%25.html\""),
            std::string::npos);
  EXPECT_NE(page.find("it starts with &lt;b&gt;"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"bad\">differ</td>"), std::string::npos);
  EXPECT_NE(page.find("<style nonce=\"0123\">"), std::string::npos);
}

TEST(IndexPage, TellsAnAnswerInTheColourOfItsVerdict) {
  IndexLine line;
  line.verdict = "SLOWER";
  line.tone = "bad";
  line.text = "by 10 %";
  line.made_by = "msprobe <perf_compare>";
  const std::string page = IndexPage("/x", {line}, {}, "0");
  EXPECT_NE(page.find("<td class=\"bad\">SLOWER</td><td>by 10 % &middot; msprobe "
                      "&lt;perf_compare&gt;</td>"),
            std::string::npos)
      << page;
  line.tone = "\" onclick=\"";
  EXPECT_EQ(IndexPage("/x", {line}, {}, "0").find("onclick"), std::string::npos);
}

TEST(IndexPage, AnEmptyFolderTellsWhatBelongsThere) {
  EXPECT_NE(IndexPage("/x", {}, {}, "0").find("msprobe graph"), std::string::npos);
}

TEST(IndexPage, WhatIsLeftOutIsTold) {
  Folder::Listing listing;
  listing.is_whole = false;
  listing.unread = {"<sub>/: Permission denied"};
  const std::string page = IndexPage("/x", {IndexLine{}}, listing, "0");
  EXPECT_NE(page.find("holds more files"), std::string::npos);
  EXPECT_NE(page.find("not looked at: &lt;sub&gt;/: Permission denied"), std::string::npos);
  EXPECT_NE(IndexPage("/x", {}, listing, "0").find("not looked at"), std::string::npos);
}

TEST(IndexPage, AnErrorIsTextWithItsHint) {
  const std::string page = ErrorPage("No", "cannot <read>", "try again", "0");
  EXPECT_NE(page.find("cannot &lt;read&gt;"), std::string::npos);
  EXPECT_NE(page.find("try again"), std::string::npos);
}

}  // namespace
}  // namespace msprobe::serve
