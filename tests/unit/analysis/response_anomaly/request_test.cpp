#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/response_anomaly/judge.h"

namespace msprobe::analysis::response_anomaly {
namespace {

std::string ErrorOf(std::string_view line) {
  Request request;
  return ParseRequest(line, request).message();
}

TEST(ResponseRequest, ReadsCandidatesInEveryForm) {
  Request request;
  ASSERT_TRUE(ParseRequest(R"({"name": "a", "model": "m", "other": [{"x": 1}], "tokens": [5, 6, 7],
      "topk_logprobs": [[[5, -0.5], ["9", "nan"]], {"6": -1, "8": NaN}, [[7, "-Inf"], [1, Infinity]]]})",
                           request)
                  .ok());
  EXPECT_EQ(request.name, "a");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.candidate_lists(), 3u);
  EXPECT_EQ(request.candidates(0)[1].id, 9);
  EXPECT_TRUE(std::isnan(request.candidates(0)[1].logprob));
  EXPECT_EQ(request.candidates(1)[0].id, 6);
  EXPECT_TRUE(std::isnan(request.candidates(1)[1].logprob));
  EXPECT_EQ(request.candidates(2)[0].logprob, -INFINITY);
  EXPECT_EQ(request.candidates(2)[1].logprob, INFINITY);
}

TEST(ResponseRequest, TheModelMayBeAnObjectOrNothing) {
  Request request;
  ASSERT_TRUE(
      ParseRequest(R"({"model": {"kind": "chat", "model_name": "m", "more": {"model_name": "x"}},
      "tokens": [], "topk_logprobs": []})",
                   request)
          .ok());
  EXPECT_EQ(request.model, "m");
  ASSERT_TRUE(ParseRequest(R"({"model": null, "tokens": [], "topk_logprobs": []})", request).ok());
  EXPECT_EQ(request.model, "");
}

TEST(ResponseRequest, SaysWhatIsWrongAndWhere) {
  EXPECT_NE(ErrorOf(R"([1])").find("the line is a list"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1]})").find("\"topk_logprobs\" is missing"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1, "a"], "topk_logprobs": []})").find("tokens[1]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": []})").find("1 tokens"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [[[1]]]})").find("topk_logprobs[0]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [[[1, 2, 3]]]})").find("topk_logprobs[0]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [[[1.5, 2]]]})").find("fraction"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [{"x": 2}]})").find("\"x\""),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [5]})").find("topk_logprobs[0]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "tokens": [1], "topk_logprobs": [[]]})").find("twice"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [[[1,)").size(), 0u);
  EXPECT_NE(ErrorOf(R"({"tokens": [1], "topk_logprobs": [[[1, 1e999]]]})").find("too large"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{}{}").size(), 0u);
  EXPECT_NE(ErrorOf("null").size(), 0u);
  EXPECT_NE(ErrorOf(std::string(100000, '[')).size(), 0u);
  EXPECT_NE(ErrorOf(R"({"x": )" + std::string(100000, '[')).size(), 0u);
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
