// What the figures mean, first of all: the two answers for the whole model, and what to do by layer.
#include <algorithm>
#include <map>

#include "artifact/delivery.h"
#include "base/number_text.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

using Layers = std::vector<int64_t>;

/// What the cache keeps: keys, values, latent rows. Queries keep no layer out of FP8.
struct Answers {
  std::map<ScaleNeed, int> scale;  // sites
  std::map<Fitness, int> fp8;
  std::map<Fitness, Layers> layers;  // by their worst site; a layer to keep in 16 bits needs nothing else
  Layers needed, nothing, unsettled;
  int n_sites = 0;
  bool keep16_is_fine_at_one = true;
  ScaleNeed worst_scale() const { return scale.empty() ? ScaleNeed::Any : scale.rbegin()->first; }
  Fitness worst_fp8() const { return fp8.empty() ? Fitness::Fine : fp8.rbegin()->first; }
};

void count_layer(const ArtifactLayer& layer, Answers& c) {
  Fitness worst = Fitness::Fine;
  bool needed = false;
  for (const NamedSite& site : cached_sites(layer)) {
    const Assessment& a = site.site->assessment;
    ++c.n_sites;
    ++c.scale[a.scale];
    ++c.fp8[a.fp8];
    worst = std::max(worst, a.fp8);
    needed = needed || a.scale == ScaleNeed::Needed;
    if (a.fp8 == Fitness::Keep16) c.keep16_is_fine_at_one &= a.at_one.fitness == Fitness::Fine;
  }
  c.layers[worst].push_back(layer.index);
  needed = needed && worst != Fitness::Keep16;
  if (needed) c.needed.push_back(layer.index);
  if (!needed && worst == Fitness::Fine) c.nothing.push_back(layer.index);
  if (std::ranges::any_of(sites_of(layer), [](const NamedSite& s) { return !s.site->growth.converged; }))
    c.unsettled.push_back(layer.index);
}

std::string scales_meaning(const Answers& c) {
  if (c.worst_scale() == ScaleNeed::Any) return "At scale 1.0 no layer is clearly worse.";
  return c.needed.empty()
             ? "At scale 1.0 some layers are clearly worse, all of them among those to leave in the model's dtype."
             : "At scale 1.0 some layers are clearly worse: the server must load these scales.";
}

/// `all`: of no layer it is fine.
std::string meaning(Fitness fp8, bool all) {
  if (fp8 == Fitness::Fine) return "At these scales rounding ruins the attention of no layer.";
  return all ? "At these scales rounding ruins the attention of every layer: leave the cache in the model's dtype."
             : "At these scales rounding ruins the attention of some layers. Keep those in the model's dtype.";
}

std::string keep16_item(const Answers& c, const Artifact& artifact) {
  std::string item = keeps_whole_cache(artifact)
                         ? "Leave the whole cache in the model's dtype: rounding ruins every layer that has one."
                         : "Keep layer(s) " + ranges_text(c.layers.at(Fitness::Keep16)) +
                               " in the model's dtype, with vLLM by <code>--kv-cache-dtype-skip-layers</code>.";
  if (c.keep16_is_fine_at_one)
    item +=
        " Or leave these scales out, or solve again with <code>--policy percentile</code>: these "
        "scales ruin the layers, but 1.0 does not.";
  else if (!artifact.quantization.headroom)  // such policies clip what absmax keeps
    item += " Or solve again with <code>--policy absmax</code>, which clips nothing.";
  return item;
}

/// By its worst site.
std::string mtp_item(const ArtifactLayer& layer) {
  ScaleNeed scale = ScaleNeed::Any;
  Fitness fp8 = Fitness::Fine;
  for (const NamedSite& site : cached_sites(layer)) {
    scale = std::max(scale, site.site->assessment.scale);
    fp8 = std::max(fp8, site.site->assessment.fp8);
  }
  return "MTP layer: " + badge(scale) + " " + badge(fp8) +
         " The model verifies what a server drafts with it: its cache decides how many drafts are right, never what "
         "the model answers." +
         (scale == ScaleNeed::Needed ? " Where the server drafts, make sure that it loads these scales, too." : "");
}

std::string items_for(const Answers& c, const ReportInput& input) {
  const Artifact& artifact = input.artifact;
  std::string items;
  const auto add = [&](const std::string& text) { items += text.empty() ? "" : "<li>" + text + "</li>\n"; };
  const std::string without = measured_without_scales(input);
  if (c.layers.contains(Fitness::Keep16)) add(badge(Fitness::Keep16) + " " + keep16_item(c, artifact));
  if (const std::string delivery = delivery_text(artifact); !delivery.empty()) add("Scales: " + escaped(delivery));
  if (!c.needed.empty())
    add(badge(ScaleNeed::Needed) + " Make sure that the server loads the scales of layer(s) " + ranges_text(c.needed) +
        ", which <code>kvcal export</code> writes for it: a server that does not find them uses 1.0, mostly without a "
        "warning. " +
        without);
  else
    add(without);
  add(answers_item(input, most_changed_layers(artifact)));
  // A recipe is about all layers, and may keep some of which attention alone asks for nothing.
  if (const std::string recipe = recipe_item(input); !recipe.empty())
    add(recipe);
  else if (!c.nothing.empty())
    add("Nothing for layer(s) " + ranges_text(c.nothing) + ": fine, and no worse at scale 1.0.");
  if (!c.unsettled.empty())
    add("Use more, or more varied, prompts: the largest magnitudes of layer(s) " + ranges_text(c.unsettled) +
        " still grew at the end, depend on one prompt, or there was nothing to compare (<a "
        "href=\"#growth\">growth</a>).");
  for (const ArtifactLayer& layer : artifact.mtp_layers) add(mtp_item(layer));
  if (artifact.kv_cache.empty() && !artifact.kv_cache_left_out.empty())
    add("Servers that read one scale per layer cannot use this file: " + escaped(artifact.kv_cache_left_out) + ".");
  return items;
}

template <class Answer>
std::string counts_text(const std::map<Answer, int>& sites) {
  std::string text;
  for (auto it = sites.rbegin(); it != sites.rend(); ++it)
    text += (text.empty() ? "" : ", ") + badge(it->first) + " " + std::to_string(it->second);
  return text;
}

/// The box, with the color of the more urgent answer. What keeps layers out of the format comes first.
std::string answers_box(const Answers& c, const Artifact& artifact) {
  const std::string& dtype = artifact.quantization.dtype;
  const Fitness fp8 = c.worst_fp8();
  const ScaleNeed scale = c.worst_scale();
  const auto line = [](const std::string& question, const std::string& answer, const std::string& means) {
    return "<p><strong>" + escaped(question) + "</strong> <span class=\"big\">" + answer + "</span><br/>" +
           escaped(means) + "</p>";
  };
  const std::string matters = line("Do the scales matter?", badge(scale), scales_meaning(c)),
                    fine = line("Is " + dtype + " fine for this cache?", badge(fp8),
                                meaning(fp8, keeps_whole_cache(artifact)));
  return "<div class=\"answers " + std::string(urgent_name(scale, fp8)) + "\">" +
         (fp8 == Fitness::Keep16 ? fine + matters : matters + fine) + "</div>\n";
}

std::string layers_without_cache(const Artifact& artifact) {
  std::map<std::string, Layers> kinds;
  for (const LayerInfo& layer : artifact.layers_without_kv)
    kinds[layer.kind + (layer.shares_kv_with ? ", reading an earlier layer's cache" : "")].push_back(layer.index);
  if (kinds.empty()) return "";
  std::string text;
  for (auto& [kind, indexes] : kinds) {
    std::sort(indexes.begin(), indexes.end());
    text += (text.empty() ? "" : "; ") + escaped(kind) + ": layer(s) " + ranges_text(indexes);
  }
  return "<p>Without a KV cache of their own, and so without scales: " + text + ".</p>\n";
}

Answers answers_of(const Artifact& artifact) {
  Answers c;
  for (const ArtifactLayer& layer : artifact.layers) count_layer(layer, c);
  return c;
}

}  // namespace

std::vector<std::string> answer_sentences(const Artifact& artifact) {
  const Answers c = answers_of(artifact);
  const auto layers = [](const Layers& indexes) {
    return indexes.empty() ? "" : " Layer(s) " + ranges_text(indexes) + ".";
  };
  const auto keep16 = c.layers.find(Fitness::Keep16);
  const bool keeps = keep16 != c.layers.end(), all = keeps_whole_cache(artifact);
  std::vector<std::string> sentences = {scales_meaning(c) + layers(c.needed),
                                        meaning(c.worst_fp8(), all) + (keeps && !all ? layers(keep16->second) : "")};
  if (keeps) std::ranges::reverse(sentences);  // what keeps layers out of the format comes first
  return sentences;
}

std::string summary_section(const ReportInput& input) {
  const Artifact& a = input.artifact;
  const Answers c = answers_of(a);
  return "<div class=\"summary\">\n<div>\n" + answers_box(c, a) + "<h3>What to do</h3>\n<ul class=\"do\">\n" +
         items_for(c, input) + "</ul>\n</div>\n" + evaluation_box(input) + "</div>\n<h3>" +
         std::to_string(a.layers.size()) + " layers with a KV cache</h3>\n" + layer_map(input) + "<p>" +
         std::to_string(c.n_sites) + " sites in them. Scale: " + counts_text(c.scale) + ". " + kind_of_format(a) +
         ": " + counts_text(c.fp8) +
         ". The words are explained below the <a href=\"#layers\">table of layers</a>.</p>\n" +
         layers_without_cache(a) +
         (input.statistics ? ""
                           : "<p class=\"help\">Made from a scale file only. The statistics behind it "
                             "(<code>calibrate --stats</code>) "
                             "add histograms, curves of growth, other formats and outlier channels.</p>\n");
}

}  // namespace kvcal
