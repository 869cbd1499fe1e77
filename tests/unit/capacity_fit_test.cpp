// Budgets, sequences and contexts, worked out by hand; advice for loads on both sides of each limit.
#include <gtest/gtest.h>

#include "base/size_text.h"
#include "capacity/advice.h"
#include "capacity/assumptions.h"
#include "harness/message_of.h"
#include "unit/capacity_models.h"

namespace kvcal {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Deployment gpus_of(uint64_t memory, int64_t gpus = 1, int64_t tp = 1) {
  Deployment d;
  d.gpu_memory = memory;
  d.gpus = gpus;
  d.tp = tp;
  return d;
}

WeightBytes given(uint64_t bytes, bool in_eight_bits = false) {
  WeightBytes w;
  w.bytes = bytes;
  w.source = WeightSource::Given;
  w.in_eight_bits = in_eight_bits;
  return w;
}

constexpr uint64_t kLlama8B = 16060522496;    // 8,030,261,248 parameters in BF16
constexpr uint64_t kLlama70B = 141107412992;  // 70,553,706,496

Capacity llama_8b_on_80_gib() { return capacity_of(spec_of(llama_8b()), gpus_of(80 * kGiB), given(kLlama8B)); }

// 0.9 x 85,899,345,920 = 77,309,411,328; less 16,060,522,496 of weights and 3,221,225,472 of allowance: 58,027,663,360.
// A sequence of 8,192 tokens: 1,073,741,824 in BF16, 536,870,912 in FP8, 301,989,888 in NVFP4, 285,212,672
// in INT4: 54.04, 108.08, 192.15, 203.45.
TEST(Fit, llama_3_8b_on_80_gib) {
  const Capacity c = llama_8b_on_80_gib();
  EXPECT_EQ(c.budget.usable, 77309411328);
  EXPECT_EQ(c.budget.cache(), 58027663360);
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(8192), 54);
  EXPECT_EQ(c.at(KvFormat::FP8).sequences(8192), 108);
  EXPECT_EQ(c.at(KvFormat::NVFP4).sequences(8192), 192);
  EXPECT_EQ(c.at(KvFormat::INT4).sequences(8192), 203);
}

// 64 sequences share 58,027,663,360: 906,682,240 each, 6,917.4 tokens of 131,072 bytes; in FP8 13,834.9, which the
// model does not take.
TEST(Fit, longest_context_of_64_sequences) {
  const Capacity c = llama_8b_on_80_gib();
  EXPECT_EQ(c.at(KvFormat::BF16).context(64, 8192), 6917);
  EXPECT_EQ(c.at(KvFormat::FP8).context(64, 8192), 8192);
  EXPECT_EQ(c.at(KvFormat::FP8).context(64, 100000), 13834);
  EXPECT_EQ(c.at(KvFormat::BF16).context(1000000, 8192), 0);
}

FormatOffer offer(KvFormat format, const char* gpu, const char* server = "", const Json& config = llama_8b()) {
  Deployment d = gpus_of(80 * kGiB);
  if (*gpu != '\0') d.gpu = parse_gpu(gpu).value();
  if (*server != '\0') d.server = parse_engine(server);
  return offer_of(d, format, spec_of(config));
}

// vLLM 0.33.0's FlashInferBackend; heads of 64 channels only by the kernels of Blackwell.
TEST(Offers, of_nvfp4_go_by_compute_capability) {
  const Json narrow = llama(2, 512, 8, 512);
  for (const char* gpu : {"", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"})
    EXPECT_EQ(offer(KvFormat::NVFP4, gpu).served, Trait::Yes) << gpu;
  for (const char* gpu : {"sm_70", "sm_75", "sm_110", "MI300X"})
    EXPECT_EQ(offer(KvFormat::NVFP4, gpu).served, Trait::No) << gpu;
  for (const char* gpu : {"sm_80", "sm_90"})
    EXPECT_EQ(offer(KvFormat::NVFP4, gpu, "", narrow).served, Trait::No) << gpu;
  for (const char* gpu : {"", "sm_100", "sm_120"})
    EXPECT_EQ(offer(KvFormat::NVFP4, gpu, "", narrow).served, Trait::Yes) << gpu;
}

TEST(Offers, are_those_of_the_server_that_is_named) {
  const auto expect = [](const FormatOffer& o, Trait served, const std::string& text) {
    EXPECT_EQ(o.served, served) << text;
    EXPECT_EQ(o.text, text);
  };
  expect(offer(KvFormat::NVFP4, "A100", "vllm@0.28.0"), Trait::No, "vLLM 0.28.0: compute capability 10 alone");
  expect(offer(KvFormat::NVFP4, "A100", "vllm"), Trait::Yes, "");
  expect(offer(KvFormat::NVFP4, "A100"), Trait::Yes,
         "vLLM 0.33.0 alone (SGLang 0.5.23: compute capability 10 12 alone)");
  expect(offer(KvFormat::NVFP4, "B200"), Trait::Yes, "");
  expect(offer(KvFormat::NVFP4, "MI300X", "sglang"), Trait::No, "SGLang 0.5.23: compute capability 10 12 alone");
  expect(offer(KvFormat::INT4, "H100", "vllm@0.24.0"), Trait::No, "vLLM 0.24.0: no such type");
  expect(offer(KvFormat::INT4, "H100"), Trait::Yes, "vLLM 0.33.0 alone (SGLang 0.5.23: no such type)");
  expect(offer(KvFormat::FP8, "H100", "vllm@0.99.0"), Trait::Unknown, "vLLM 0.99.0: not known for this version");
}

// FlashInfer took T4 until 0.23; of SGLang nobody looked.
// FlashInfer takes heads of 64, 128, 256 and 512 channels, and Triton others where it has FP8.
TEST(Offers, go_by_the_width_of_heads) {
  const Json odd = llama(2, 768, 8, 768);
  EXPECT_EQ(offer(KvFormat::FP8, "A100", "vllm", odd).text,
            "vLLM 0.33.0: no heads of 96 channels below compute capability 8.9");
  EXPECT_EQ(offer(KvFormat::NVFP4, "A100", "vllm", odd).text, "vLLM 0.33.0: no heads of 96 channels");
  EXPECT_EQ(offer(KvFormat::FP8, "H100", "vllm", odd).served, Trait::Yes);
}

TEST(Offers, of_fp8_below_ampere_and_for_mla) {
  EXPECT_EQ(offer(KvFormat::FP8, "T4", "vllm@0.23.0").served, Trait::Yes);
  EXPECT_EQ(offer(KvFormat::FP8, "T4", "vllm@0.24.0").served, Trait::No);
  EXPECT_EQ(offer(KvFormat::FP8, "V100", "vllm@0.23.0").text, "vLLM 0.23.0: compute capability 7.5 or more");
  EXPECT_EQ(offer(KvFormat::FP8, "T4", "sglang").served, Trait::Unknown);
  EXPECT_EQ(offer(KvFormat::FP8, "T4").text,
            "vLLM 0.33.0: compute capability 8.0 or more; SGLang 0.5.23: not checked below compute capability 8.0");
  EXPECT_EQ(offer(KvFormat::FP8, "T4").served, Trait::Unknown) << "SGLang was not checked";
  EXPECT_EQ(offer(KvFormat::FP8, "A100", "", deepseek_v3()).served, Trait::Unknown);
  EXPECT_EQ(offer(KvFormat::FP8, "A100", "vllm", deepseek_v3()).served, Trait::No);
  EXPECT_EQ(offer(KvFormat::FP8, "L40S", "vllm@0.17.0", deepseek_v3()).text,
            "vLLM 0.17.0: compute capability 9 10 alone");
  EXPECT_EQ(offer(KvFormat::FP8, "H100", "", deepseek_v3()).text, "");
  EXPECT_EQ(offer(KvFormat::INT4, "T4", "vllm").served, Trait::Unknown);
}

// 80 GB is not 80 GiB: 0.9 x 80,000,000,000 = 72,000,000,000; less the same: 52,718,252,032, 49.1 sequences.
TEST(Fit, gigabytes_are_what_was_typed) {
  const Capacity c = capacity_of(spec_of(llama_8b()), gpus_of(parse_size("--gpu-memory", "80GB")), given(kLlama8B));
  EXPECT_EQ(c.budget.cache(), 52718252032);
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(8192), 49);
}

// 70B over 8 GPUs in groups of 4: 77,309,411,328 - 35,276,853,248 - 3,221,225,472 = 38,811,332,608 on each GPU, where a
// token takes 81,920 bytes: 8,192 tokens 671,088,640, 57.8 sequences in a group, 114 in both.
TEST(Fit, two_replicas_of_llama_70b) {
  const Capacity c = capacity_of(spec_of(llama_70b()), gpus_of(80 * kGiB, 8, 4), given(kLlama70B));
  EXPECT_EQ(c.budget.cache(), 38811332608);
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(8192), 114);
  // 115 are one more than both groups hold; 58 in one of them have 38,811,332,608 / 58 / 81,920 = 8,168.4 tokens.
  EXPECT_EQ(c.at(KvFormat::BF16).context(115, 8192), 8168);
}

// DeepSeek-V3 in FP8 (say 685 GB) on 8 x 141 GB: 126,900,000,000 - 85,625,000,000 - 3,221,225,472 = 38,053,774,528 on
// each, and each has the whole row: 163,840 tokens x 70,272 = 11,513,364,480: 3 sequences; FP8 6.
TEST(Fit, mla_does_not_divide) {
  const Capacity c = capacity_of(spec_of(deepseek_v3()), gpus_of(141000000000, 8, 8), given(685000000000, true));
  EXPECT_EQ(c.budget.cache(), 38053774528);
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(163840), 3);
  EXPECT_EQ(c.at(KvFormat::FP8).sequences(163840), 6);
  const Recommendation r = recommend(spec_of(deepseek_v3()), c, {});
  ASSERT_EQ(r.remarks.size(), 1U);
  EXPECT_NE(r.remarks[0].find("whole MLA row"), std::string::npos);
}

TEST(Fit, contexts_of_the_table_end_with_the_models_own) {
  EXPECT_EQ(usual_contexts(spec_of(llama_8b())), (std::vector<int64_t>{4096, 8192}));
  EXPECT_EQ(usual_contexts(spec_of(deepseek_v3())),
            (std::vector<int64_t>{4096, 8192, 16384, 32768, 65536, 131072, 163840}));
}

TEST(Fit, wrong_machines_are_refused) {
  const ModelSpec spec = spec_of(llama_8b());
  const auto message = [&](int64_t gpus, int64_t tp, double utilization) {
    Deployment d = gpus_of(kGiB, gpus, tp);
    d.utilization = utilization;
    return message_of([&] { check(d, spec); });
  };
  EXPECT_EQ(message(4, 2, 1), "no error");
  EXPECT_EQ(message(0, 1, 0.9), "--gpus is 0, expected at least 1");
  EXPECT_EQ(message(3, 2, 0.9), "--tp is 2 and --gpus 3: the GPUs must be a whole number of tensor-parallel groups");
  EXPECT_NE(message(1, 1, 0), "no error");
  EXPECT_NE(message(1, 1, 1.01), "no error");
}

Advice advice_for(const Capacity& c, const Json& config, std::optional<int64_t> concurrency,
                  std::optional<int64_t> context) {
  return recommend(spec_of(config), c, {concurrency, context}).advice;
}

TEST(Advice, follows_the_load) {  // 54 and 108 sequences of 8,192 tokens
  const Capacity c = llama_8b_on_80_gib();
  EXPECT_EQ(advice_for(c, llama_8b(), 54, 8192), Advice::KeepBf16);
  EXPECT_EQ(advice_for(c, llama_8b(), 55, 8192), Advice::UseFp8);
  EXPECT_EQ(advice_for(c, llama_8b(), 108, 8192), Advice::UseFp8);
  EXPECT_EQ(advice_for(c, llama_8b(), 109, 8192), Advice::LoadDoesNotFit);
  EXPECT_EQ(advice_for(c, llama_8b(), {}, {}), Advice::UseFp8);
  // 1,024 tokens: 134,217,728 bytes, 432 sequences, more than servers schedule.
  EXPECT_EQ(advice_for(c, llama_8b(), {}, 1024), Advice::KeepBf16);
}

// 58,027,663,360 / 150 = 386,851,089: 5,902 tokens in FP8.
TEST(Advice, says_what_would_fit) {
  const std::string text = recommend(spec_of(llama_8b()), llama_8b_on_80_gib(), {150, 8192}).text;
  EXPECT_NE(text.find("; NVFP4 or INT4 would hold them"), std::string::npos) << text;
  EXPECT_NE(text.find("5,902 tokens each"), std::string::npos) << text;
}

// The founding case: Qwen3.5-35B in 35 GB of weights on 128 GB, 200,000 tokens: 115.2 - 35 - 3.22 GB leave
// 76,978,774,528 bytes; a sequence takes 200,000 x 20,480 + 64,389,120 = 4,160,389,120: 18 of them. FP8 buys nothing
// for a handful of users.
TEST(Advice, keeps_bf16_where_memory_is_not_short) {
  const ModelSpec spec = spec_of(qwen3_5_35b());
  const Capacity c = capacity_of(spec, gpus_of(128000000000), given(35000000000, true));
  EXPECT_EQ(c.budget.cache(), 76978774528);
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(200000), 18);
  EXPECT_EQ(recommend(spec, c, {4, 200000}).advice, Advice::KeepBf16);
  EXPECT_EQ(recommend(spec, c, {19, 200000}).advice, Advice::UseFp8);
}

// 335,544,320 of cache and 912,605,184 of state against 167,772,160 and the same: 1.155 times.
TEST(Advice, buys_little_where_state_outweighs_the_cache) {
  const ModelSpec spec = spec_of(nemotron_h_56b());
  const Capacity c = capacity_of(spec, gpus_of(192 * kGiB), given(60000000000, true));
  EXPECT_NEAR(gain_of_fp8(c, 8192), 1248149504.0 / 1080377344.0, 1e-12);
  const Recommendation r = recommend(spec, c, {});
  EXPECT_EQ(r.advice, Advice::BuysLittle);
  ASSERT_FALSE(r.remarks.empty());
  EXPECT_NE(r.remarks[0].find("73 %"), std::string::npos) << r.remarks[0];
}

// 141,107,412,992 + 3,221,225,472 - 77,309,411,328 = 67,019,227,136 = 62.4 GiB too much; two GPUs hold them.
TEST(Advice, weights_that_do_not_fit_say_what_would) {
  const ModelSpec spec = spec_of(llama_70b());
  const Capacity c = capacity_of(spec, gpus_of(80 * kGiB), given(kLlama70B));
  EXPECT_EQ(c.budget.cache(), -67019227136);
  EXPECT_EQ(c.at(KvFormat::FP8).sequences(1), 0);
  const Recommendation r = recommend(spec, c, {});
  EXPECT_EQ(r.advice, Advice::WeightsDoNotFit);
  EXPECT_NE(r.text.find("62.4 GiB"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("--gpus 2 --tp 2"), std::string::npos) << r.text;
}

// On 24 GiB: 23,192,823,398 usable, 16,060,522,496 of weights are 69 %. With half of them
// 23,192,823,398 - 8,030,261,248 - 3,221,225,472 = 11,941,336,678: 11 sequences in BF16, 22 in FP8, against 3 and 7.
TEST(Advice, compares_with_smaller_weights) {
  const ModelSpec spec = spec_of(llama_8b());
  const Capacity c = capacity_of(spec, gpus_of(24 * kGiB), given(kLlama8B));
  EXPECT_EQ(c.at(KvFormat::BF16).sequences(8192), 3);
  EXPECT_EQ(c.at(KvFormat::FP8).sequences(8192), 7);
  const Recommendation r = recommend(spec, c, {});
  ASSERT_EQ(r.remarks.size(), 1U);
  EXPECT_NE(r.remarks[0].find("69 %"), std::string::npos) << r.remarks[0];
  EXPECT_NE(r.remarks[0].find("room for 11 sequences"), std::string::npos) << r.remarks[0];
  EXPECT_NE(r.remarks[0].find("22 with FP8"), std::string::npos) << r.remarks[0];
}

TEST(Advice, impossible_loads_are_refused) {
  const ModelSpec spec = spec_of(llama_8b());
  const Capacity c = llama_8b_on_80_gib();
  EXPECT_EQ(message_of([&] { recommend(spec, c, {0, 100}); }), "--concurrency is 0, expected at least 1");
  EXPECT_EQ(message_of([&] {
              recommend(spec, c, {1, 8193});
            }),
            "--context is 8193, expected 1 to 8192, the longest that the model takes");
}

std::vector<std::string> names(const Json& config, const Deployment& d) {
  const ModelSpec spec = spec_of(config);
  std::vector<std::string> list;
  for (const Assumption& a : assumptions_of(spec, capacity_of(spec, d, given(1000)))) list.push_back(a.name);
  return list;
}

TEST(Assumptions, are_those_that_bear_on_the_model) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(llama_8b(), gpus_of(kGiB)),
            (Names{"utilization", "allowance", "weights", "nvfp4", "int4", "pages", "drafts", "extras"}));
  EXPECT_EQ(names(gemma4_e2b(), gpus_of(kGiB, 4, 2)),
            (Names{"utilization", "allowance", "weights", "tensor_parallel", "replicas", "windows", "sharing", "nvfp4",
                   "int4", "pages", "drafts", "extras"}));
  EXPECT_EQ(names(qwen3_5_35b(), gpus_of(kGiB)),
            (Names{"utilization", "allowance", "weights", "state", "nvfp4", "int4", "pages", "drafts", "extras"}));
}

}  // namespace
}  // namespace kvcal
