// What can be wrong with a scale file, a checkpoint or statistics, as data. An id means one thing, with one severity,
// wherever the program says it: validate reports all of them, doctor those that explain a server's trouble.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace kvcal {

/// A note is worth knowing and no finding. Fatal: the server does not start; only doctor can know.
enum class Severity : uint8_t { Note, Warning, Error, Fatal };
std::string_view name_of(Severity severity);  // "note", "warning", "error", "fatal"

struct Rule {
  std::string_view id;
  Severity severity;
  std::string_view meaning;  // what is wrong when it fires
  std::string_view fix;
  std::string_view needs;  // "": the file alone

  bool advises_export() const;
};

/// All rules, by id. S and K rules have the numbers of the catalog of known FP8-cache failures.
std::span<const Rule> rules();

namespace rule_table {

using enum Severity;
constexpr std::string_view kAgain = "calibrate or solve again; do not edit scale files by hand";
constexpr std::string_view kWhole = "make the file again; do not edit it by hand";
constexpr std::string_view kOwn = "use what was measured on this checkpoint";
constexpr std::string_view kModel = "--model";
constexpr std::string_view kAtOne = "a checkpoint with --stats";
constexpr std::string_view kFolder = "a checkpoint folder as FILE";
constexpr std::string_view kServer = "--server";
constexpr std::string_view kKeep = "keep this layer's cache in the model's dtype";
constexpr std::string_view kExport = "export the scales again with kvcal export";
constexpr std::string_view kExportFirst = "calibrate and export";
constexpr std::string_view kExportSolved = "export the scales of the statistics: kvcal solve, kvcal export";
constexpr std::string_view kEvaluation = "an evaluation";
constexpr std::string_view kPage = "a page of report --evidence";
constexpr std::string_view kEvaluate = "evaluate again; do not edit evaluations by hand";
constexpr std::string_view kCompare = "compare with what was measured: --scales or --stats";
inline constexpr std::array kRules = {
    Rule{"A01", Error, "not a complete JSON document", "copy the file again, or make it again", ""},
    Rule{"A02", Error, "does not satisfy the schema", kWhole, ""},
    Rule{"A03", Error, "a member that version 1.0 does not have", "remove it, or correct its name", ""},
    Rule{"A04", Error, "not a format or version that this program reads", "use a newer kvcal, or the right file", ""},
    Rule{"A05", Note, "a member of a later minor version, which is ignored", "use a newer kvcal to have it checked",
         ""},
    Rule{"A06", Error, "contradicts itself and cannot be read", kWhole, ""},
    Rule{"A07", Error, "not the pack that was packed, or one for another model",
         "get the pack again and check who signed it, or give the model that it is for", "a pack"},
    Rule{"A08", Error, "not the page that this version writes of the files that it carries",
         "check it with the version that wrote it, or trust its files alone", kPage},
    Rule{"C01", Error, "the key bias alone is clipped at this scale", "calibrate; keep the cache in BF16 if in doubt",
         kFolder},
    Rule{"C02", Error, "a key bias above 100, which drowns the other channels at any scale", kKeep, kFolder},
    Rule{"C03", Warning, "a key bias above 30", "kvcal evaluate MODEL --generate before use", kFolder},
    Rule{"C04", Note, "a hybrid: only its attention layers have a KV cache",
         "nothing; expect scales for those layers only", kFolder},
    Rule{"C05", Error, "key and value scales of latent attention differ, but they share one row and one scale",
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
    Rule{"C14", Error, "static activation scales are declared, but missing", "export the weights again", kFolder},
    Rule{"C15", Error, "scales in a file that the index does not name: servers ignore it",
         "add its tensors to model.safetensors.index.json", kFolder},
    Rule{"C16", Error, "the server does not take scales of this name for this class", kExport, kFolder},
    Rule{"C17", Warning, "kv_scale, one for key and value, is deprecated", "write k_scale and v_scale", kFolder},
    Rule{"C19", Note, "the model accepts images or sound, but the calibration had none",
         "calibrate with prompts that have them", kFolder},
    Rule{"C21", Error, "the list of layers' caches contradicts the scales, the cache's name or the other config",
         kExport, kFolder},
    Rule{"C23", Error, "ModelSlim's description of the cache, by which vLLM-Ascend goes, contradicts the tensors",
         "export the scales again with kvcal export --to vllm-ascend", kFolder},
    Rule{"C29", Warning, "the cache that is declared is made by neither vLLM nor SGLang",
         "calibrate and export scales of one format that the server has, FP8 or NVFP4", kFolder},
    Rule{"D01", Error, "the reference is not the first variant, or a name appears twice", kEvaluate, kEvaluation},
    Rule{"D02", Error, "figures of predictions contradict each other", kEvaluate, kEvaluation},
    Rule{"D03", Error, "counts of tokens, prompts or answers contradict each other", kEvaluate, kEvaluation},
    Rule{"D04", Error, "layers rounded alone are not in order, or not those of the model", kEvaluate, kEvaluation},
    Rule{"D05", Error, "the recipe contradicts the model's layers, the formats there are, or its limit", kEvaluate,
         kEvaluation},
    Rule{"D06", Error, "evaluated with other scales than these", "kvcal evaluate MODEL --scales FILE", kEvaluation},
    Rule{"D07", Warning, "the scale file beside it is not one that was evaluated", "kvcal evaluate MODEL --scales FILE",
         kEvaluation},
    Rule{"E01", Error, "the recorded damage contradicts the scale and the largest magnitude", kAgain, ""},
    Rule{"E02", Error, "the assessment contradicts the recorded damage and the limits", kAgain, ""},
    Rule{"E03", Error, "convergence contradicts the recorded growth", kAgain, ""},
    Rule{"F08", Warning, "no KV scales: with an FP8 cache servers use 1.0 in every layer, most without a warning",
         kExportFirst, kFolder},
    Rule{"K01", Error, "a site without observations", "use more prompts; a layer that is never observed is an error",
         ""},
    Rule{"K02", Note, "the first four positions set the scale (attention sinks)", "harmless in FP8", ""},
    Rule{"K05", Note, "magnitudes still grow at the longest positions", "calibrate with longer prompts", ""},
    Rule{"K06", Error, "a measured magnitude is not finite", "fix the model first: it fails without FP8, too", ""},
    Rule{"K07", Warning,
         "keys seem to have been measured before RoPE, where their absmax is up to 1.41 times too small",
         "measure what the cache stores: keys after RoPE", "a statistics file"},
    Rule{"K08", Error, "the scale covers the heads of one tensor-parallel rank only",
         "take the largest of all ranks, or calibrate again", kFolder},
    Rule{"K09", Note, "not converged: the largest magnitudes still grew with the last prompts", "use more prompts", ""},
    Rule{"L01", Error, "a layer appears twice", kAgain, ""},
    Rule{"L02", Error, "layers are not in ascending order", kAgain, ""},
    Rule{"L03", Error, "layers are missing, or the model does not have them", kAgain, ""},
    Rule{"L04", Error, "the number of layers with a cache is wrong", kAgain, ""},
    Rule{"L05", Error, "a layer's name does not match its prefix and index", kAgain, ""},
    Rule{"L06", Error, "a layer shares the cache of a layer that has none or comes later", kAgain, ""},
    Rule{"M01", Error, "config.json differs from the one calibrated", kOwn, kModel},
    Rule{"M02", Error, "the weights differ from those calibrated", kOwn, kModel},
    Rule{"M03", Error, "the architecture, model type or number of layers differs", kOwn, kModel},
    Rule{"M04", Error, "measured before powers of two were folded into the weights",
         "calibrate the folded folder; what was folded needs no scale", kModel},
    Rule{"M05", Error, "a layer's module has another name in the checkpoint", kOwn, kModel},
    Rule{"M06", Error, "the number or width of the heads of a layer differs", kOwn, kModel},
    Rule{"M07", Error, "a layer without a cache is of another kind, or shares another layer's", kOwn, kModel},
    Rule{"N01", Error, "a scale below the smallest normal float32", "calibrate again: engines flush it to zero", ""},
    Rule{"N02", Error, "a largest magnitude that is zero or negative", "use more prompts; nothing was measured", ""},
    Rule{"N03", Error, "a measured magnitude that is no bf16 number, as all that are measured are", kAgain, ""},
    Rule{"R01", Error, "the scale does not follow from policy, headroom and measured range", kAgain, ""},
    Rule{"R02", Error, "the largest magnitude is not the largest of the heads", kAgain, ""},
    Rule{"R03", Error, "the recorded place of the largest magnitude does not have that magnitude", kAgain, ""},
    Rule{"R04", Error, "no magnitude by position equals the largest one", kAgain, ""},
    Rule{"R05", Error, "the number of magnitudes per head is not the number of heads", kAgain, ""},
    Rule{"R06", Error, "granularity and scales per head or channel disagree", kAgain, ""},
    Rule{"R07", Error, "the maximum is not that of the number format", kAgain, ""},
    Rule{"R08", Error, "the joint scale is not the larger of key and value", kAgain, ""},
    Rule{"R09", Error, "the envelope is below what was measured", kAgain, ""},
    Rule{"R10", Error, "kv_cache does not have the joint scale of every layer, and 1.0 for the others", kAgain, ""},
    Rule{"R11", Error, "sites were not observed equally often", kAgain, ""},
    Rule{"R12", Error, "the widths of an MLA row contradict each other", kAgain, ""},
    Rule{"R13", Error, "the runs or counts of the calibration contradict each other", kAgain, ""},
    Rule{"R14", Error, "the reasons for which a scale departs from 1.0 do not fit it", kAgain, ""},
    Rule{"S01", Error, "a scale that is not a finite float32", "calibrate again", ""},
    Rule{"S02", Error, "a scale that is zero or negative", "calibrate again; servers divide by it", ""},
    Rule{"S03", Error, "the scale is the machine epsilon of float32: the observer saw only zeros", "calibrate again",
         ""},
    Rule{"S04", Warning, "an unusually small scale, which only a measurement can confirm", kCompare, kFolder},
    Rule{"S05", Warning, "an unusually large scale, which only a measurement can confirm", kCompare, kFolder},
    Rule{"S06", Error, "only one of key and value has a scale", "calibrate again; a server would copy the other one",
         ""},
    Rule{"S07", Error, "the layers with scales are not those that own a cache", kOwn, kModel},
    Rule{"S08", Warning, "every scale is 1.0", "calibrate, or leave the scales out", ""},
    Rule{"S09", Error, "looks inverted: maximum / magnitude instead of magnitude / maximum", "write the inverse", ""},
    Rule{"S10", Error, "looks like the raw largest magnitude", "divide it by the format's maximum", ""},
    Rule{"S11", Note, "magnitude / scale is a constant of another convention", "convert the scales", ""},
    Rule{"S12", Error, "made for E4M3FN, but the target is E4M3FNUZ", "solve again with --dtype fp8_e4m3fnuz", ""},
    Rule{"S13", Error, "the scales of key and value look swapped", "swap them", ""},
    Rule{"S14", Error, "measured values are clipped", "raise the scale: in FP8 a factor of 2 is free", ""},
    Rule{"S15", Warning, "no headroom above the largest magnitude", "a headroom of 2 costs FP8 nothing", ""},
    Rule{"S16", Warning, "rounding at this scale ruins the layer's attention, or flushes many measured values to zero",
         "keep this layer's cache in the model's dtype, or solve with --granularity head", ""},
    Rule{"S17", Error, "neither one scale nor one per head", kAgain, ""},
    Rule{"S18", Error, "per-head scales cannot be split over this many tensor-parallel ranks",
         "another --tensor-parallel-size, or one scale per layer", "--tp"},
    Rule{"S19", Error, "fewer scales than KV heads: they look already split for tensor parallelism",
         "join the scales of all ranks: servers split them", kFolder},
    Rule{"S20", Error, "two names for the same scale, with different values", "keep one", kFolder},
    Rule{"S21", Error, "a scale in a dtype that does not represent it well", "write F32", kFolder},
    Rule{"S23", Note, "calibrated on contexts shorter than a quarter of --max-model-len",
         "add long prompts, or lower --max-model-len", ""},
    Rule{"S24", Warning, "a scale far from those of the other layers", "look at the layer; keep it in BF16 if in doubt",
         "at least four layers with a cache"},
    Rule{"S25", Note, "no query scales: servers with FP8 attention use 1.0",
         "only matters if |q| exceeds 448 or is tiny", kFolder},
    Rule{"S26", Error, "a scale that no 16-bit value needs", kCompare, kFolder},
    Rule{"S27", Note, "1.0 is safe here: no scale made for these layers would be clearly better",
         "nothing: these layers need no scales", kAtOne},
    Rule{"S28", Error, "1.0 is clearly worse for the layer's attention than a scale made for it", kExportSolved,
         kAtOne},
    Rule{"T01", Error, "not a readable statistics file", "copy the file again, or calibrate again",
         "a statistics file"},
    Rule{"T02", Error, "no scales can be solved from the statistics", "merge all shards, or calibrate again",
         "a statistics file"},
    Rule{"V01", Error, "the server does not start with this", kExport, kFolder},
    Rule{"V02", Warning, "a checkpoint's scales are not loaded for this class, or not used as they are meant",
         "use the plug-in that comes with kvcal, which loads the scale file, or kvcal fold on the model without scales",
         kFolder},
    Rule{"V03", Note, "--kv-cache-dtype auto does not make the cache FP8 here",
         "serve with --kv-cache-dtype fp8 (SGLang: fp8_e4m3)", kFolder},
    Rule{"V04", Note, "the server rounds the scale down to the model's dtype", "write values rounded up to that dtype",
         kFolder},
    Rule{"V05", Note, "this server version was not verified", "check the scales inside the server", kServer},
    Rule{"V06", Warning, "differs from the scale file", kExport, kFolder},
    Rule{"V07", Error, "the server applies this scale only on writing or only on reading",
         "scale 1.0, or the model's dtype", kFolder},
    Rule{"V08", Warning, "the server does not read a scale file for this class",
         "export into the checkpoint, use the plug-in, or kvcal fold", kServer},
    Rule{"V09", Error, "the checkpoint has no scale of the scale file", kExport, kFolder},
    Rule{"V10", Note, "no scales of the MTP layer: a server that drafts tokens with it uses 1.0 there",
         "calibrate with --mtp and export again; nothing where no server drafts", kModel},
    Rule{"V11", Error, "the server stops at this where it drafts tokens with the MTP layer", kExport, kFolder},
    Rule{"X01", Error, "the record of a fold cannot be read", "copy the folder again, or fold the original again",
         kFolder},
    Rule{"X02", Error, "the record of a fold does not fit the weights",
         "fold the original again; the record belongs to the weights beside it alone", kFolder},
    Rule{"X03", Note, "powers of two are folded into the weights",
         "nothing; scales and adapters must be made for this folder", kFolder},
};

}  // namespace rule_table

inline bool Rule::advises_export() const {
  return fix == rule_table::kExport || fix == rule_table::kExportFirst || fix == rule_table::kExportSolved;
}

/// Throws Error for an id that is not in the table; in a constant expression, that does not compile.
constexpr const Rule& rule_named(std::string_view id) {
  const auto found = std::ranges::find(rule_table::kRules, id, &Rule::id);
  if (found == rule_table::kRules.end()) fail("no rule " + quoted(id));
  return *found;
}

}  // namespace kvcal
