// Calibration with --device cuda, from a checkpoint to the bytes of the artifact, against the same run on the
// processor. The program lies beside a libkvcal_cuda.so whose device is the emulator: runs are of a few hundred tokens.
#include <gtest/gtest.h>

#include "device.h"
#include "e2e/runs.h"
#include "evaluate/evaluation_file.h"
#include "evaluate/make_variants.h"
#include "harness/tolerances.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

RunOptions on(const std::string& device) {
  RunOptions options;
  options.device = device;
  return options;
}

Artifact artifact_of(const std::string& golden, const RunOptions& options) {
  // 300 is cut at position 256 by the smallest chunks.
  const auto prompts = prompts_of({1, 40, 65, 300}, 90);
  return solved_artifact(measure(source("tests/arch/golden/" + golden), prompts, options));
}

void expect_near(const ArtifactSite& actual, const ArtifactSite& expected, const std::string& what) {
  EXPECT_NEAR(actual.scale, expected.scale, tolerance::kBf16Absmax * static_cast<double>(expected.scale)) << what;
  EXPECT_EQ(actual.observations, expected.observations) << what;
  ASSERT_EQ(actual.absmax_per_head.size(), expected.absmax_per_head.size()) << what;
  for (size_t h = 0; h < expected.absmax_per_head.size(); ++h)
    EXPECT_NEAR(actual.absmax_per_head[h], expected.absmax_per_head[h],
                tolerance::kBf16Absmax * static_cast<double>(expected.absmax_per_head[h]))
        << what << ", head " << h;
}

class CudaRun : public testing::TestWithParam<const char*> {};

TEST_P(CudaRun, GivesTheScalesOfTheProcessor) {
  const Artifact cuda = artifact_of(GetParam(), on("cuda")), cpu = artifact_of(GetParam(), on("cpu"));
  EXPECT_TRUE(cuda.calibration.isa.starts_with("cuda_sm_90")) << cuda.calibration.isa;
  ASSERT_EQ(cuda.layers.size(), cpu.layers.size());
  for (size_t i = 0; i < cpu.layers.size(); ++i) {
    expect_near(cuda.layers[i].key, cpu.layers[i].key, cpu.layers[i].name + " key");
    expect_near(cuda.layers[i].value, cpu.layers[i].value, cpu.layers[i].name + " value");
    expect_near(cuda.layers[i].query, cpu.layers[i].query, cpu.layers[i].name + " query");
  }
}

TEST_P(CudaRun, GivesEqualBytesAgainAndInOtherChunks) {
  RunOptions options = on("cuda:0");
  options.chunk_tokens = 4096;
  const std::string base = artifact_text(artifact_of(GetParam(), options));
  EXPECT_EQ(artifact_text(artifact_of(GetParam(), options)), base) << "the same run again";
  options.chunk_tokens = 256;
  options.threads = 1;
  EXPECT_EQ(artifact_text(artifact_of(GetParam(), options)), base) << "chunks of 256";
}

INSTANTIATE_TEST_SUITE_P(Dense, CudaRun, testing::Values("qwen3", "qwen2"));
INSTANTIATE_TEST_SUITE_P(Hybrid, CudaRun, testing::Values("qwen3_5", "qwen3_next"));

TEST(CudaRun, InF32IsWithinTheSumsOrder) {
  RunOptions options = on("auto");
  options.precision = Precision::F32;
  const Artifact cuda = artifact_of("qwen3", options);
  EXPECT_TRUE(cuda.calibration.isa.starts_with("cuda")) << "auto takes the GPU";
  options.device = "cpu";
  const Artifact cpu = artifact_of("qwen3", options);
  for (size_t i = 0; i < cpu.layers.size(); ++i)
    // The taps round to bf16: a value on the edge falls to either side.
    EXPECT_NEAR(cuda.layers[i].key.absmax, cpu.layers[i].key.absmax, 0x1p-7 * cpu.layers[i].key.absmax);
}

Evaluation evaluated(const std::string& device, Precision precision, uint64_t memory = 0) {
  EvaluationOptions options;
  options.precision = precision;
  options.memory = memory;
  options.chunk_tokens = 256;
  PromptSet prompts;
  for (const PromptTokens& p : prompts_of({1, 300, 300}, 90)) {
    PromptRecord& record = prompts.records.emplace_back();
    record.id = record.canonical = p.id;
    record.kind = PromptKind::Ids;
    record.input_ids = p.ids;
  }
  const auto variants = [](const ModelSpec& spec) {
    VariantSet set;
    set.compared.push_back(at_one(spec, stored_format("fp8_e4m3")));
    set.compared.push_back(in_format(spec, stored_format("fp8_per_token_head"), nullptr));
    for (const KvLayout& layout : spec.caches) set.layers.push_back(one_cache(set.compared[0], layout));
    return set;
  };
  Recorder listener;
  return evaluate({.model = source("tests/arch/golden/qwen3"),
                   .prompts = [&](bool) { return prompts; },
                   .open_device = [&] { return open_device(device, precision, 1); }},
                  options, variants, listener);
}

TEST(CudaEvaluate, MeasuresWhatTheProcessorDoes) {
  const EvaluationFigures cuda = figures_of(evaluated("cuda", Precision::F32)),
                          cpu = figures_of(evaluated("cpu", Precision::F32));
  ASSERT_EQ(cuda.variants.size(), 3U);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_GT(cpu.variants[i].all.kl.mean, 0);
    EXPECT_NEAR(cuda.variants[i].all.kl.mean, cpu.variants[i].all.kl.mean, 0.01 * cpu.variants[i].all.kl.mean);
  }
  for (size_t i = 0; i < cpu.layers.size(); ++i)
    EXPECT_NEAR(cuda.layers[i].all.kl.mean, cpu.layers[i].all.kl.mean, 0.01 * cpu.layers[i].all.kl.mean);
}

TEST(CudaEvaluate, BytesDoNotDependOnWhereTheResidualStreamsAre) {
  const Evaluation device = evaluated("cuda", Precision::BF16);
  EXPECT_EQ(device.memory.residual_place, ResidualPlace::Device);
  const Evaluation host = evaluated("cuda", Precision::BF16, device.memory.total() - 1);
  EXPECT_EQ(host.memory.residual_place, ResidualPlace::Host);
  const auto text = [](const Evaluation& e) { return evaluation_text({"kvcal test", "bf16", {}}, e, figures_of(e)); };
  EXPECT_TRUE(text(device) == text(host));
}

// An Error that the library throws is one to the program.
TEST(CudaRun, ErrorsCross) {
  const auto op = open_device("cuda", Precision::BF16, 1);
  const Storage values({4, 8}, DType::BF16);
  try {
    op->download(op->upload(values.tensor()), Storage({4, 9}, DType::BF16).tensor());
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("does not fit"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kvcal
