// What the figures mean, first of all: the worst verdict, what to do, and the layers that need something.
#include <algorithm>
#include <map>

#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

struct Count {
  std::map<Verdict, int> sites;  // what the cache keeps: keys, values, latent rows
  std::map<Verdict, std::string> layers;
  std::string unsettled;
  int n_sites = 0;
};

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

Count count(const Artifact& artifact) {
  Count c;
  for (const ArtifactLayer& layer : artifact.layers) {
    std::map<Verdict, bool> here;
    for (const NamedSite& site : cached_sites(layer)) {
      ++c.n_sites;
      ++c.sites[site.site->verdict()];
      here[site.site->verdict()] = true;
    }
    for (const auto& entry : here) append(c.layers[entry.first], std::to_string(layer.index));
    const std::vector<NamedSite> all = sites_of(layer);
    if (std::ranges::any_of(all, [](const NamedSite& s) { return !s.site->growth.converged; }))
      append(c.unsettled, std::to_string(layer.index));
  }
  return c;
}

Verdict worst(const Count& c) { return c.sites.empty() ? Verdict::Neutral : c.sites.rbegin()->first; }

std::string meaning(Verdict verdict, const std::string& dtype) {
  switch (verdict) {
    case Verdict::Neutral:
      return "A cache in " + dtype + " is as good with scale 1.0 as with these scales. Use it with either.";
    case Verdict::AtRisk:
      return "Nothing is lost, but ordinary rounding is large for the sharp attention of some layers. Check the "
             "model's answers.";
    case Verdict::Needed:
      return "At scale 1.0 some layers would be clipped or flushed; with these scales they are not. A server must load "
             "them.";
    case Verdict::Inadequate:
      return "In some layers even these scales lose values or let one channel drown the others. Keep those layers in "
             "the model's dtype.";
  }
  return "";
}

std::string items_for(const Count& c, const Artifact& artifact) {
  std::string items;
  const auto add = [&](const std::string& text) { items += "<li>" + text + "</li>\n"; };
  const auto layers = [&](Verdict v) { return c.layers.contains(v) ? c.layers.at(v) : ""; };
  if (const std::string list = layers(Verdict::Inadequate); !list.empty())
    add("Keep layer(s) " + list + " in the model's dtype, with vLLM by <code>--kv-cache-dtype-skip-layers</code>" +
        (artifact.quantization.headroom ? "."
                                        : "; or solve again with <code>--policy absmax</code>, which clips nothing."));
  if (const std::string list = layers(Verdict::Needed); !list.empty())
    add("Make sure that the server loads the scales of layer(s) " + list +
        ": a server that does not find them uses 1.0, mostly without a word.");
  if (const std::string list = layers(Verdict::AtRisk); !list.empty())
    add("Compare the model's answers with and without an FP8 cache: layer(s) " + list + ".");
  if (!c.unsettled.empty())
    add("Measure more, or more varied, prompts: the largest magnitudes of layer(s) " + c.unsettled +
        " still grew at the end, depend on one prompt, or there was nothing to compare (<a "
        "href=\"#growth\">growth</a>).");
  if (artifact.kv_cache.empty() && !artifact.kv_cache_left_out.empty())
    add("Servers that read one scale per layer cannot use this file: " + escaped(artifact.kv_cache_left_out) + ".");
  if (items.empty()) add("Nothing: the scales do no harm, and nothing is lost without them.");
  return items;
}

std::string counts_text(const Count& c) {
  std::string text;
  for (auto it = c.sites.rbegin(); it != c.sites.rend(); ++it)
    text += (text.empty() ? "" : ", ") + verdict_badge(it->first) + " " + std::to_string(it->second);
  return text;
}

// "0-2, 4-6"
std::string ranges(const std::vector<int64_t>& indexes) {
  std::string text;
  for (size_t i = 0; i < indexes.size();) {
    size_t end = i;
    while (end + 1 < indexes.size() && indexes[end + 1] == indexes[end] + 1) ++end;
    append(text, std::to_string(indexes[i]) + (end > i ? "-" + std::to_string(indexes[end]) : ""));
    i = end + 1;
  }
  return text;
}

std::string layers_without_cache(const Artifact& artifact) {
  std::map<std::string, std::vector<int64_t>> kinds;
  if (artifact.layers_without_kv.is_array())
    for (const Json& layer : artifact.layers_without_kv) {
      std::string kind = get_string_or(layer, "kind", "layer");
      if (find_member(layer, "shares_kv_with")) kind += ", reading an earlier layer's cache";
      kinds[kind].push_back(get_int(layer, "index"));
    }
  if (kinds.empty()) return "";
  std::string text;
  for (auto& [kind, indexes] : kinds) {
    std::sort(indexes.begin(), indexes.end());
    text += (text.empty() ? "" : "; ") + escaped(kind) + ": layer(s) " + ranges(indexes);
  }
  return "<p>Without a KV cache of their own, and so without scales: " + text + ".</p>\n";
}

}  // namespace

std::string summary_section(const ReportInput& input) {
  const Artifact& a = input.artifact;
  const Count c = count(a);
  const Verdict verdict = worst(c);
  return "<div class=\"verdict " + std::string(name_of(verdict)) + "\"><p>" + verdict_badge(verdict) + "</p><p>" +
         escaped(meaning(verdict, a.quantization.dtype)) + "</p></div>\n<h3>What to do</h3>\n<ul class=\"do\">\n" +
         items_for(c, a) + "</ul>\n<p>" + std::to_string(a.layers.size()) + " layers with a KV cache, " +
         std::to_string(c.n_sites) + " sites in them: " + counts_text(c) + ".</p>\n" + layers_without_cache(a) +
         (input.statistics ? ""
                           : "<p class=\"help\">Made from a scale file alone. The statistics behind it "
                             "(<code>calibrate --stats</code>) "
                             "add histograms, growth over prompts and outlier channels.</p>\n");
}

}  // namespace kvcal
