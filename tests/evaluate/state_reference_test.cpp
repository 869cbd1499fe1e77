// What each way to store recurrent states does to predictions, against the reference framework whose states are rounded
// with other code behind the same tokens; in f32 on both sides. Goldens: tests/reference/make_state_goldens.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "arch/backend.h"
#include "base/read_file.h"
#include "evaluate/conclusion.h"
#include "evaluate/evaluate.h"
#include "evaluate/make_variants.h"
#include "harness/tolerances.h"
#include "prefill/generate.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

Json goldens() { return read_json_file(std::string(KVCAL_SOURCE_DIR) + "/tests/evaluate/state_goldens.json"); }

std::vector<Json> cases() { return goldens().at("cases"); }

PromptRecord record_of(const std::string& id, int64_t n_tokens, int64_t vocab) {
  PromptRecord record;
  record.id = record.canonical = id;
  record.kind = PromptKind::Ids;
  for (int64_t i = 0; i < n_tokens; ++i) record.input_ids.push_back(static_cast<int32_t>((i * i + 3 * i) % vocab));
  return record;
}

struct Evaluated {
  int64_t chunk_tokens = 0;
  int threads = 0;
  bool among_others = false;  // shorter prompts beside it
};

Evaluation evaluated(const Json& golden, int64_t n_tokens, const Evaluated& how) {
  EvaluationOptions options;
  options.precision = Precision::F32;
  options.chunk_tokens = how.chunk_tokens;
  options.threads = how.threads;
  CalibrationListener silent;
  const auto prompts = [&](bool) {
    PromptSet set;
    set.records.push_back(record_of("5", n_tokens, golden.at("vocab")));
    for (int64_t i = 0; how.among_others && i < 8; ++i)
      set.records.push_back(record_of(std::to_string(i == 5 ? 9 : i), 10 + 7 * i, golden.at("vocab")));
    return set;
  };
  const auto variants = [&](const ModelSpec& spec) {
    VariantSet set;
    for (const Json& s : golden.at("stored")) {
      Variant variant = stored_states(spec, s.at("format").get<std::string>(), s.at("chunk"));
      variant.state.prompt_tokens = s.at("prompt");
      variant.name += " " + std::to_string(set.compared.size());
      set.compared.push_back(std::move(variant));
    }
    return set;
  };
  return evaluate(
      {.model = std::string(KVCAL_SOURCE_DIR) + "/tests/arch/golden/" + golden.at("case").get<std::string>(),
       .prompts = prompts,
       .open_device = [] { return backend(Precision::F32); }},
      options, variants, silent);
}

/// Of the prompt "5" alone.
std::vector<ComparedToken> tokens_of(const Evaluation& evaluation, size_t variant) {
  std::vector<ComparedToken> tokens;
  for (const ComparedToken& t : evaluation.compared[variant].tokens)
    if (evaluation.prompts[static_cast<size_t>(t.prompt)].id == "5") tokens.push_back(t);
  return tokens;
}

class StateReference : public ::testing::TestWithParam<Json> {};

TEST_P(StateReference, OfEachFormatAndPlace) {
  const int64_t n_tokens = goldens().at("tokens");
  const Evaluation evaluation = evaluated(GetParam(), n_tokens, {});
  for (size_t v = 0; v < evaluation.compared.size(); ++v) {
    const Json& expected = GetParam().at("stored").at(v);
    SCOPED_TRACE(expected.dump());
    std::vector<double> kl(expected.at("kl").size());
    double nll = 0;
    for (const ComparedToken& t : tokens_of(evaluation, v)) {
      const auto part = static_cast<size_t>(t.position) * kl.size() / static_cast<size_t>(n_tokens);
      kl[part] += t.difference.kl * static_cast<double>(kl.size()) / static_cast<double>(n_tokens);
      if (t.has_next) nll += t.difference.nll_variant / static_cast<double>(n_tokens - 1);
    }
    double sum = 0, expected_sum = 0;
    for (size_t i = 0; i < kl.size(); ++i) {
      const double golden = expected.at("kl").at(i);
      sum += kl[i];
      expected_sum += golden;
      EXPECT_LE(std::fabs(kl[i] - golden),
                tolerance::kEvaluationStatePartKl * golden + tolerance::kEvaluationStateFloor)
          << "part " << i << ": " << kl[i];
    }
    EXPECT_LE(std::fabs(sum - expected_sum),
              tolerance::kEvaluationStateKl * expected_sum + 4 * tolerance::kEvaluationStateFloor)
        << sum << ", expected " << expected_sum;
    EXPECT_NEAR(nll, expected.at("nll").get<double>(), tolerance::kEvaluationStateNll);
  }
}

TEST_P(StateReference, IsTheSameInParts) {
  const int64_t n_tokens = goldens().at("tokens");  // beyond the longest chunk
  const Evaluation whole = evaluated(GetParam(), n_tokens, {.threads = 1}),
                   parts = evaluated(GetParam(), n_tokens, {.chunk_tokens = 64, .threads = 3, .among_others = true});
  for (size_t v = 0; v < whole.compared.size(); ++v) {
    const std::vector<ComparedToken> a = tokens_of(whole, v), b = tokens_of(parts, v);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_TRUE(a[i].difference.kl == b[i].difference.kl &&
                  a[i].difference.nll_variant == b[i].difference.nll_variant)
          << whole.compared[v].variant.name << ", position " << a[i].position;
  }
}

/// A copy of a model, the weights of `changed` names other ones: all are of bfloat16.
void copy_with(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view changed,
               const std::function<float(size_t, float)>& change) {
  std::filesystem::copy(from, to);
  std::string bytes = read_file(from / "model.safetensors", size_t{1} << 24);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json tensors = parse_json(std::string_view(bytes).substr(8, header));
  for (const auto& [name, tensor] : tensors.items()) {
    if (!name.ends_with(changed)) continue;
    const size_t begin = 8 + header + tensor.at("data_offsets").at(0).get<size_t>(),
                 end = 8 + header + tensor.at("data_offsets").at(1).get<size_t>();
    for (size_t at = begin, i = 0; at < end; at += 2, ++i) {
      uint16_t code = 0;
      std::memcpy(&code, &bytes[at], 2);
      code = to_bf16(change(i, std::bit_cast<float>(uint32_t{code} << 16))).bits;
      std::memcpy(&bytes[at], &code, 2);
    }
  }
  std::ofstream(to / "model.safetensors", std::ios::binary) << bytes;
}

/// Of states in bfloat16, on some of the demo's chats.
VariantEvidence evidence_of_bf16(const std::filesystem::path& model) {
  EvaluationOptions options;
  options.precision = Precision::F32;
  CalibrationListener silent;
  const auto prompts = [](bool) {
    PromptSet set = load_prompts({std::filesystem::path(KVCAL_SOURCE_DIR) / "datasets/demo/prompts.jsonl"});
    set.records.resize(24);
    return set;
  };
  const Evaluation evaluation = evaluate(
      {.model = model, .prompts = prompts, .open_device = [] { return backend(Precision::F32); }}, options,
      [](const ModelSpec& spec) {
        return VariantSet{{stored_states(spec, "bf16")}, {}, {}};
      },
      silent);
  return conclude(evaluation).variants.at(0);
}

// Like the twin of `make_twin.py --forget 64 --heads 3` (docs/states.md): torch rounds the logarithm, too.
TEST(StoredStates, OfAHeadThatForgetsSlowlyKeepErrorsSoThatTheyAddUp) {
  const std::filesystem::path natural = std::string(KVCAL_SOURCE_DIR) + "/datasets/demo/natural",
                              slow =
                                  std::filesystem::temp_directory_path() / ("kvcal-slow-" + std::to_string(getpid()));
  std::filesystem::remove_all(slow);
  copy_with(natural, slow, "A_log",
            [](size_t head, float x) { return head == 3 ? x - round_to_bf16(std::log(64.0f)) : x; });
  const VariantEvidence before = evidence_of_bf16(natural), after = evidence_of_bf16(slow);
  std::filesystem::remove_all(slow);
  EXPECT_GT(after.kl.value, 10 * before.kl.value);
  EXPECT_GT(after.kl_slope.value().interval.value().low, 0);
  EXPECT_LT(before.kl_slope.value().interval.value().low, 0);
}

/// An answer in parts: each of its tokens from the prompt and the answer before.
std::vector<int32_t> token_by_token(Generator& generator, PromptTokens prompt, GenerateOptions options) {
  NoTap away;
  std::vector<int32_t> answer;
  const int64_t n = std::exchange(options.max_new_tokens, 1);
  while (static_cast<int64_t>(answer.size()) < n) {
    answer.push_back(generator.generate(prompt, options, away).output_ids.at(0));
    prompt.ids.push_back(answer.back());
  }
  return answer;
}

TEST(StoredAnswers, HaveTheirStateStoredAfterThePromptAndEachTokenOfTheAnswer) {
  const Json golden = cases().at(4);
  ASSERT_EQ(golden.at("case"), "minimax");
  OpenedModel model(std::string(KVCAL_SOURCE_DIR) + "/tests/arch/golden/minimax");
  const std::unique_ptr<Ops> op = backend(Precision::F32);
  Generator generator(*model.model, *op, model.weights, 64);
  const PromptTokens prompt{"5", record_of("5", 20, golden.at("vocab")).input_ids};
  NoTap away;
  GenerateOptions options;
  options.max_new_tokens = 40;
  const auto answer = [&](const StateFormat& format) {
    options.state = format;
    return generator.generate(prompt, options, away).output_ids;
  };
  const StateFormat coarse{StateType::E5m2, StateScale::Tensor};
  const auto stored_after = [&](int64_t chunk) {
    StateFormat format = coarse;
    format.chunk = chunk;
    return format;
  };
  const std::vector<int32_t> as_is = answer({}), after_prompt = answer(stored_after(0));
  EXPECT_NE(as_is, after_prompt);
  EXPECT_EQ(after_prompt, answer(stored_after(20)));
  EXPECT_EQ(after_prompt, answer(stored_after(1000)));
  const std::vector<int32_t> decoded = answer(coarse);
  EXPECT_EQ(decoded, token_by_token(generator, prompt, options));
}

INSTANTIATE_TEST_SUITE_P(All, StateReference, ::testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.at("case").template get<std::string>(); });

}  // namespace
}  // namespace kvcal
