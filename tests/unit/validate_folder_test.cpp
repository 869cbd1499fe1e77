// Folders of other tools, sound and damaged in one way each: exactly the rules of that damage.
#include "validate/validate_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "check/folder_checks.h"
#include "stats/statistics_file.h"
#include "unit/compared_folder.h"
#include "unit/scale_folder.h"
#include "unit/validate_fixture.h"
#include "unit/validate_folder_cases.h"
#include "validate/output.h"

namespace kvcal {
namespace {

FolderReport judged(const ScaleFolder& f, const std::vector<std::string>& servers, int64_t n_ranks = 0) {
  const TempFolder folder;
  f.write(folder);
  FolderChecks checks;
  checks.n_ranks = n_ranks;
  for (const std::string& name : servers) checks.servers.push_back(parse_server(name));
  return validate_folder(folder / "model", shipped_schema(), checks);
}

TEST(ValidateFolder, GivesEachDamageItsRules) {
  for (const FolderCase& c : folder_cases()) {
    ScaleFolder f = c.folder;
    c.change(f);
    const Report report = judged(f, c.servers).report;
    EXPECT_EQ(ids_of(report), c.expected) << c.name << "\n" << shown(report);
    for (const Finding& finding : report.findings) (void)rule_named(finding.rule);
  }
}

TEST(ValidateFolder, CountsEveryRuleOnce) {
  const Report report = judged(llm_compressor_folder(), {"vllm"}).report;
  EXPECT_EQ(report.evaluated_rules().size() + report.skipped_rules().size(), rules().size());
  for (const Report::Skipped& s : report.skipped_rules()) EXPECT_NE(s.reason, "because of an error above") << s.rule;
}

TEST(ValidateFolder, AdvisesNoExportThatIsRefused) {
  ScaleFolder bare = llm_compressor_folder();  // Qwen3, of which SGLang loads no scales
  std::erase_if(bare.tensors, [](const auto& t) { return t.first.ends_with("_scale"); });
  const auto said = [&](const std::vector<std::string>& servers) {
    FolderReport found = judged(bare, servers);
    return text_report({"m", std::move(found.report), false, std::move(found.served)}).text();
  };
  EXPECT_NE(said({"sglang"}).find("fix: serve with the plug-in sglang-kv-cache-scales"), std::string::npos);
  EXPECT_EQ(said({"sglang"}).find("export"), std::string::npos);
  EXPECT_NE(said({"vllm", "sglang"}).find("fix: calibrate and export"), std::string::npos);
}

/// The values that vLLM and SGLang held after loading such folders, layer 0.
TEST(ValidateFolder, SaysWhatEachServerUses) {
  const auto served = [](const ScaleFolder& f) { return judged(f, {"vllm", "sglang"}).served; };
  const auto llama = served(llm_compressor_folder("LlamaForCausalLM", "llama"));
  for (const ServedScales& s : llama) {
    ASSERT_EQ(s.layers.size(), 4u) << str(s.server);
    EXPECT_EQ(s.layers[0].key, std::vector<float>{0.00860595703F});
    EXPECT_EQ(s.layers[0].value, std::vector<float>{0.00218200684F});
    EXPECT_TRUE(s.auto_is_fp8);
  }
  const auto qwen3 = served(llm_compressor_folder());
  EXPECT_EQ(qwen3[0].layers[3].key, std::vector<float>{0.0172119141F});
  EXPECT_EQ(qwen3[1].layers[3].key, std::vector<float>{1});  // SGLang's Qwen3 has no parameter for it
  EXPECT_FALSE(qwen3[1].layers[3].key_loaded);
  ScaleFolder modelopt = modelopt_folder(true, "LlamaForCausalLM", "llama");
  modelopt.config["quantization_config"]["quant_algo"] = "FP8";
  const auto rounded = served(modelopt);
  EXPECT_EQ(rounded[0].layers[0].key, std::vector<float>{0.0106201171875F});  // 0x3c2db6db -> bf16 0x3c2e
  EXPECT_EQ(rounded[1].layers[0].key, std::vector<float>{0.0106026782F});
  const auto heads = served(attn_head_folder("LlamaForCausalLM", "llama"));
  EXPECT_EQ(heads[0].layers[0].key, (std::vector<float>{0.00872802734F, 0.00793457031F}));
  EXPECT_EQ(heads[1].layers[0].key, std::vector<float>{1});
  const auto shared = served(autofp8_folder());
  EXPECT_EQ(shared[0].layers[0].key, std::vector<float>{0.0150146484375F});  // bf16 0x3c76
  EXPECT_EQ(shared[1].layers[0].value, std::vector<float>{0.015F});
}

TEST(ValidateFolder, PutsValuesIntoItsTable) {
  const FolderReport found = judged(llm_compressor_folder(), {"vllm", "sglang"});
  const std::vector<std::vector<std::string>> rows = served_rows(found.served);
  EXPECT_EQ(rows.at(0).at(1), "module");
  EXPECT_EQ(rows.at(1).at(2), "0.008605957, 0.0021820068");
  EXPECT_EQ(rows.at(1).at(3), "1.0, 1.0 (left out with a warning)");
  EXPECT_EQ(served_json(found.served)[1]["layers"].size(), 4u);
}

TEST(ServedScales, FollowTheFallbackOfTheBaseMethod) {
  struct Matrix {
    std::optional<float> key, value;
    const char* vllm;  // "stop", or key and value
    const char* sglang;
  };
  const float nan = std::nanf("");
  const std::vector<Matrix> cases = {
      {0.5F, 0.25F, "0.5 0.25", "0.5 0.25"}, {{}, {}, "1 1", "1 1"},       {0.5F, {}, "0.5 0.5", "0.5 0.5"},
      {{}, 0.25F, "stop", "stop"},           {0.F, 0.25F, "stop", "stop"}, {0.F, 0.F, "stop", "1 1"},
      {-0.5F, -0.5F, "1 1", "1 1"},          {nan, 0.25F, "stop", "stop"}, {-0.5F, 0.25F, "stop", "stop"},
      {0.5F, -1.F, "0.5 0.5", "0.5 0.5"},
  };
  for (const Matrix& m : cases) {
    ScaleFolder f = llm_compressor_folder("LlamaForCausalLM", "llama");
    f.config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
    const auto set = [&](const char* name, std::optional<float> x) {
      f.tensors.erase(attention_of(2) + name);
      if (x) f.tensors[attention_of(2) + name] = f32_tensor(Shape{1}, {*x});
    };
    set(".k_scale", m.key);
    set(".v_scale", m.value);
    const FolderReport found = judged(f, {"vllm", "sglang"});
    for (size_t i = 0; i < 2; ++i) {
      const ServedScales& s = found.served[i];
      std::ostringstream used;
      if (s.stops.empty())
        used << s.layers[2].key[0] << " " << s.layers[2].value[0];
      else
        used << "stop";
      EXPECT_EQ(used.str(), i == 0 ? m.vllm : m.sglang)
          << "k " << m.key.value_or(-9) << " v " << m.value.value_or(-9) << " " << str(s.server);
    }
  }
}

TEST(ServedScales, RoundLikeParametersOfTheModelsDtype) {
  EXPECT_EQ(rounded_to_dtype(0.00930078F, "bfloat16"), 0.00927734375F);
  EXPECT_EQ(rounded_to_dtype(0.00930078F, "float32"), 0.00930078F);
  EXPECT_EQ(rounded_to_dtype(1e-8F, "float16"), 0.0F);
  EXPECT_EQ(rounded_to_dtype(6e-8F, "float16"), 5.9604645e-8F);    // the smallest subnormal, 2^-24
  EXPECT_EQ(rounded_to_dtype(0.1F, "float16"), 0.0999755859375F);  // 0x2e66
}

struct ComparedCase {
  const char* name;
  bool with_statistics;
  Ids expected;
  std::function<void(float&, float&)> change;
};

// Headroom of the artifact is 2: its scales are twice the tight ones.
const std::vector<ComparedCase>& compared_cases() {
  static const std::vector<ComparedCase> cases = {
      {"as they are", false, {}, [](float&, float&) {}},
      {"rounded up to bf16", false, {}, [](float& k, float&) { k *= 1.007F; }},
      {"other", false, {"V06"}, [](float& k, float&) { k *= 1.1F; }},
      {"a quarter", false, {"S14"}, [](float& k, float&) { k *= 0.25F; }},
      {"a quarter, by statistics", true, {"S14"}, [](float& k, float&) { k *= 0.25F; }},
      {"no headroom", true, {"S15"}, [](float&, float& v) { v *= 0.52F; }},
      {"little headroom", true, {"S15"}, [](float&, float& v) { v *= 0.5F / 0.91F; }},
      {"enough headroom", true, {}, [](float&, float& v) { v *= 0.5F / 0.89F; }},
      {"swapped", false, {"S13"}, [](float& k, float& v) { std::swap(k, v); }},
      {"raw maxima", false, {"S10"}, [](float& k, float&) { k *= 224; }},
      {"inverted", false, {"S09"}, [](float& k, float&) { k = 448 / (k * 224); }},
      {"of the FNUZ format", true, {"S11"}, [](float&, float& v) { v *= 224.0F / 240; }},
      {"far too large", true, {"S16"}, [](float&, float& v) { v *= 4000; }},
  };
  return cases;
}

TEST(ValidateFolder, ComparesWithWhatWasMeasured) {
  for (const ComparedCase& c : compared_cases()) {
    Compared compared;
    const Report report = compared.against(c.with_statistics, c.change);
    EXPECT_EQ(ids_of(report), c.expected) << c.name << "\n" << shown(report);
  }
}

TEST(ValidateFolder, NothingOfTheScaleFileIsAnError) {
  Compared compared;
  const Checkpoint checkpoint = Checkpoint::open(compared.folder / "model");
  const StoredScales none;
  Report report;
  check_against({checkpoint, compared.spec, none, {}}, {compared.artifact, std::nullopt}, report);
  EXPECT_EQ(ids_of(report), Ids{"V09"}) << shown(report);
}

/// A scale file per channel is compared by other rules; of one per layer they hold nothing.
TEST(ValidateFolder, ScalesOfVllmAscendAreNoneOfAFilePerLayer) {
  Compared compared;
  modelslim_cases().front().folder.write(compared.folder);
  const Checkpoint checkpoint = Checkpoint::open(compared.folder / "model");
  const StoredScales none;
  for (const Granularity granularity : {Granularity::Tensor, Granularity::Channel}) {
    compared.artifact.quantization.granularity = granularity;
    Report report;
    check_against({checkpoint, compared.spec, none, {}}, {compared.artifact, std::nullopt}, report);
    EXPECT_EQ(ids_of(report), granularity == Granularity::Tensor ? Ids{"V09"} : Ids{}) << shown(report);
  }
}

/// Nobody asked about servers that do not read the folder.
TEST(ValidateFolder, AsksNoOtherServerOfAFolderForVllmAscend) {
  const TempFolder folder;
  modelslim_cases().front().folder.write(folder);
  FolderChecks checks;
  checks.servers = {parse_server("vllm"), parse_server("sglang")};
  checks.names_servers = false;
  const FolderReport result = validate_folder(folder / "model", shipped_schema(), checks);
  EXPECT_TRUE(result.served.empty());
  EXPECT_EQ(ids_of(result.report), Ids{}) << shown(result.report);
}

TEST(ValidateFolder, SaysByHowMuchAndHowManyAreClipped) {
  Compared compared;
  const Report report = compared.against(true, [](float&, float& v) { v /= 4; });  // half of what is needed
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].actual.find("too small by 2.0x, clips "), std::string::npos)
      << report.findings[0].actual;
  // Counted apart: values above 448 times the scale.
  uint64_t beyond = 0, all = 0;
  const double limit = 448 * static_cast<double>(compared.stored.tensors[3].values[0]);
  for (const HeadStatistics& h : compared.statistics.caches[1].at(CacheSite::Value).heads) {
    for (const auto& [code, n] : h.histogram.counts) {
      all += n;
      if (static_cast<double>(to_float(bf16{code})) > limit) beyond += n;
    }
    all += h.histogram.zeros;
  }
  const std::string share = std::to_string(100.0 * static_cast<double>(beyond) / static_cast<double>(all));
  EXPECT_NE(report.findings[0].actual.find("clips " + share.substr(0, 4)), std::string::npos)
      << report.findings[0].actual << " " << share;
}

TEST(ValidateFolder, JudgesAScaleFileAsASideFile) {
  const auto ids = [](const std::string& architecture, const char* server) {
    Json json = sound();
    json["model"]["architecture"] = architecture;
    Report report;
    check_as_side_file(json.dump(), {parse_server(server)}, report);
    return ids_of(report);
  };
  EXPECT_EQ(ids("Qwen3ForCausalLM", "sglang"), Ids{});
  EXPECT_EQ(ids("Qwen3_5ForCausalLM", "sglang"), Ids{"V08"});
  EXPECT_EQ(ids("Qwen3ForCausalLM", "vllm"), Ids{"V08"});
  EXPECT_EQ(ids("Qwen3ForCausalLM", "vllm@0.20.0"), (Ids{"V05", "V08"}));
  for (const char* unknown : {"vllm@0.6.6", "vllm@0.34.0", "sglang@0.5.9", "sglang@0.6"})
    EXPECT_EQ(ids("Qwen3_5ForCausalLM", unknown), Ids{"V05"}) << unknown;
}

TEST(ValidateFolder, NamesTheRankWhoseHeadsWereMeasured) {
  Compared own;
  const std::vector<float> heads = own.artifact.layers[1].key.absmax_per_head;
  ASSERT_EQ(heads.size(), 2u);
  const float smaller = std::min(heads[0], heads[1]), larger = std::max(heads[0], heads[1]);
  ASSERT_LT(smaller, 0.98F * larger);
  EXPECT_EQ(ids_of(own.against(false, [&](float& k, float&) { k = smaller / 448; })), Ids{"K08"});
  Compared rounded;  // as a producer that writes bf16 leaves it
  EXPECT_EQ(ids_of(rounded.against(true, [&](float& k, float&) { k = smaller / 448 * 1.004F; })), Ids{"K08"});
  Compared smaller_still;
  EXPECT_EQ(ids_of(smaller_still.against(false, [&](float& k, float&) { k = smaller / 448 * 0.98F; })), Ids{"S14"});
  Compared of_six;  // two ranks of three heads
  of_six.artifact.layers[1].key.absmax_per_head = {0.5F * smaller, smaller, 0.6F * smaller, larger, 1, 1};
  EXPECT_EQ(ids_of(of_six.against(false, [&](float& k, float&) { k = smaller / 448; })), Ids{"K08"});
  EXPECT_EQ(ids_of(Compared().against(false, [&](float& k, float&) { k = 0.5F * smaller / 448; })), Ids{"S14"});
  Compared of_all;
  EXPECT_EQ(ids_of(of_all.against(false, [&](float& k, float&) { k = larger / 448; })), Ids{"S15"});
}

TEST(ValidateFolder, DealsHeadsToRanks) {
  const auto ids = [](const ScaleFolder& f, int64_t n_ranks) { return ids_of(judged(f, {"vllm"}, n_ranks).report); };
  const ScaleFolder heads = attn_head_folder("LlamaForCausalLM", "llama");  // two KV heads
  EXPECT_EQ(ids(heads, 3), (Ids{"C11", "S18", "S25"}));
  for (const int64_t n_ranks : {0, 1, 2, 4, 8}) EXPECT_EQ(ids(heads, n_ranks), (Ids{"C11", "S25"})) << n_ranks;
  EXPECT_EQ(ids(llm_compressor_folder("LlamaForCausalLM", "llama"), 3), Ids{"S25"});
}

TEST(ValidateFolder, TakesTheSizeOfAnExportedScaleForMeasured) {
  ScaleFolder f = llm_compressor_folder("LlamaForCausalLM", "llama");
  for (int layer = 0; layer < 4; ++layer) {
    set_scale(attention_of(layer) + ".k_scale", 3e-6F)(f);
    set_scale(attention_of(layer) + ".v_scale", 80)(f);
  }
  const Report alone = judged(f, {"vllm"}).report;
  EXPECT_EQ(ids_of(alone), (Ids{"S04", "S05", "S25"}));
  EXPECT_FALSE(alone.has_errors());
  f.files["kvcal-export.json"] =
      R"({"format": "kvcal-export", "version": "1.0", "target": "vllm", "tool_version": "0.1",
                                     "scales_sha256": "", "in_place": false, "files": []})";
  EXPECT_EQ(ids_of(judged(f, {"vllm"}).report), Ids{"S25"});
}

TEST(ValidateFolder, HasACaseForEveryRuleOfFolders) {
  Ids seen = {"C08", "C10", "C19", "K08", "S27", "S28", "V08", "V09"};  // below, and above
  for (const FolderCase& c : folder_cases()) seen.insert(c.expected.begin(), c.expected.end());
  for (const ComparedCase& c : compared_cases()) seen.insert(c.expected.begin(), c.expected.end());
  for (const Rule& rule : rules())
    EXPECT_TRUE(rule.needs.empty() || rule.needs == "--model" || rule.needs == "a statistics file" ||
                rule.needs == "an evaluation" || rule.needs == "a pack" || rule.needs.starts_with("a page") ||
                rule.needs == "--tp" || rule.needs.starts_with("at least") || seen.contains(std::string(rule.id)))
        << rule.id;
}

TEST(ValidateFolder, KnowsLayersThatShareAndTowersThatWereNotFed) {
  ScaleFolder f = golden_folder("gemma4", "model.", {});
  const TempFolder folder;
  f.write(folder);
  const ModelSpec spec = identify_model(folder / "model").spec;
  int reader = -1;
  for (const LayerSpec& l : spec.layers) {
    if (l.shares_cache >= 0) reader = l.index;
    const int owner = l.shares_cache >= 0 ? spec.caches[static_cast<size_t>(l.shares_cache)].layer : l.index;
    for (const char* site : {".k_scale", ".v_scale"})
      f.tensors[attention_of(l.index) + site] = f32_tensor(Shape{1}, {0.01F + 0.001F * static_cast<float>(owner)});
  }
  EXPECT_EQ(ids_of(judged(f, {}).report), (Ids{"C04", "C10", "S25"}));  // as exported: the owner's
  f.tensors[attention_of(reader) + ".k_scale"] = f32_tensor(Shape{1}, {0.5F});
  EXPECT_EQ(ids_of(judged(f, {}).report), (Ids{"C04", "C08", "C10", "S25"}));

  Compared compared;
  ScaleFolder tower = llm_compressor_folder();
  tower.config["vision_config"] = {{"hidden_size", 8}};
  tower.write(compared.folder);
  EXPECT_EQ(ids_of(compared.against(false, [](float&, float&) {})), Ids{"C19"});
}

}  // namespace
}  // namespace kvcal
