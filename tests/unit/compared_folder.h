// A folder whose scales are compared with what was measured.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include "check/folder_checks.h"
#include "unit/finding_examples.h"
#include "unit/scale_folder.h"
#include "unit/solved_artifact.h"
#include "unit/validate_fixture.h"
#include "unit/validate_folder_cases.h"

namespace kvcal {

inline Ids ids_of(const Report& report) {
  keep_examples(report);
  Ids ids;
  for (const Finding& f : report.findings) ids.insert(f.rule);
  return ids;
}

inline std::string shown(const Report& report) {
  std::string out;
  for (const Finding& f : report.findings)
    out += f.rule + " " + f.path + ": " + f.what + " is " + f.actual + ", expected " + f.expected + "\n";
  return out;
}

/// Scales of a folder with the layers of the synthetic statistics: those of the artifact, changed.
struct Compared {
  TempFolder folder;
  Statistics statistics = sound_statistics();
  Artifact artifact = solved_artifact(statistics, solve_options());
  ModelSpec spec;
  StoredScales stored;

  Compared() {
    llm_compressor_folder().write(folder);
    for (const CacheStatistics& c : statistics.caches) spec.caches.push_back(c.layout);
    for (const ArtifactLayer& l : artifact.layers)
      for (const auto& [site, name, scale] : {std::tuple{KvScaleName::Site::Key, "k", l.key.scale},
                                              std::tuple{KvScaleName::Site::Value, "v", l.value.scale}}) {
        StoredScale s;
        s.tensor = l.name + "." + name + "_scale";
        s.attention = l.name;
        s.owner = StoredScale::Owner::Cache;
        s.site = site;
        s.cache = layer_index(l);
        s.values = {scale};
        s.shape = Shape{1};
        stored.tensors.push_back(s);
      }
  }

  int layer_index(const ArtifactLayer& l) const {
    for (const KvLayout& c : spec.caches)
      if (c.layer == l.index) return c.cache;
    return -1;
  }

  Report against(bool with_statistics, const std::function<void(float&, float&)>& change) {
    change(stored.tensors[2].values[0], stored.tensors[3].values[0]);
    const Checkpoint checkpoint = Checkpoint::open(folder / "model");
    const FolderUnderTest f{checkpoint, spec, stored, {}};
    Reference r{artifact, std::nullopt};
    if (with_statistics) r.statistics = statistics;
    Report report;
    check_against(f, r, report);
    return report;
  }
};

}  // namespace kvcal
