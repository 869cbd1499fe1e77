// A file damaged in one way gives the rule for that damage, and no other; every rule has a damage that gives it.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "check/artifact_checks.h"
#include "unit/finding_examples.h"
#include "unit/validate_fixture.h"

namespace kvcal {
namespace {
using Ids = std::set<std::string>;

Ids ids_of(const Report& report) {
  keep_examples(report);
  Ids ids;
  for (const Finding& f : report.findings) ids.insert(f.rule);
  return ids;
}

std::string shown(const Report& report) {
  std::string out;
  for (const Finding& f : report.findings)
    out += f.rule + " " + f.path + ": " + f.what + " is " + f.actual + ", expected " + f.expected + "\n";
  return out;
}

/// What is wrong with a file after `change`. Numbers of this value become the bare word NaN and the like.
constexpr double kMark = 123456789.5;

struct Case {
  std::string name;
  Ids expected;
  std::function<void(Json&)> change;
  std::string word = "NaN";
  Granularity granularity = Granularity::Tensor;
};

std::string text_of(const Case& c) {
  Json json = sound(c.granularity);
  c.change(json);
  std::string text = json.dump(1);
  if (const size_t at = text.find("123456789.5"); at != std::string::npos) text.replace(at, 11, c.word);
  return text;
}

Json& layer(Json& j, size_t i) { return j["layers"][i]; }

void scale_cases(std::vector<Case>& cases) {
  for (const size_t i : {0, 2, 4})
    for (const std::string site : {"key", "value", "query"}) {
      const std::string name = site + " of layer " + std::to_string(i) + ": ";
      const auto set = [=](double to) { return [=](Json& j) { layer(j, i)[site]["scale"] = to; }; };
      const auto times = [=](double by) {
        return [=](Json& j) { layer(j, i)[site]["scale"] = layer(j, i)[site]["scale"].get<double>() * by; };
      };
      cases.push_back({name + "NaN", {"S01"}, set(kMark)});
      cases.push_back({name + "infinity", {"S01"}, set(kMark), "Infinity"});
      cases.push_back({name + "beyond float32", {"S01"}, set(kMark), "1e39"});
      cases.push_back({name + "negative", {"S02"}, set(-1)});
      cases.push_back({name + "zero", {"S02"}, set(0)});
      cases.push_back({name + "subnormal", {"N01"}, set(1e-39)});
      cases.push_back({name + "epsilon of float32", {"S03"}, set(1.1920929e-07)});
      cases.push_back({name + "text", {"A02"}, [=](Json& j) { layer(j, i)[site]["scale"] = "0.03"; }});
      cases.push_back(
          {name + "null", {site == "query" ? "A02" : "S06"}, [=](Json& j) { layer(j, i)[site]["scale"] = nullptr; }});
      cases.push_back({name + "doubled", {"R01"}, times(2)});
      cases.push_back({name + "tiny", {"S14"}, set(5e-6)});
      cases.push_back({name + "huge", {"R01"}, set(5000)});
      cases.push_back({name + "a fifth", {"S14"}, times(0.2)});
      cases.push_back({name + "inverse", {"S09"}, [=](Json& j) {
                         layer(j, i)[site]["scale"] = 448 / layer(j, i)[site]["absmax"].get<double>();
                       }});
      cases.push_back({name + "no observations", {"K01"}, [=](Json& j) { layer(j, i)[site]["observations"] = 0; }});
      cases.push_back({name + "other observations", {"R11"}, [=](Json& j) { layer(j, i)[site]["observations"] = 7; }});
      cases.push_back({name + "absmax NaN", {"K06"}, [=](Json& j) { layer(j, i)[site]["absmax"] = kMark; }});
      cases.push_back({name + "absmax zero", {"N02"}, [=](Json& j) { layer(j, i)[site]["absmax"] = 0; }});
      cases.push_back({name + "absmax edited", {"N03"}, [=](Json& j) { edit_absmax(layer(j, i)[site]); }});
      cases.push_back({name + "absmax of another file", {"R02"}, [=](Json& j) {
                         layer(j, i)[site]["absmax"] = layer(j, i)[site]["absmax"].get<double>() * 2;
                       }});
      cases.push_back(
          {name + "a head too few", {"R05"}, [=](Json& j) { layer(j, i)[site]["absmax_per_head"].erase(0); }});
    }
  for (const std::string site : {"key", "query"})
    cases.push_back({"raw absmax of a " + site, {"S10"}, [=](Json& j) {
                       layer(j, 1)[site]["scale"] = layer(j, 1)[site]["absmax"];
                     }});
  cases.push_back({"halved value", {"R01", "S11"}, [](Json& j) {
                     layer(j, 1)["value"]["scale"] = layer(j, 1)["value"]["scale"].get<double>() / 2;
                   }});
  cases.push_back({"k and v swapped", {"S13"}, [](Json& j) {
                     std::swap(layer(j, 3)["key"]["scale"], layer(j, 3)["value"]["scale"]);
                   }});
  cases.push_back({"headroom of 1", {"S15"}, [](Json& j) {
                     j["quantization"]["headroom"] = 1.0;
                     for (Json& l : j["layers"])
                       for (const char* site : {"key", "value", "query"})
                         l[site]["scale"] = l[site]["scale"].get<float>() / 2;
                     for (Json& l : j["layers"]) l["joint"]["scale"] = std::max(l["key"]["scale"], l["value"]["scale"]);
                     for (const Json& l : j["layers"])
                       j["kv_cache"]["scaling_factor"]["0"][l["index"].dump()] = l["joint"]["scale"];
                   }});
  cases.push_back({"all ones", {"R01", "S08"}, [](Json& j) {
                     for (Json& l : j["layers"]) l["key"]["scale"] = l["value"]["scale"] = 1.0;
                   }});
}

void structure_cases(std::vector<Case>& cases) {
  for (const char* key :
       {"format", "version", "model", "quantization", "layers", "layers_without_kv", "calibration", "kv_cache"})
    cases.push_back({std::string("without ") + key, {"A02"}, [=](Json& j) { j.erase(key); }});
  for (const char* key : {"name", "kind", "n_heads", "query", "joint"})
    cases.push_back({std::string("layer without ") + key, {"A02"}, [=](Json& j) { layer(j, 2).erase(key); }});
  for (const char* key : {"key", "value"})
    cases.push_back({std::string("layer without ") + key, {"S06"}, [=](Json& j) { layer(j, 2).erase(key); }});
  const auto add = [&](const char* name, Ids ids, std::function<void(Json&)> change) {
    cases.push_back({name, std::move(ids), std::move(change)});
  };
  add("layers an object", {"A02"}, [](Json& j) { j["layers"] = Json::object(); });
  add("layer a number", {"A02"}, [](Json& j) { layer(j, 1) = 3; });
  add("document a list", {"A02"}, [](Json& j) { j = Json::array(); });
  add("index text", {"A02"}, [](Json& j) { layer(j, 1)["index"] = "3"; });
  add("fingerprint cut", {"A02"}, [](Json& j) { j["model"]["weights_fingerprint"] = "abc"; });
  add("typing error", {"A03"}, [](Json& j) { layer(j, 1)["key"]["observatoins"] = 3; });
  add("comment", {"A03"}, [](Json& j) { j["comment"] = "by hand"; });
  add("later minor", {"A05"}, [](Json& j) { j["version"] = "1.5", layer(j, 1)["rotation"] = 3; });
  add("another major", {"A04"}, [](Json& j) { j["version"] = "2.0"; });
  add("another format", {"A04"}, [](Json& j) { j["format"] = "kvcal-stats"; });
  add("joint verdict", {"A06"}, [](Json& j) { layer(j, 1)["joint"]["verdict"] = "inadequate"; });
  add("layer missing", {"L03", "L04", "R10"}, [](Json& j) { j["layers"].erase(2); });
  add("layer without a cache missing", {"L03", "R10"}, [](Json& j) { j["layers_without_kv"].erase(1); });
  add("model with more layers", {"L03"}, [](Json& j) { j["model"]["n_layers"] = 9; });
  add("layer beyond the model", {"L03"}, [](Json& j) { j["model"]["n_layers"] = 7; });
  add("layer twice", {"L01", "L04"}, [](Json& j) { j["layers"].insert(j["layers"].begin() + 1, Json(layer(j, 1))); });
  add("layer with and without", {"L01", "L03", "R10"}, [](Json& j) { j["layers_without_kv"][1]["index"] = 3; });
  add("layers swapped", {"L02"}, [](Json& j) { std::swap(layer(j, 1), layer(j, 3)); });
  add("indexes swapped", {"L02", "L05", "R10"}, [](Json& j) { std::swap(layer(j, 1)["index"], layer(j, 3)["index"]); });
  add("count of layers", {"L04"}, [](Json& j) { j["model"]["n_kv_layers"] = 4; });
  add("shares nobody's cache", {"L06"}, [](Json& j) { j["layers_without_kv"][2]["shares_kv_with"] = 2; });
  add("another prefix", {"L05"}, [](Json& j) { j["model"]["tensor_prefix"] = "model."; });
  add("server block changed", {"R10"}, [](Json& j) { j["kv_cache"]["scaling_factor"]["0"]["4"] = 1.0; });
  add("server block short", {"R10"}, [](Json& j) { j["kv_cache"]["scaling_factor"]["0"].erase("7"); });
  add("server block long", {"R10"}, [](Json& j) { j["kv_cache"]["scaling_factor"]["0"]["8"] = 1.0; });
  add("server block not 1.0", {"R10"}, [](Json& j) { j["kv_cache"]["scaling_factor"]["0"]["0"] = 0.5; });
  add("server block zero", {"S02"}, [](Json& j) { j["kv_cache"]["scaling_factor"]["0"]["4"] = 0; });
  add("maximum of another format", {"R07"}, [](Json& j) { j["quantization"]["max"] = 240; });
  add("granularity head", {"R06"}, [](Json& j) { j["quantization"]["granularity"] = "head"; });
}

void relation_cases(std::vector<Case>& cases) {
  const auto add = [&](const char* name, Ids ids, std::function<void(Json&)> change) {
    cases.push_back({name, std::move(ids), std::move(change)});
  };
  const auto add_heads = [&](const char* name, Ids ids, std::function<void(Json&)> change) {
    cases.push_back({name, std::move(ids), std::move(change), "", Granularity::Head});
  };
  for (const char* site : {"key", "value", "query"})
    add("heads swapped", {"R03"}, [=](Json& j) {
      Json& heads = layer(j, 1)[site]["absmax_per_head"];
      const size_t top = layer(j, 1)[site]["where"]["head"];
      std::swap(heads[top], heads[(top + 1) % heads.size()]);
    });
  add("head of the maximum", {"R03"}, [](Json& j) { layer(j, 1)["key"]["where"]["head"] = 2; });
  add("channel of the maximum", {"R03"}, [](Json& j) { layer(j, 1)["value"]["where"]["channel"] = 16; });
  add("pass of the maximum", {"R03"}, [](Json& j) { layer(j, 1)["value"]["where"]["pass"] = 3; });
  add("position of the maximum", {"R03"}, [](Json& j) { layer(j, 1)["value"]["where"]["position"] = 480; });
  add("positions of another site", {"R04"},
      [](Json& j) { layer(j, 1)["key"]["absmax_by_position"] = layer(j, 1)["value"]["absmax_by_position"]; });
  add("joint scale", {"R10"}, [](Json& j) { layer(j, 1)["joint"]["scale"] = 0.5; });
  add("joint scale everywhere", {"R08"},
      [](Json& j) { layer(j, 1)["joint"]["scale"] = j["kv_cache"]["scaling_factor"]["0"]["3"] = 0.5; });
  add("envelope", {"R09"}, [](Json& j) { layer(j, 1)["key"]["envelope"] = 1.0; });
  add("clipped at the scale", {"E01"}, [](Json& j) { layer(j, 1)["key"]["error"]["clipped_at_scale"] = 0.1; });
  add("clipped at 1.0", {"E01"}, [](Json& j) { layer(j, 1)["value"]["error"]["clipped_at_one"] = 1e-7; });
  add("nothing lost although clipped", {"E01"}, [](Json& j) {
    Json& e = layer(j, 1)["key"]["error"];
    e["clipped_at_one"] = 1e-9;
    e["lost_at_one"] = 0;
  });
  add("damage at 1.0", {"E02"}, [](Json& j) { layer(j, 1)["key"]["assessment"]["at_one"]["noise"] = 50; });
  add("damage at the scale", {"E02"}, [](Json& j) { layer(j, 1)["key"]["assessment"]["at_scale"]["noise"] = 50; });
  add("the scale is needed", {"E02"},
      [](Json& j) { layer(j, 1)["value"]["assessment"]["scale"] = layer(j, 1)["value"]["verdict"] = "needed"; });
  add("verdict too bad", {"A06"}, [](Json& j) { layer(j, 1)["key"]["verdict"] = "inadequate"; });
  add("verdict needed", {"A06"}, [](Json& j) { layer(j, 1)["value"]["verdict"] = "needed"; });
  add("two answers to one question", {"A06"}, [](Json& j) { layer(j, 1)["key"]["assessment"]["fp8"] = "keep16"; });
  add("loses a site", {"E02"}, [](Json& j) { layer(j, 1)["joint"]["loses_value"] = true; });
  add("converged", {"E03"}, [](Json& j) { layer(j, 1)["key"]["growth"]["last_quarter"] = 0.9; });
  add("converged on one prompt", {"E03"}, [](Json& j) {
    layer(j, 1)["key"]["growth"]["depends_on"] = {{"prompt", "x"}, {"ratio", 8}};
  });
  add("depends on one prompt", {"K09"}, [](Json& j) {
    layer(j, 1)["key"]["growth"]["depends_on"] = {{"prompt", "x"}, {"ratio", 8}};
    layer(j, 1)["key"]["growth"]["converged"] = j["calibration"]["converged"] = false;
  });
  add("depends on hardly more than others", {"E03"}, [](Json& j) {
    layer(j, 1)["key"]["growth"]["depends_on_tag"] = {{"tag", "x"}, {"ratio", 1.5}};
  });
  add("passes of growth", {"E03"}, [](Json& j) { layer(j, 1)["key"]["growth"]["per_pass"].push_back(0.0); });
  add("all converged", {"E03"}, [](Json& j) { j["calibration"]["converged"] = false; });
  add("more prompts than tokens", {"R13"}, [](Json& j) { j["calibration"]["n_prompts"] = 100000; });
  add("longer than the limit", {"R13"}, [](Json& j) { j["calibration"]["max_length"] = 10; });
  add("no departure", {"R14"}, [](Json& j) { layer(j, 0)["key"]["departs_from_one"] = {"clipped"}; });
  add("other model type", {"R13"}, [](Json& j) { j["model_type"] = "llama"; });
  const auto sinks = [](double times) {  // the first position has so much more than the others
    return [times](Json& j) {
      Json& site = layer(j, 1)["value"];
      const double absmax = site["absmax"].get<double>();
      for (size_t b = 0; b < site["absmax_by_position"].size(); ++b)
        site["absmax_by_position"][b] = b ? bf16_below(absmax / times) : absmax;
      site["where"]["position"] = 0;
    };
  };
  add("sinks", {"K02"}, sinks(20));
  add("sinks above the limit", {"K02"}, sinks(8.1));
  add("sinks below the limit", {}, sinks(7.9));
  add("felt, by the rules up to 1.2", {}, [](Json& j) {
    j["version"] = "1.2";
    j["quantization"]["limits"]["kl"] = {{"check", 0.012}, {"keep16", 0.05}};
    Json& assessment = layer(j, 1)["key"]["assessment"];
    assessment["at_scale"]["noise"] = assessment["at_one"]["noise"] = 20;
    assessment["fp8"] = assessment["at_scale"]["fp8"] = assessment["at_one"]["fp8"] = "check";
    layer(j, 1)["key"]["verdict"] = "at_risk";
  });
  add("long contexts", {"K05"}, [](Json& j) { layer(j, 1)["value"]["growth"]["position"] = 0.51; });
  add("as long as may be", {}, [](Json& j) { layer(j, 1)["value"]["growth"]["position"] = 0.5; });
  add("not converged", {"K09"}, [](Json& j) {
    layer(j, 1)["value"]["growth"]["last_quarter"] = 0.9;
    layer(j, 1)["value"]["growth"]["converged"] = j["calibration"]["converged"] = false;
  });
  add("ruined", {"S16"}, [](Json& j) {
    Json& value = layer(j, 1)["value"];
    value["assessment"]["at_scale"]["rel"] = 0.9;
    value["assessment"]["fp8"] = value["assessment"]["at_scale"]["fp8"] = "keep16";
    value["verdict"] = "inadequate";
    layer(j, 1)["joint"]["value"] = layer(j, 1)["joint"]["verdict"] = "inadequate";
  });
  add("short prompts", {"S23"},
      [](Json& j) { j["quantization"]["max_model_len"] = 4 * j["calibration"]["longest"].get<int64_t>() + 4; });
  add("just long enough", {},
      [](Json& j) { j["quantization"]["max_model_len"] = 4 * j["calibration"]["longest"].get<int64_t>() + 3; });
  add("another target", {"S12"}, [](Json& j) {
    j["quantization"]["dtype"] = "fp8_e4m3fnuz";
    j["quantization"]["max"] = 240;
    for (Json& l : j["layers"]) {
      l["key"].erase("envelope");
      l["key"].erase("uses_envelope");
      for (const char* site : {"key", "value", "query"}) l[site]["scale"] = l[site]["absmax"].get<float>() / 224;
    }
    j.erase("kv_cache");
    j["kv_cache_left_out"] = "another format";
  });
  add("a layer far from the others", {"S24"}, [](Json& j) {
    Json& value = layer(j, 1)["value"];
    for (const char* key : {"absmax", "scale"}) value[key] = value[key].get<float>() / 64;
    for (const char* key : {"absmax_per_head", "absmax_by_position"})
      for (Json& x : value[key]) x = x.get<float>() / 64;
  });
  add_heads("scale of another head", {"R01"}, [](Json& j) {
    layer(j, 1)["value"]["scale_per_head"][0] = layer(j, 1)["value"]["scale_per_head"][0].get<double>() * 3;
  });
  add_heads("clipped head", {"S14"}, [](Json& j) {
    layer(j, 1)["value"]["scale_per_head"][0] = layer(j, 1)["value"]["scale_per_head"][0].get<double>() / 4;
  });
  add_heads("heads too many", {"S17"}, [](Json& j) { layer(j, 1)["query"]["scale_per_head"].push_back(0.1); });
  add_heads("no scales per head", {"R06"}, [](Json& j) { layer(j, 1)["query"].erase("scale_per_head"); });
  add_heads("head zero", {"S02"}, [](Json& j) { layer(j, 1)["query"]["scale_per_head"][2] = 0; });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  scale_cases(cases);
  structure_cases(cases);
  relation_cases(cases);
  return cases;
}

TEST(Validate, FindsNothingInWhatWeWrite) {
  const Statistics statistics = sound_statistics();
  for (const char* policy : {"absmax", "pow2", "percentile", "mse", "kl"})
    for (const char* format : {"fp8_e4m3", "fp8_e4m3fnuz", "int8"})
      for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
        const Artifact a = solved_artifact(statistics, solve_options(granularity, policy, format));
        const Report report = validate_artifact(artifact_text(a), shipped_schema());
        const bool clips = std::string_view(policy) != "absmax" && std::string_view(policy) != "pow2";
        EXPECT_TRUE(std::ranges::all_of(report.findings, [&](const Finding& f) { return clips && f.rule == "S16"; }))
            << policy << " " << format << "\n"
            << shown(report);
      }
}

TEST(Validate, GivesEachDamageItsRule) {
  const std::vector<Case> cases = all_cases();
  EXPECT_GE(cases.size(), 100u);
  for (const Case& c : cases) {
    const Report report = validate_artifact(text_of(c), shipped_schema());
    EXPECT_EQ(ids_of(report), c.expected) << c.name << "\n" << shown(report);
    for (const Finding& f : report.findings) EXPECT_GT(f.line, 0u) << c.name;
  }
}

TEST(Validate, CallsTextThatIsCutNoDocument) {
  const std::string text = artifact_text(solved_artifact(sound_statistics(), solve_options()));
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{2}, size_t{100}, text.size() / 3, text.size() / 2, text.size() - 3})
    EXPECT_EQ(ids_of(validate_artifact(text.substr(0, n), shipped_schema())), Ids{"A01"}) << n;
  for (const std::string other : {"scale = 1", "{} {}", "{\"a\": 1, \"a\": 2}", "\xff\xfe", "[[[["})
    EXPECT_EQ(ids_of(validate_artifact(other, shipped_schema())), Ids{"A01"}) << other;
}

Ids against(const std::function<void(ModelIdentity&, Json&)>& change) {
  ModelIdentity model = its_model();
  Json json = sound();
  change(model, json);
  return ids_of(validate_artifact(json.dump(), shipped_schema(), &model));
}

const std::vector<std::pair<Ids, std::function<void(ModelIdentity&, Json&)>>>& model_cases() {
  static const std::vector<std::pair<Ids, std::function<void(ModelIdentity&, Json&)>>> cases = {
      {{}, [](ModelIdentity&, Json&) {}},
      {{"M01"}, [](ModelIdentity& m, Json&) { m.config_sha256 = std::string(64, '1'); }},
      {{"M02"}, [](ModelIdentity& m, Json&) { m.weights_fingerprint = std::string(64, '1'); }},
      {{},
       [](ModelIdentity& m, Json& j) {
         m.weights_fingerprint = std::string(64, '1');
         j["model"]["also_valid_for"] = {std::string(64, '2'), std::string(64, '1')};
       }},
      {{"M03"}, [](ModelIdentity& m, Json&) { m.spec.architecture = "Other"; }},
      {{"M03"}, [](ModelIdentity& m, Json&) { m.spec.model_type = "other"; }},
      {{"M03"},
       [](ModelIdentity& m, Json&) {
         m.spec.layers.push_back({8, LayerKind::GatedDeltaNet});
       }},
      {{"M05"}, [](ModelIdentity& m, Json&) { m.tensor_prefix = "model."; }},
      {{"M05"}, [](ModelIdentity& m, Json&) { m.spec.caches[1].name = "layers.3.attention"; }},
      {{"M06"}, [](ModelIdentity& m, Json&) { m.spec.caches[1].n_kv_heads = 4; }},
      {{"M06"}, [](ModelIdentity& m, Json&) { m.spec.caches[1].n_heads = 8; }},
      {{"M06"}, [](ModelIdentity& m, Json&) { m.spec.caches[1].head_dim_v = 32; }},
      {{"M07"}, [](ModelIdentity&, Json& j) { j["layers_without_kv"][0]["kind"] = "mamba"; }},
      {{"S07"},
       [](ModelIdentity& m, Json&) {  // the model has a cache in layer 6 that the file has not
         m.spec.layers[6] = {6, LayerKind::Attention, 5};
         m.spec.caches.push_back(m.spec.caches[1]);
         m.spec.caches.back().layer = 6;
       }},
      {{"S07"},
       [](ModelIdentity& m, Json&) {  // and none in layer 7
         m.spec.layers[7] = {7, LayerKind::GatedDeltaNet};
         m.spec.caches.pop_back();
       }},
      {{"C08"},
       [](ModelIdentity& m, Json&) {  // layer 7 reads another layer's cache
         m.spec.layers[7].cache = -1;
         m.spec.caches.pop_back();
       }},
  };
  return cases;
}

TEST(Validate, ComparesWithTheModel) {
  size_t i = 0;
  for (const auto& [expected, change] : model_cases()) EXPECT_EQ(against(change), expected) << "case " << i++;
}

TEST(Validate, HasADamageForEveryRule) {
  // A01 above; C06, R12: validate_latent_test; K07, S18: _measured_; M04: _fold_; T01, T02, A07, A08: cli; rest:
  // _folder_
  Ids seen = {"A01", "A07", "A08", "C06", "K07", "M04", "R12", "S18", "S27", "S28", "T01", "T02", "V10"};
  for (const Case& c : all_cases()) seen.insert(c.expected.begin(), c.expected.end());
  for (const auto& [expected, change] : model_cases()) seen.insert(expected.begin(), expected.end());
  const auto elsewhere = [](const Rule& r) {  // validate_folder_test, validate_evaluation_test
    return r.needs.find("folder") != r.needs.npos || r.needs == "--server" || r.needs == "an evaluation";
  };
  for (const Rule& rule : rules()) EXPECT_TRUE(elsewhere(rule) || seen.contains(std::string(rule.id))) << rule.id;
}

TEST(Validate, CallsWhatItCouldNotLookAtNotEvaluated) {
  const Report alone = validate_artifact(sound().dump(), shipped_schema());
  EXPECT_EQ(alone.evaluated_rules().size() + alone.skipped_rules().size(), rules().size());
  Ids skipped, all = {"A07", "A08", "C06", "C08", "K07", "M01", "M02", "M03", "M04", "M05",
                      "M06", "M07", "S07", "S18", "S27", "S28", "T01", "T02", "V10"};
  for (const auto& [rule, reason] : alone.skipped_rules())
    if (reason.find("folder") == reason.npos && reason != "needs --server" && reason != "needs an evaluation")
      skipped.insert(rule);
  EXPECT_EQ(skipped, all);
  const size_t of_folders = alone.skipped_rules().size() - skipped.size();
  EXPECT_GT(of_folders, 20u);
  const ModelIdentity model = its_model();
  EXPECT_EQ(validate_artifact(sound().dump(), shipped_schema(), &model).skipped_rules().size(), of_folders + 8);
  EXPECT_EQ(validate_artifact("{", shipped_schema(), &model).evaluated_rules(), std::vector<std::string>{"A01"});
  Json few = sound();
  few["layers"][0]["key"]["scale"] = 0;
  for (const Report::Skipped& s : validate_artifact(few.dump(), shipped_schema()).skipped_rules())
    EXPECT_TRUE(s.rule != "R01" || s.reason == "because of an error above") << s.reason;
}

}  // namespace
}  // namespace kvcal
