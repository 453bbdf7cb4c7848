#include "src/analysis/response_anomaly/judge.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::response_anomaly {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Tokens whose most likely candidate has `top`, and another one that is far less likely.
Request MakeRequest(const std::vector<int64_t>& tokens, const std::vector<double>& top) {
  Request request;
  request.tokens = tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    request.AddCandidate({tokens[i], top[i]});
    request.AddCandidate({tokens[i] + 1, top[i] - 5});
    request.EndToken();
  }
  return request;
}

Request Sure(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> tokens(count);
  std::vector<double> top(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int64_t>(random() % 30000);
    top[i] = -0.3 - static_cast<double>(random() % 1000) / 1000;
  }
  return MakeRequest(tokens, top);
}

Judgement JudgementOf(Request request, const Limits& limits = {}) {
  static const ModelTable no_models;
  Judge judge(limits, no_models);
  return judge.Examine(request);
}

TEST(ResponseJudge, FindsNothingInVariedTextOfAnyLength) {
  for (size_t count : {0, 1, 2, 63, 64, 65, 127, 128, 129, 200, 2000}) {
    const Judgement judgement = JudgementOf(Sure(count, 7));
    EXPECT_EQ(judgement.illness, Illness::kNone) << count;
    EXPECT_EQ(judgement.tokens, count);
    EXPECT_EQ(judgement.windows, count < 64 ? 0 : (count + 63) / 64) << count;
  }
}

TEST(ResponseJudge, RefusesWindowsThatOverlapWithoutEnd) {
  static const ModelTable no_models;
  Limits limits;
  const auto check = [&](size_t tokens) { return Judge(limits, no_models).CheckWork(tokens).ok(); };
  EXPECT_TRUE(check(1'000'000'000));
  limits.window_size = 65536;
  EXPECT_TRUE(check(8000));  // all of a response in windows that begin 64 apart
  EXPECT_FALSE(check(60'000));
  limits.stride = 4096;
  EXPECT_TRUE(check(60'000));
  limits.n = 65536;
  EXPECT_FALSE(check(60'000));
  EXPECT_TRUE(check(4095));
  limits.n = 3;
  limits.window_size = 1024;
  limits.stride = 1;
  EXPECT_TRUE(check(1'000'000));
}

TEST(ResponseJudge, TellsNanFromInfinitiesAndNamesTheFirstToken) {
  for (const auto& [value, nans, positive, negative] :
       {std::tuple{kNan, 1, 0, 0}, std::tuple{kInf, 0, 1, 0}, std::tuple{-kInf, 0, 0, 1}}) {
    Request request = Sure(100, 3);
    request.candidates(41)[1].logprob = value;
    const Judgement judgement = JudgementOf(std::move(request));
    EXPECT_EQ(judgement.illness, Illness::kNotFinite);
    EXPECT_EQ(judgement.first_token, 41u);
    EXPECT_EQ(judgement.nans, static_cast<size_t>(nans));
    EXPECT_EQ(judgement.positive_infinities, static_cast<size_t>(positive));
    EXPECT_EQ(judgement.negative_infinities, static_cast<size_t>(negative));
  }
}

// Every token has as many candidates as the one with the fewest: what a server added to fill up its
// lists is not looked at.
TEST(ResponseJudge, LooksAtTheSmallestNumberOfCandidatesOfTheRequest) {
  Request request;
  for (int64_t i = 0; i < 10; ++i) {
    request.tokens.push_back(i);
    request.AddCandidate({i, -0.1});
    request.AddCandidate({i + 1, -3});
    if (i != 4) {
      request.AddCandidate({i + 2, -kInf});
    }
    request.EndToken();
  }
  const Judgement judgement = JudgementOf(std::move(request));
  EXPECT_EQ(judgement.candidates, 2u);
  EXPECT_EQ(judgement.illness, Illness::kNone);
}

TEST(ResponseJudge, ANanIsSeenWhereverItStandsInItsList) {
  for (size_t place = 0; place < 4; ++place) {
    Request request;
    request.tokens = {1, 2};
    for (size_t i = 0; i < 4; ++i) {
      request.AddCandidate({static_cast<int64_t>(i), i == place ? kNan : -1.0});
    }
    request.EndToken();
    request.AddCandidate({0, -1});
    request.EndToken();
    EXPECT_EQ(JudgementOf(std::move(request)).illness, Illness::kNotFinite) << place;
  }
}

TEST(ResponseJudge, OneUnlikelyTokenIsARareCharacter) {
  Request request = Sure(30, 5);
  request.candidates(17)[0].logprob = -6.5;
  request.candidates(17)[1].logprob = -7;
  const Judgement judgement = JudgementOf(std::move(request));
  EXPECT_EQ(judgement.illness, Illness::kRareCharacters);
  EXPECT_EQ(judgement.first_token, 17u);
  EXPECT_EQ(judgement.rare_tokens, 1u);
}

TEST(ResponseJudge, AFifthOfUnlikelyTokensIsGarbled) {
  for (size_t unlikely : {25, 26, 40}) {  // of 128: 0.195, 0.203, 0.31
    Request request = Sure(128, 5);
    for (size_t i = 0; i < unlikely; ++i) {
      request.candidates(i)[0].logprob = -5.5;
      request.candidates(i)[1].logprob = -6;
    }
    // Both windows hold the begin or nothing of it; the second one begins with token 64.
    EXPECT_EQ(JudgementOf(std::move(request)).illness,
              unlikely > 25 ? Illness::kGarbled : Illness::kNone)
        << unlikely;
  }
}

TEST(ResponseJudge, SayingTheSameForAThousandTokensIsRepetition) {
  for (size_t count : {200, 900, 1100}) {
    std::vector<int64_t> tokens(count);
    for (size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<int64_t>(i % 5);
    }
    const Judgement judgement = JudgementOf(MakeRequest(tokens, std::vector(count, -0.05)));
    EXPECT_EQ(judgement.illness, count > 1000 ? Illness::kRepetition : Illness::kNone) << count;
    EXPECT_GT(judgement.repeats_trajectory, 0u) << "a short answer is told all the same";
  }
}

// The autocorrelation, as its definition has it: a transform of 256 points, the highest frequency
// left out. Held against the sums of the judge through what it decides.
bool IsPeriodicByTransform(const std::vector<double>& values, double threshold) {
  const size_t points = 256;
  const double mean = [&] {
    double sum = 0;
    for (const double value : values) {
      sum += value;
    }
    return sum / static_cast<double>(values.size());
  }();
  std::vector<double> power(points / 2);
  for (size_t k = 0; k < power.size(); ++k) {
    double re = 0;
    double im = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double angle = 2 * M_PI * static_cast<double>(k * i) / static_cast<double>(points);
      re += (values[i] - mean) * std::cos(angle);
      im -= (values[i] - mean) * std::sin(angle);
    }
    power[k] = re * re + im * im;
  }
  std::vector<double> acf(points / 2);
  for (size_t lag = 0; lag < acf.size(); ++lag) {
    double sum = power[0];
    for (size_t k = 1; k < power.size(); ++k) {
      sum += 2 * power[k] *
             std::cos(2 * M_PI * static_cast<double>(k * lag) / static_cast<double>(points));
    }
    acf[lag] = sum;
  }
  size_t best = 3;
  double roughness = 0;
  for (size_t lag = 1; lag < acf.size(); ++lag) {
    roughness += std::pow((acf[lag] - acf[lag - 1]) / acf[0], 2);
    best = lag > 3 && lag <= 42 && acf[lag] > acf[best] ? lag : best;
  }
  const auto harmonic = [&](size_t lag) {
    return lag < values.size() && lag < acf.size() && acf[lag] / acf[0] > 0;
  };
  return acf[best] / acf[0] > threshold && std::sqrt(roughness) > 0.9 &&
         (harmonic(2 * best) || harmonic(3 * best));
}

TEST(ResponseJudge, PeriodsAreThoseOfTheFourierTransform) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> noise(-0.5, 0.5);
  int periodic = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t period = 3 + random() % 40;
    const double loudness = 0.02 * static_cast<double>(random() % 100);
    const size_t count = 64 + random() % 64;  // one window of at least a stride
    std::vector<double> shape(period);
    for (double& value : shape) {
      value = noise(random);
    }
    std::vector<int64_t> tokens(count);
    std::vector<double> top(count);
    for (size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<int64_t>(i);
      top[i] = -0.1 + 0.09 * (shape[i % period] + loudness * noise(random)) / (1 + loudness);
    }
    const bool expected = IsPeriodicByTransform(top, 0.65);
    const Judgement judgement = JudgementOf(MakeRequest(tokens, top));
    EXPECT_EQ(judgement.repeats_period == 1, expected)
        << "period " << period << " loudness " << loudness << " of " << count;
    periodic += expected ? 1 : 0;
  }
  EXPECT_GT(periodic, 20);
  EXPECT_LT(periodic, 180);
}

TEST(ResponseJudge, HarmonicsCanBeAskedFor) {
  // One period and a half: the peak has a partner at twice its lag only when that is near zero.
  std::vector<int64_t> tokens(128);
  std::vector<double> top(128);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int64_t>(i);
    top[i] = -0.1 + 0.05 * std::sin(2 * M_PI * static_cast<double>(i) / 8);
  }
  Limits limits;
  EXPECT_GT(JudgementOf(MakeRequest(tokens, top), limits).repeats_period, 0u);
  limits.harmonic_thresh = 0.99;
  EXPECT_EQ(JudgementOf(MakeRequest(tokens, top), limits).repeats_period, 0u);
}

TEST(ResponseJudge, NoRequestChangesTheAnswerForAnother) {
  const ModelTable no_models;
  Judge judge({}, no_models);
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    const uint32_t seed = random() % 8;
    const size_t count = random() % 300;
    Request request = Sure(count, seed);
    if (count > 0 && seed % 2 == 0) {
      request.candidates(count / 2)[0].logprob = seed % 4 == 0 ? kNan : -9;
      request.candidates(count / 2)[1].logprob = -9;
    }
    Request again = request;
    const Judgement together = judge.Examine(request);
    const Judgement alone = JudgementOf(std::move(again));
    EXPECT_EQ(together.illness, alone.illness);
    EXPECT_EQ(together.rare_tokens, alone.rare_tokens);
    EXPECT_EQ(together.first_token, alone.first_token);
  }
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
