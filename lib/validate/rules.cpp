#include <algorithm>
#include <array>

#include "base/error.h"
#include "validate/finding.h"

namespace kvcal {
namespace {

constexpr std::string_view kAgain = "calibrate or solve again; do not edit scale files by hand";
constexpr std::string_view kOwn = "use scales that were calibrated on this checkpoint";
constexpr std::string_view kModel = "--model";
constexpr std::string_view kFolder = "a checkpoint folder";
constexpr std::string_view kServer = "--server";
constexpr std::string_view kKeep = "keep this layer's cache in the model's dtype";
constexpr std::string_view kExport = "export the scales again with kvcal export";
constexpr std::string_view kCompare = "compare with what was measured: --scales or --stats";
using enum Severity;

constexpr std::array kRules = {
    Rule{"A01", Error, "not a complete JSON document", "copy the file again, or calibrate again", ""},
    Rule{"A02", Error, "does not satisfy the schema", kAgain, ""},
    Rule{"A03", Error, "a member that version 1.0 does not have", "remove it, or correct its name", ""},
    Rule{"A04", Error, "not a format or version that this program reads", "use a newer kvcal, or the right file", ""},
    Rule{"A05", Note, "a member of a later minor version, which is ignored", "use a newer kvcal to have it checked",
         ""},
    Rule{"A06", Error, "contradicts itself, so that the program cannot read it", kAgain, ""},
    Rule{"C01", Error, "the bias of keys alone is clipped at this scale",
         "calibrate; keep the cache in BF16 if in doubt", kFolder},
    Rule{"C02", Error, "a bias of keys above 100, which drowns the other channels whatever the scale", kKeep, kFolder},
    Rule{"C03", Warning, "a bias of keys above 30", "evaluate before use", kFolder},
    Rule{"C04", Note, "a hybrid: only its attention layers have a KV cache", "nothing; expect scales for those alone",
         kFolder},
    Rule{"C05", Error, "key and value of latent attention differ, which is one row with one scale",
         "write equal scales, measured on the whole row", kFolder},
    Rule{"C06", Error, "the measured width is not that of the whole latent row: one scale serves both of its parts",
         "measure the whole row: latent part and rope part", kModel},
    Rule{"C08", Error, "a layer that reads another layer's cache has scales that are not that layer's", kOwn, kModel},
    Rule{"C10", Note, "layers have heads of different widths", "check the backend that the server chooses", kFolder},
    Rule{"C11", Warning, "scales per head: only attention backends that take them will start",
         "FlashAttention 3, or strategy tensor", kFolder},
    Rule{"C12", Warning, "the declared KV scheme is not static FP8", "num_bits 8, type float, dynamic false", kFolder},
    Rule{"C13", Note, "block FP8 weights without input scales, as they should be", "nothing: activations are dynamic",
         kFolder},
    Rule{"C14", Error, "static activation scales are declared, but not there", "export the weights again", kFolder},
    Rule{"C15", Error, "scales in a file that the index does not name: servers pass over it",
         "add its tensors to model.safetensors.index.json", kFolder},
    Rule{"C16", Error, "the server does not take scales of this name for this class", kExport, kFolder},
    Rule{"C17", Warning, "kv_scale, one for key and value, is deprecated", "write k_scale and v_scale", kFolder},
    Rule{"C19", Note, "the model sees images or sound, the calibration saw none", "calibrate with such prompts",
         kFolder},
    Rule{"E01", Error, "the recorded damage contradicts the scale and the largest magnitude", kAgain, ""},
    Rule{"E02", Error, "the assessment contradicts the recorded damage and the limits", kAgain, ""},
    Rule{"E03", Error, "convergence contradicts the recorded growth", kAgain, ""},
    Rule{"F08", Warning, "no KV scales: with an FP8 cache servers use 1.0 in every layer, most without a word",
         "calibrate and export", kFolder},
    Rule{"K01", Error, "a site without observations", "more prompts; a layer that is never observed is a fault", ""},
    Rule{"K02", Note, "the first four positions set the scale (attention sinks)", "harmless in FP8", ""},
    Rule{"K03", Note, "FP8's ordinary rounding can be felt in this layer's attention", "check the model's answers", ""},
    Rule{"K05", Note, "magnitudes still grow at the longest positions", "calibrate with longer prompts", ""},
    Rule{"K06", Error, "a measured magnitude is not finite", "mend the model first: it is broken without FP8", ""},
    Rule{"K07", Warning,
         "keys look measured before their rotation: their largest values are then up to 1.41 times too small",
         "measure what the cache stores: keys after RoPE", "a statistics file"},
    Rule{"K08", Error, "the scale covers the heads of one tensor-parallel rank only",
         "take the largest of all ranks, or calibrate again", kFolder},
    Rule{"K09", Note, "the largest magnitudes had not settled when the prompts ran out", "more prompts", ""},
    Rule{"L01", Error, "a layer is there twice", kAgain, ""},
    Rule{"L02", Error, "layers are not in ascending order", kAgain, ""},
    Rule{"L03", Error, "layers are missing, or are not the model's", kAgain, ""},
    Rule{"L04", Error, "the number of layers with a cache is wrong", kAgain, ""},
    Rule{"L05", Error, "a layer's name does not have its prefix and index", kAgain, ""},
    Rule{"L06", Error, "a layer shares the cache of one that has none, or comes later", kAgain, ""},
    Rule{"M01", Error, "config.json is another one", kOwn, kModel},
    Rule{"M02", Error, "the weights are others", kOwn, kModel},
    Rule{"M03", Error, "the architecture, model type or number of layers is another", kOwn, kModel},
    Rule{"M05", Error, "a layer's module has another name in the checkpoint", kOwn, kModel},
    Rule{"M06", Error, "heads or widths of a layer are others", kOwn, kModel},
    Rule{"M07", Error, "a layer without a cache is of another kind, or shares another layer's", kOwn, kModel},
    Rule{"N01", Error, "a scale below the smallest normal float32", "calibrate again: engines flush it to zero", ""},
    Rule{"N02", Error, "a largest magnitude that is zero or negative", "more prompts; nothing was measured", ""},
    Rule{"R01", Error, "the scale is not what policy, headroom and measured range give", kAgain, ""},
    Rule{"R02", Error, "the largest magnitude is not that of the heads", kAgain, ""},
    Rule{"R03", Error, "the place of the largest magnitude does not have it", kAgain, ""},
    Rule{"R04", Error, "the magnitudes by position do not reach the largest one", kAgain, ""},
    Rule{"R05", Error, "not one largest magnitude per head", kAgain, ""},
    Rule{"R06", Error, "granularity and scales per head disagree", kAgain, ""},
    Rule{"R07", Error, "the maximum is not that of the number format", kAgain, ""},
    Rule{"R08", Error, "the joint scale is not the larger of key and value", kAgain, ""},
    Rule{"R09", Error, "the bound at any position is below what was measured", kAgain, ""},
    Rule{"R10", Error, "kv_cache does not have the joint scale of every layer, and 1.0 for the others", kAgain, ""},
    Rule{"R11", Error, "sites were not observed equally often", kAgain, ""},
    Rule{"R12", Error, "the widths of an MLA row contradict each other", kAgain, ""},
    Rule{"R13", Error, "the runs or counts of the calibration contradict each other", kAgain, ""},
    Rule{"S01", Error, "a scale that is not a finite float32", "calibrate again", ""},
    Rule{"S02", Error, "a scale that is zero or negative", "calibrate again; servers divide by it", ""},
    Rule{"S03", Error, "the smallest step of float32 as a scale: an observer saw only zeros", "calibrate again", ""},
    Rule{"S04", Warning, "a scale so small that only a measurement could tell that it is right", kCompare, kFolder},
    Rule{"S05", Warning, "a scale so large that only a measurement could tell that it is right", kCompare, kFolder},
    Rule{"S06", Error, "one of key and value has no scale", "calibrate again; a server would copy the other one", ""},
    Rule{"S07", Error, "not the layers that own a cache in this model", kOwn, kModel},
    Rule{"S08", Warning, "every scale is 1.0", "calibrate; or leave the scales out", ""},
    Rule{"S09", Error, "looks inverted: maximum / magnitude instead of magnitude / maximum", "write the inverse", ""},
    Rule{"S10", Error, "looks like the raw largest magnitude", "divide it by the format's maximum", ""},
    Rule{"S11", Note, "magnitude / scale is a constant of another convention", "convert the scales", ""},
    Rule{"S12", Error, "made for E4M3FN, but the target is E4M3FNUZ", "solve again with --dtype fp8_e4m3fnuz", ""},
    Rule{"S13", Error, "the scales of key and value look swapped", "swap them", ""},
    Rule{"S14", Error, "values that were measured are clipped", "raise the scale: in FP8 a factor of 2 is free", ""},
    Rule{"S15", Warning, "no headroom above the largest magnitude", "a headroom of 2 costs FP8 nothing", ""},
    Rule{"S16", Warning, "rounding at this scale ruins the layer's attention, or flushes much of what was measured",
         "keep this layer's cache in the model's dtype, or solve with --granularity head", ""},
    Rule{"S17", Error, "neither one scale nor one per head", kAgain, ""},
    Rule{"S18", Error, "scales per head, and their heads cannot be dealt to that many ranks",
         "another --tensor-parallel-size, or one scale per layer", "--tp"},
    Rule{"S19", Error, "fewer scales than KV heads: looks cut for tensor parallelism",
         "gather the ranks: servers cut themselves", kFolder},
    Rule{"S20", Error, "two names for the same scale, with different values", "keep one", kFolder},
    Rule{"S21", Error, "a scale in a dtype that holds it badly", "write F32", kFolder},
    Rule{"S23", Note, "calibrated on contexts shorter than a quarter of what the server may see",
         "add long prompts, or lower --max-model-len", ""},
    Rule{"S24", Warning, "a scale far from those of the other layers", "look at the layer; keep it in BF16 if in doubt",
         "at least four layers with a cache"},
    Rule{"S25", Note, "no scales for queries: servers with FP8 attention take 1.0",
         "only matters if |q| exceeds 448 or is tiny", kFolder},
    Rule{"T01", Error, "not a statistics file that the program can read", "copy the file again, or calibrate again",
         "a statistics file"},
    Rule{"T02", Error, "no scales can be solved from the statistics", "merge all shards, or calibrate again",
         "a statistics file"},
    Rule{"V01", Error, "the server does not start with this", kExport, kFolder},
    Rule{"V02", Warning, "no scale of a checkpoint reaches the cache of this class in this server",
         "the plug-in of apps/plugins hands it the scale file", kFolder},
    Rule{"V03", Note, "--kv-cache-dtype auto does not make the cache FP8 here",
         "serve with --kv-cache-dtype fp8 (SGLang: fp8_e4m3)", kFolder},
    Rule{"V04", Note, "the server holds the scale in the model's dtype, which is less than what was written",
         "write values that the dtype holds, rounded up", kFolder},
    Rule{"V05", Note, "this version was not verified", "read back the scales inside the server", kServer},
    Rule{"V06", Warning, "not the scale of the scale file", kExport, kFolder},
    Rule{"V07", Error, "the server applies this scale on one side only", "scale 1.0, or the model's dtype", kFolder},
    Rule{"V08", Warning, "the server does not read a scale file for this class",
         "export to the checkpoint, or the plug-in", kServer},
    Rule{"V09", Error, "nothing of the scale file is in the checkpoint", kExport, kFolder},
};

}  // namespace

std::string_view name_of(Severity severity) {
  return std::array{"note", "warning", "error"}[static_cast<size_t>(severity)];
}

std::span<const Rule> rules() { return kRules; }

const Rule& rule_named(std::string_view id) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.id == id; });
  if (found == kRules.end()) fail("no rule " + quoted(id));
  return *found;
}

void Report::evaluated(std::initializer_list<std::string_view> ids) {
  for (const std::string_view id : ids) evaluated_.push_back(rule_named(id).id);
}

void Report::add(std::string_view rule, std::string path, std::string what, std::string expected, std::string actual) {
  evaluated({rule});
  findings.push_back(
      {std::string(rule), std::move(path), std::move(what), std::move(expected), std::move(actual), 0, ""});
}

void Report::add(Finding finding) {
  evaluated({finding.rule});
  findings.push_back(std::move(finding));
}

void Report::merge(const Report& other, const std::string& file) {
  evaluated_.insert(evaluated_.end(), other.evaluated_.begin(), other.evaluated_.end());
  for (Finding finding : other.findings) {
    finding.file = file;
    findings.push_back(std::move(finding));
  }
}

void Report::not_evaluated(std::initializer_list<std::string_view> ids, const std::string& reason) {
  for (const std::string_view id : ids) reasons_.push_back({std::string(rule_named(id).id), reason});
}

std::vector<std::string> Report::evaluated_rules() const {
  std::vector<std::string> ids;
  for (const Rule& r : kRules)
    if (std::find(evaluated_.begin(), evaluated_.end(), r.id) != evaluated_.end()) ids.emplace_back(r.id);
  return ids;
}

std::vector<Report::Skipped> Report::skipped_rules() const {
  std::vector<Skipped> skipped;
  for (const Rule& r : kRules) {
    if (std::find(evaluated_.begin(), evaluated_.end(), r.id) != evaluated_.end()) continue;
    const auto given = std::find_if(reasons_.begin(), reasons_.end(), [&](const Skipped& s) { return s.rule == r.id; });
    std::string reason = r.needs.empty() ? "an error above comes first" : "needs " + std::string(r.needs);
    skipped.push_back({std::string(r.id), given != reasons_.end() ? given->reason : std::move(reason)});
  }
  return skipped;
}

bool Report::has_below(std::string_view path) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.path.starts_with(path); });
}

size_t Report::count(Severity severity) const {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [&](const Finding& f) { return rule_named(f.rule).severity == severity; }));
}

}  // namespace kvcal
