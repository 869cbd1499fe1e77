// `kvcal generate` answers as the reference framework does, token for token, on committed prompts.
#include "prefill/generate.h"

#include <gtest/gtest.h>

#include "calibrate/opened_model.h"
#include "device.h"
#include "prompt_flags.h"

namespace kvcal {
namespace {

using Case = std::tuple<std::string, Precision>;

class DemoAnswers : public ::testing::TestWithParam<Case> {};

TEST_P(DemoAnswers, equal_the_reference_frameworks) {
  const std::filesystem::path root = KVCAL_SOURCE_DIR;
  const auto& [name, precision] = GetParam();
  const Json golden = read_json_file(root / "tests/arch/golden/demo_generate.json");
  const Json& prompts = golden.at("prompts");
  const Json& answers = golden.at("models").at(name);

  OpenedModel model(root / "datasets/demo" / name);
  PromptFlags flags;
  flags.files = {(root / "datasets/demo/questions.jsonl").string()};
  NoticeListener silent;
  const FedPrompts fed = feed_prompts(
      model, flags.resolve(), [&](bool chat) { return read_prompt_files(flags, chat); }, silent);
  std::map<std::string, const TokenizedPrompt*> by_id;
  for (const TokenizedPrompt& p : fed.prompts) by_id[p.id] = &p;

  const std::unique_ptr<Ops> op = open_device("cpu", precision, 2);
  Generator generator(*model.model, *op, model.weights, 2048);
  NoTap tap;
  ASSERT_GE(prompts.size(), 20u);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string id = prompts[i].at("id");
    SCOPED_TRACE(id);
    ASSERT_TRUE(by_id.contains(id));
    const TokenizedPrompt& p = *by_id[id];
    EXPECT_EQ(p.text, prompts[i].at("text").get<std::string>());
    ASSERT_EQ(p.input_ids, prompts[i].at("input_ids").get<std::vector<int32_t>>());
    GenerateOptions options;
    options.max_new_tokens = 48;
    options.stop_tokens = end_tokens(model.checkpoint);
    const Generated g = generator.generate({"", p.input_ids}, options, tap);
    EXPECT_EQ(g.output_ids, answers[i].at("output_ids").get<std::vector<int32_t>>());
    EXPECT_EQ(fed.tokenizer->decode(g.output_ids, true), answers[i].at("text").get<std::string>());
    const Json& top = answers[i].at("top");
    ASSERT_EQ(g.top.size(), top.size());
    EXPECT_EQ(g.top[0].first, top[0][0].get<int32_t>());
    const double bound = precision == Precision::F32 ? 1e-3 : 0.25;  // logits are near 20: bf16 steps are 0.125
    for (size_t k = 0; k < top.size() && precision == Precision::F32; ++k)
      EXPECT_NEAR(g.top[k].second, top[k][1].get<double>(), bound);
    EXPECT_NEAR(g.top[0].second, top[0][1].get<double>(), bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Demo, DemoAnswers,
                         ::testing::Combine(::testing::Values("natural", "stressed"),
                                            ::testing::Values(Precision::F32, Precision::BF16)),
                         [](const ::testing::TestParamInfo<Case>& c) {
                           return std::get<0>(c.param) + (std::get<1>(c.param) == Precision::F32 ? "_f32" : "_bf16");
                         });

}  // namespace
}  // namespace kvcal
