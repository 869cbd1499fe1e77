// Classes that servers know under several names: with the weights of a golden, another name computes the same bits.
#include <gtest/gtest.h>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/whole_run.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

struct OtherName {
  const char *golden, *name;
  bool wrapped = false;       // the golden's config is its text_config
  const char* off = nullptr;  // a key that is false in both
};

void PrintTo(const OtherName& other, std::ostream* out) { *out << other.name << " as " << other.golden; }

Json config_of(const Golden& golden, const OtherName& other) {
  Json config = read_json_file(golden.folder / "config.json");
  if (other.off) config[other.off] = false;
  return config;
}

Json renamed(Json config, const OtherName& other) {
  config.erase("architectures");
  if (other.wrapped) config = {{"text_config", config}};
  config["architectures"] = {other.name};
  return config;
}

/// The golden's weights under a config.
void fill(const TempFolder& folder, const std::string& sub, const Golden& golden, const Json& config) {
  folder.write(sub + "/config.json", config.dump());
  std::filesystem::create_symlink(golden.folder / "model.safetensors", folder / (sub + "/model.safetensors"));
}

class NamesTest : public testing::TestWithParam<OtherName> {};

TEST_P(NamesTest, change_nothing) {
  const Golden golden(GetParam().golden);
  const TempFolder folder;
  const Json config = config_of(golden, GetParam());
  fill(folder, "golden", golden, config);
  fill(folder, "other", golden, renamed(config, GetParam()));
  LoadedModel expected(folder / "golden", backend(Precision::BF16)), actual(folder / "other", backend(Precision::BF16));
  EXPECT_EQ(actual.model->spec().architecture, GetParam().name);
  WholeRun as_golden, as_other;
  as_golden.run(expected, golden.sequences());
  as_other.run(actual, golden.sequences());
  EXPECT_EQ(actual.weights.report().unclaimed, expected.weights.report().unclaimed);
  EXPECT_EQ(as_other.logits.logits, as_golden.logits.logits);
  ASSERT_EQ(as_other.tap.seen.size(), as_golden.tap.seen.size());
  for (const auto& [site, recorded] : as_golden.tap.seen)
    EXPECT_EQ(as_other.tap.seen.at(site).bytes, recorded.bytes) << "cache " << std::get<1>(site);
}

constexpr OtherName kNames[] = {
    {"bailing_moe", "BailingMoEForCausalLM"},
    {"bailing_moe_v2", "BailingMoEForCausalLM"},
    {"bailing_moe", "SarvamMoEForCausalLM"},
    {"bailing_moe_v2", "SarvamMoEForCausalLM"},
    {"qwen2", "DotsOCRForCausalLM"},
    {"qwen2_window", "DotsOCRForCausalLM"},
    {"ernie4_5", "Ernie4_5_ForCausalLM", false, "use_bias"},
    {"qwen3_5_moe_vl", "InternS2PreviewForConditionalGeneration"},
    {"qwen3", "LightOnOCRForConditionalGeneration", true},
    {"telechat3", "PanguEmbeddedForCausalLM"},
    {"llama_first", "PanguEmbeddedForCausalLM"},
    {"llama_first", "XverseForCausalLM"},
};
INSTANTIATE_TEST_SUITE_P(Served, NamesTest, testing::ValuesIn(kNames));

}  // namespace
}  // namespace kvcal
