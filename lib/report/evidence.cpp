// What a reviewer needs to check the page: the files that it shows, what they are of, and commands that make them
// again.
#include <algorithm>

#include "base/letter_case.h"
#include "base/number_text.h"
#include "base/sha256.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

std::string files_list(const std::vector<CarriedFile>& files) {
  std::string html = "<ul>\n";
  for (const CarriedFile& file : files)
    html += "<li>" + link_to(file) + ", " + grouped(static_cast<int64_t>(file.text.size())) + " bytes, SHA-256 <code>" +
            sha256_hex(file.text) + "</code></li>\n";
  return html + "</ul>\n";
}

std::string command(const std::string& text) {
  return text.empty() ? "" : "<p><code>" + escaped(text) + "</code></p>\n";
}

/// "" of what the verb did not measure: kvcal.torch and the recorder in servers.
std::string calibrate_command(const Artifact& a) {
  const ArtifactQuantization& q = a.quantization;
  if (a.calibration.isa.starts_with("torch") || a.calibration.isa == "recorded") return "";
  std::string text = "kvcal calibrate MODEL --prompts FILE --max-length " + std::to_string(a.calibration.max_length) +
                     " --passes " + std::to_string(a.calibration.passes) + " --precision " + a.calibration.precision +
                     " --dtype " + q.dtype + " --granularity " + std::string(name_of(q.granularity)) + " --policy " +
                     q.policy;
  const auto number = [&](const char* option, double value) {
    text += std::string(option) + " " + shortest_float(static_cast<float>(value));
  };
  if (q.headroom) number(" --headroom", *q.headroom);
  if (q.percentile) number(" --percentile", *q.percentile);
  if (q.limits.kl != AssessmentLimits{}.kl) number(" --limit-kl", q.limits.kl);
  if (q.limits.rel != AssessmentLimits{}.rel) number(" --limit-rel", q.limits.rel);
  if (q.max_model_len != a.model.max_positions) text += " --max-model-len " + std::to_string(q.max_model_len);
  if (!a.calibration.activation_quant.empty()) text += " --emulate-activation-quant";
  if (!a.mtp_layers.empty()) text += " --mtp";
  return text + " -o " + kCarriedScales;
}

/// Of a word that means nothing else to a shell, whoever wrote it.
bool is_word(std::string_view name) {
  return std::ranges::all_of(
      name, [](char c) { return is_letter_or_digit(c) || std::string_view("_:.@").find(c) != std::string_view::npos; });
}

/// Options whose variants the file has: a format's has its name, others have names of their own.
std::string variant_options(const SavedEvaluation& e) {
  std::string formats, states, flags;
  for (const SavedVariant& v : e.variants) {
    const auto also = [&](std::string& list, std::string_view name) {
      list.append(list.empty() ? "" : ",").append(name);
    };
    if (v.name == "floor" || v.name == "undivided")
      flags += " --" + v.name;
    else if (!is_word(v.name))
      continue;
    else if (v.name.starts_with("state_"))
      also(states, std::string_view(v.name).substr(6));
    else if (v.name != "reference" && v.name != "scale_1.0" && v.name != "swapped" && !v.name.starts_with("file"))
      also(formats, v.name);
  }
  return flags + (formats.empty() ? "" : " --formats " + formats) + (states.empty() ? "" : " --state-dtype " + states);
}

/// Of an evaluation that chose by its own formats; "" of one before 1.3, which does not have them.
std::string choose_options(const SavedRecipe& recipe) {
  if (recipe.formats.empty() || !std::ranges::all_of(recipe.formats, is_word)) return "";
  std::string formats;
  for (const std::string& name : recipe.formats) formats += (formats.empty() ? "" : ",") + name;
  std::string text = " --choose " + formats + " --max-kl " + shortest_float(static_cast<float>(recipe.max_kl));
  if (recipe.min_agreement) text += " --min-agreement " + shortest_float(static_cast<float>(*recipe.min_agreement));
  return text;
}

std::string evaluate_command(const SavedEvaluation& e, const std::string& sha256_of_scales) {
  std::string text = "kvcal evaluate MODEL --prompts FILE --precision " + e.precision, scales;
  for (const auto& [name, sha256] : e.files) {
    if (name == "statistics") text += " --stats FILE";
    if (!name.starts_with("file")) continue;
    scales += std::string(scales.empty() ? " --scales " : " ") + (sha256 == sha256_of_scales ? kCarriedScales : "FILE");
  }
  text += scales + variant_options(e);
  if (!e.attention.empty() && is_word(e.attention)) text += " --attention " + e.attention;
  if (!e.layers.empty()) text += " --per-layer";
  if (e.n_sampled_prompts) text += " --sample " + std::to_string(*e.n_sampled_prompts);
  if (!e.answers.empty()) text += " --generate";
  if (e.max_new_tokens > 0) text += " --max-new-tokens " + std::to_string(e.max_new_tokens);
  if (e.query) text += " --query";
  if (e.recipe) text += choose_options(*e.recipe);
  if (e.keep_recent > 0) text += " --keep-recent " + std::to_string(e.keep_recent);
  if (e.state_chunk != 1) text += " --state-chunk " + std::to_string(e.state_chunk);
  if (e.until_decided) text += " --until-decided " + shortest_float(static_cast<float>(*e.until_decided));
  return text + " -o " + kCarriedEvaluation;
}

std::string facts(const ReportInput& input) {
  const Artifact& a = input.artifact;
  const SavedEvaluation& e = *input.evaluation;
  std::string html = "<dl>\n";
  const auto fact = [&](const char* name, const std::string& text) {
    html += std::string("<dt>") + name + "</dt><dd>" + escaped(text) + "</dd>\n";
  };
  fact("weights", a.model.weights_fingerprint);
  fact("config", a.model.config_sha256);
  fact("measured", grouped(a.calibration.n_prompts) + " prompts, " + a.calibration.prompts_sha256 + ", by " +
                       a.calibration.tool_version + " on " + a.calibration.isa);
  fact("evaluated", grouped(e.n_prompts) + " prompts, " + e.prompts_sha256 + ", by " + e.tool_version + " on " + e.isa +
                        ", " + e.precision);
  return html + "</dl>\n";
}

}  // namespace

std::string evidence_section(const ReportInput& input) {
  if (input.carried.empty()) return "";
  return "<p>The page carries the files that it shows: these links save them.</p>\n" + files_list(input.carried) +
         facts(input) +
         "<p>This checks that both files are sound, of one model, of one another, and that the page shows what "
         "they say:</p>\n" +
         command("kvcal validate PAGE --model MODEL") +
         "<p>The same prompts give the same files again, on the same class of processor. Options that no file names "
         "must be given as they were: those of the chat template and of needles; of an evaluation before 1.3 also "
         "<code>--query</code>, <code>--choose</code> with its limits, <code>--max-new-tokens</code>.</p>\n" +
         command(calibrate_command(input.artifact)) +
         command(evaluate_command(*input.evaluation, sha256_hex(input.carried.front().text)));
}

}  // namespace kvcal
