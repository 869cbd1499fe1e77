// What a server's version makes of options and declarations, against what its wheel says.
#include <gtest/gtest.h>

#include <filesystem>

#include "deployment/cache_choices.h"
#include "deployment/control.h"
#include "deployment/scale_use.h"

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

/// Of what tests/loaders/check_scale_use.py had the servers' own code do: one backend, one type of the cache.
void expect_use(const Json& run, const KvDeclaration& d, const std::string& what, size_t& n_known) {
  const auto text = [&](const char* key) { return get_string(run, key, ""); };
  std::string server = text("server");
  server[server.find(' ')] = '@';
  const NamedEngine named = parse_engine(server);
  const bool garbage = text("use") == "garbage";
  ScaleReader reader = {.server = named.server, .version = named.version, .backend = text("backend"), .declared = &d};
  reader.asked = text("cache") != "auto";
  reader.latent = text("model") == "MLA";
  if (is_quantized_type(text("cache"))) {
    EXPECT_EQ(misreads_latent_rows(reader), garbage) << what;
    return;
  }
  const Trait said = scales_reach_plain_cache(reader);
  n_known += said == Trait::Unknown ? 0 : 1;
  EXPECT_NE(said, trait_of(!garbage)) << what;
}

TEST(ScaleUse, IsThatOfTheServersOwnCode) {
  const std::filesystem::path folder = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/loaders/results";
  size_t n_known = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const Json json = read_json_file(file.path());
    for (const Json& run : *find_member(json, "results")) {
      if (find_member(run, "use") == nullptr) continue;
      for (const Json& place : *find_member(run, "declared")) {
        const Json& quantization = json.at("declared").at(place.get<size_t>());
        const Json config = quantization.is_null() ? Json::object() : Json{{"quantization_config", quantization}};
        expect_use(run, read_kv_declaration(config, "/nowhere"), run.dump() + " of " + place.dump(), n_known);
      }
    }
  }
  EXPECT_GE(n_known, 100u);
}

}  // namespace
}  // namespace kvcal
