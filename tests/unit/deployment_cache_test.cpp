// What a server's version makes of options and declarations, against what its wheel says.
#include <gtest/gtest.h>

#include "deployment/cache_choices.h"
#include "deployment/cache_type.h"

namespace kvcal {
namespace {

KvDeclaration declared(const char* quantization) {
  return read_kv_declaration(Json{{"quantization_config", parse_json(quantization)}}, "/nowhere");
}

constexpr const char* kNvfp4 = R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"})";
constexpr const char* kFp8 = R"({"quant_method": "fp8", "activation_scheme": "dynamic", "kv_cache_quant_algo": "FP8"})";

CacheRequest request(const char* server, const KvDeclaration& d, std::string asked = "") {
  const NamedEngine named = parse_engine(server);
  CacheRequest r;
  r.server = named.server;
  r.version = named.version;
  r.options_known = true;
  r.asked = std::move(asked);
  r.declared = &d;
  return r;
}

// SGLang's fp8.py hands the algorithm on since 0.5.18; vLLM reads it of ModelOpt's methods alone.
TEST(CacheOf, WeightsOfFp8ThatDeclareACache) {
  const KvDeclaration d = declared(kFp8);
  EXPECT_EQ(cache_type(request("sglang@0.5.23", d)).name, "fp8_e4m3");
  EXPECT_EQ(cache_type(request("sglang@0.5.18", d)).name, "fp8_e4m3");
  EXPECT_EQ(cache_type(request("sglang@0.5.17", d)).name, "auto");
  EXPECT_EQ(cache_type(request("vllm@0.33.0", d)).name, "auto");
}

// vLLM's layers of MLA do not look for the scheme.
TEST(CacheOf, ASchemeOfCompressedTensorsIsNothingToMla) {
  const KvDeclaration d = declared(
      R"({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, "symmetric": true}})");
  const auto name = [&](const char* server, Trait latent, const char* asked = "") {
    CacheRequest r = request(server, d, asked);
    r.latent = latent;
    return cache_type(r).name;
  };
  EXPECT_EQ(name("vllm@0.33.0", Trait::No), "fp8");
  EXPECT_EQ(name("vllm@0.33.0", Trait::Yes), "auto");
  EXPECT_EQ(name("vllm@0.16.0", Trait::No, "bfloat16"), "fp8");
  EXPECT_EQ(name("vllm@0.16.0", Trait::Yes, "bfloat16"), "bfloat16");
  EXPECT_EQ(name("sglang@0.5.23", Trait::Yes), "fp8_e4m3");
}

TEST(CacheOf, ALogGoesBeforeADeclaration) {
  const KvDeclaration nvfp4 = declared(kNvfp4);
  CacheRequest r = request("vllm@0.33.0", nvfp4);
  r.logged = "fp8_e4m3";
  EXPECT_EQ(cache_type(r).name, "fp8_e4m3");
  EXPECT_EQ(cache_type(r).decided_by, "log");
}

// vLLM's "scaling factor 1.0 for fp8_e4m3" is said of NVFP4 caches, too.
TEST(CacheOf, ALineWithoutATypeSaysThatItIsQuantized) {
  const KvDeclaration none, nvfp4 = declared(kNvfp4);
  const auto of = [](CacheRequest r) {
    r.logged_quantized = true;
    return cache_type(r);
  };
  EXPECT_EQ(of(request("vllm@0.33.0", nvfp4)).name, "nvfp4");
  EXPECT_TRUE(of(request("vllm@0.33.0", none, "bfloat16")).contradicted);
  const CacheType open = of(request("vllm@0.33.0", none));
  EXPECT_EQ(open.quantized, Trait::Yes);
  EXPECT_EQ(open.one_scale, Trait::Unknown);
  EXPECT_EQ(open.name, "");
  EXPECT_EQ(format_of(open), "quantized");
}

TEST(CacheOf, SparseLatentRowsHaveScalesByBackend) {
  const KvDeclaration none;
  const auto one_scale = [&](const char* server, const char* backend, bool sparse = true) {
    CacheRequest r = request(server, none, "fp8_e4m3");
    r.sparse_latent = sparse;
    r.backend = backend;
    return cache_type(r).one_scale;
  };
  EXPECT_EQ(one_scale("vllm@0.33.0", "FLASHMLA_SPARSE"), Trait::No);
  EXPECT_EQ(one_scale("vllm@0.33.0", "FLASHINFER_MLA_SPARSE"), Trait::Yes);
  EXPECT_EQ(one_scale("sglang@0.5.23", "trtllm"), Trait::Yes);
  EXPECT_EQ(one_scale("sglang@0.5.23", ""), Trait::Unknown);
  EXPECT_EQ(one_scale("sglang@0.5.23", "", false), Trait::Yes);
}

TEST(Choices, AreThoseOfTheVersion) {
  const auto has = [](const char* server, std::string_view type) {
    const NamedEngine named = parse_engine(server);
    return has_cache_type(named.server, named.version, type);
  };
  EXPECT_EQ(has("vllm@0.10.2", "bfloat16"), Trait::No);
  EXPECT_EQ(has("vllm@0.11.0", "bfloat16"), Trait::Yes);
  EXPECT_EQ(has("vllm@0.11.2", "bfloat16"), Trait::Unknown);
  EXPECT_EQ(has("vllm@0.14.1", "bfloat16"), Trait::No);
  EXPECT_EQ(has("vllm@0.15.0", "bfloat16"), Trait::Yes);
  EXPECT_EQ(has("vllm@0.19.1", "nvfp4"), Trait::Unknown);
  EXPECT_EQ(has("vllm@0.7.3", "bfloat16"), Trait::Unknown);
  EXPECT_EQ(has("vllm", "nvfp4_4over6"), Trait::Yes);
  EXPECT_EQ(has("vllm", "bf16"), Trait::No);
  EXPECT_EQ(has("sglang@0.5.12", "fp4_e2m1"), Trait::Yes);
  EXPECT_EQ(has("sglang@0.5.21", "fp4_e2m1"), Trait::Unknown);
  EXPECT_EQ(has("sglang", "fp4_e2m1"), Trait::No);
  EXPECT_EQ(has("sglang", "float16"), Trait::No);
  EXPECT_EQ(has("llama.cpp", "q8_0"), Trait::Unknown);
}

// Where no line is of a version, those of another type that begins alike say nothing of it.
TEST(Choices, WhatATypeIsServedOnIsNotSaidOfALongerName) {
  const std::optional<Gpu> b200 = parse_gpu("B200"), h100 = parse_gpu("H100");
  ASSERT_TRUE(b200 && h100);
  const CachePlace latent = {&*b200, Trait::Yes, 576}, plain = {&*b200, Trait::No, 128},
                   hopper = {&*h100, Trait::Yes, 576};
  for (const char* server : {"vllm@0.30.0", "vllm@0.31.0", "vllm@0.32.0", "vllm@0.33.0", "vllm"}) {
    const NamedEngine named = parse_engine(server);
    EXPECT_EQ(why_not_served(named.server, named.version, "nvfp4_ds_mla", latent), "") << server;
    EXPECT_EQ(only_backend(named.server, named.version, "nvfp4_ds_mla", nullptr), "") << server;
    EXPECT_EQ(why_not_served(named.server, named.version, "nvfp4", latent), "no MLA") << server;
    EXPECT_EQ(why_not_served(named.server, named.version, "nvfp4_4over6", plain), "") << server;
    EXPECT_EQ(only_backend(named.server, named.version, "nvfp4_4over6", nullptr), "FLASHINFER") << server;
  }
  EXPECT_EQ(why_not_served(Engine::Vllm, EngineVersion{0, 31, 0}, "nvfp4_ds_mla", hopper), "");
  EXPECT_EQ(why_not_served(Engine::Vllm, EngineVersion{0, 32, 0}, "nvfp4_ds_mla", hopper),
            "compute capability 10 alone");
}

/// A line of what versions serve a type on alone, on both of its sides.
struct Served {
  const char *server, *type, *gpu;
  Trait latent;
  const char* why;
  const char* backend = "";  // the only one
};
constexpr Trait kPlain = Trait::No, kMla = Trait::Yes;
constexpr Served kServed[] = {
    {"vllm@0.12.0", "fp8_ds_mla", "H100", kPlain, "MLA alone"},
    {"vllm@0.33.0", "fp8_ds_mla", "H100", kMla, ""},
    {"vllm@0.11.0", "fp8_ds_mla", "H100", kPlain, ""},  // no line is of it
    {"vllm@0.33.0", "nvfp4_ds_mla", "B200", kPlain, "MLA alone"},
    {"vllm@0.14.1", "fp8_inc", "A100", kPlain, "Intel's Gaudi alone"},
    {"vllm@0.20.0", "nvfp4", "B200", kPlain, "not in this version yet"},
    {"vllm@0.28.0", "nvfp4", "A100", kPlain, "compute capability 10 alone", "FLASHINFER"},
    {"vllm@0.32.0", "nvfp4", "A100", kPlain, "", "FLASHINFER"},
    {"vllm@0.32.0", "nvfp4", "T4", kPlain, "compute capability 8 9 10 12 alone", "FLASHINFER"},
    {"vllm@0.33.0", "nvfp4", "MI300X", kPlain, "compute capability 8 9 10 12 alone", "FLASHINFER"},
    {"vllm@0.33.0", "octave_k3v4", "MI300X", kPlain, "", "ROCM_OCTAVE"},
    {"vllm@0.33.0", "octave_k3v4", "MI300X", kMla, "no MLA", "ROCM_OCTAVE"},
    {"vllm@0.33.0", "octave_k3v4", "H100", kPlain, "gfx11 gfx942 alone", "ROCM_OCTAVE"},
    {"vllm@0.20.0", "turboquant_k8v4", "H100", kPlain, "", "TURBOQUANT"},
    {"vllm@0.33.0", "turboquant_3bit_nc", "H100", kMla, "no MLA", "TURBOQUANT"},
    {"vllm@0.27.1", "turboquant_4bit_nc", "MI300X", kPlain, "", "TURBOQUANT"},
    {"vllm@0.28.0", "turboquant_4bit_nc", "MI300X", kPlain, "", ""},
    {"vllm@0.32.0", "ultraquant_4bit", "MI355X", kPlain, "", ""},
    {"vllm@0.32.0", "ultraquant_4bit", "H100", kPlain, "AMD's GPUs alone", "ULTRAQUANT"},
    {"vllm@0.33.0", "ultraquant_4bit", "MI355X", kMla, "no MLA", ""},
    {"vllm@0.22.0", "fp8_per_token_head", "A100", kPlain, "", "TRITON_ATTN"},
    {"vllm@0.24.0", "fp8_per_token_head", "A100", kPlain, "compute capability 8.9 or more", "TRITON_ATTN"},
    {"vllm@0.33.0", "fp8_per_token_head", "L40S", kPlain, "", "TRITON_ATTN"},
    {"vllm@0.33.0", "int4_per_token_head", "A100", kPlain, "", "TRITON_ATTN"},
    {"vllm@0.33.0", "int8_per_token_head", "H100", kMla, "no MLA", "TRITON_ATTN"},
    {"vllm@0.15.0", "fp8", "V100", kPlain, ""},  // older ones had kernels of their own
    {"vllm@0.16.0", "fp8", "V100", kPlain, "compute capability 7.5 or more"},
    {"vllm@0.23.0", "fp8_e5m2", "T4", kPlain, ""},
    {"vllm@0.24.0", "fp8_e4m3", "T4", kPlain, "compute capability 8.0 or more"},
    {"vllm@0.33.0", "fp8", "A100", kPlain, ""},
    {"vllm@0.16.0", "fp8", "L40S", kMla, "compute capability 9 10 alone"},
    {"vllm@0.18.0", "fp8", "L40S", kMla, ""},
    {"vllm@0.18.0", "fp8", "A100", kMla, "compute capability 8.9 or more"},
    {"vllm@0.33.0", "fp8_e5m2", "H100", kMla, "AMD's GPUs alone"},
    {"vllm@0.33.0", "fp8_e5m2", "MI300X", kMla, ""},
    {"vllm@0.33.0", "fp8", "MI300X", kMla, ""},
    {"vllm", "fp8", "T4", kPlain, ""},
    {"sglang@0.5.23", "nvfp4", "H100", kPlain, "compute capability 10 12 alone"},
    {"sglang@0.5.23", "mxfp8", "H100", kPlain, "compute capability 10 11 12 alone"},
};

TEST(Choices, AreServedByVersionGpuAndKindOfModel) {
  for (const Served& s : kServed) {
    const NamedEngine named = parse_engine(s.server);
    const std::optional<Gpu> gpu = parse_gpu(s.gpu);
    ASSERT_TRUE(gpu) << s.gpu;
    const std::string label = std::string(s.server) + " " + s.type + " " + s.gpu;
    EXPECT_EQ(why_not_served(named.server, named.version, s.type, {&*gpu, s.latent, 128}), s.why) << label;
    EXPECT_EQ(only_backend(named.server, named.version, s.type, &*gpu), s.backend) << label;
  }
}

// Boundary layers keep the model's type, and ROCm serves both kinds of layers.
TEST(Choices, OfMixedLayersGoBackToTheirBackendOnAmd) {
  const EngineVersion newest = newest_known(Engine::Vllm), before = {0, 27, 1};
  EXPECT_EQ(only_backend(Engine::Vllm, newest, "turboquant_k8v4", nullptr), "");
  EXPECT_EQ(only_backend(Engine::Vllm, before, "turboquant_k8v4", nullptr), "TURBOQUANT");
  const std::optional<Gpu> h100 = parse_gpu("H100");
  const CachePlace named = {&*h100, Trait::No, 128, "ULTRAQUANT"};
  EXPECT_EQ(why_not_served(Engine::Vllm, newest, "ultraquant_4bit", named), "");
}

TEST(Choices, SpellTheBackendAsTheVersionDoes) {
  const auto option = [](const char* server, const std::string& name) {
    const NamedEngine named = parse_engine(server);
    return backend_option(named.server, named.version, name);
  };
  EXPECT_EQ(option("vllm", "TRITON_ATTN"), "--attention-backend TRITON_ATTN");
  EXPECT_EQ(option("vllm@0.12.0", "TRITON_ATTN"), "VLLM_ATTENTION_BACKEND=TRITON_ATTN");
  EXPECT_EQ(option("sglang", "TRITON_MLA"), "");
  EXPECT_EQ(option("vllm", "triton"), "");
}

TEST(Choices, KnowTheBackendsOfTheOtherServer) {
  using Counterpart = std::optional<std::string_view>;
  EXPECT_EQ(backend_of_another(Engine::Vllm, "triton"), Counterpart("TRITON_ATTN"));
  EXPECT_EQ(backend_of_another(Engine::Vllm, "wave"), Counterpart(""));
  EXPECT_EQ(backend_of_another(Engine::Vllm, "flashinfer"), std::nullopt);  // it takes small letters
  EXPECT_EQ(backend_of_another(Engine::Vllm, "mine"), std::nullopt);        // of a plug-in
  EXPECT_EQ(backend_of_another(Engine::Sglang, "FLASHINFER"), Counterpart("flashinfer"));
  EXPECT_EQ(backend_of_another(Engine::Sglang, "flash_attn"), Counterpart("fa3"));
  EXPECT_EQ(backend_of_another(Engine::Sglang, "ROCM_ATTN"), Counterpart(""));
  EXPECT_EQ(backend_of_another(Engine::Sglang, "trtllm_mha"), std::nullopt);
  EXPECT_EQ(backend_of_another(Engine::LlamaCpp, "triton"), std::nullopt);
}

TEST(Control, SaysWhatAutoIs) {
  const KvDeclaration nvfp4 = declared(kNvfp4), fp8 = declared(kFp8);
  const auto text = [](CacheRequest r, std::string weights = "bfloat16") {
    const CacheType in_effect = cache_type(r);
    return control_text({std::move(r), in_effect, Trait::Unknown, std::move(weights)});
  };
  EXPECT_NE(text(request("vllm@0.33.0", nvfp4)).find("auto is NVFP4, and other types may"), std::string::npos);
  EXPECT_NE(text(request("sglang@0.5.23", fp8)).find("auto is FP8, and"), std::string::npos);
  EXPECT_EQ(text(request("sglang@0.5.23", nvfp4, "fp8_e4m3")).find("auto is"), std::string::npos);
  EXPECT_NE(text(request("sglang@0.5.23", fp8), "float16").find("has no --kv-cache-dtype float16"), std::string::npos);
}

TEST(Choices, AreNotKnownOfAVersionThatWasNotRead) {
  const EngineVersion later = {0, 99, 0};
  EXPECT_EQ(has_cache_type(Engine::Vllm, later, "fp8"), Trait::Unknown);
  EXPECT_EQ(has_cache_type(Engine::Vllm, newest_known(Engine::Vllm), "fp8"), Trait::Yes);
  EXPECT_EQ(only_backend(Engine::Vllm, later, "fp8_per_token_head", nullptr), "");
  const KvDeclaration nvfp4 = declared(kNvfp4);
  EXPECT_EQ(cache_type(request("vllm@0.99.0", nvfp4)).quantized, Trait::Unknown);
}

TEST(Gpus, OfOneNumberAreToldApart) {
  const auto capability = [](const char* name) { return parse_gpu(name) ? parse_gpu(name)->capability : 0; };
  EXPECT_EQ(capability("Quadro RTX 3000"), 75);
  EXPECT_EQ(capability("Quadro RTX 4000"), 75);
  EXPECT_EQ(capability("Quadro RTX 5000"), 75);
  EXPECT_EQ(capability("NVIDIA RTX 5000 Ada Generation"), 89);
  EXPECT_EQ(capability("NVIDIA RTX 4000 SFF Ada Generation"), 89);
  EXPECT_EQ(capability("RTX A4000"), 86);
  EXPECT_EQ(capability("GeForce RTX 2050"), 86);
  EXPECT_EQ(capability("GeForce RTX 5070 Ti"), 120);
  EXPECT_EQ(capability("RTX 5000"), 0) << "Turing's, or the Ada Generation";
}

}  // namespace
}  // namespace kvcal
