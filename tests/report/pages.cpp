// pages FOLDER: writes reports of made-up models into it, for layout.py to look at.
#include <filesystem>
#include <fstream>

#include "report/report.h"
#include "unit/evaluation_fixture.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

void write(const std::filesystem::path& path, const ReportInput& input) {
  std::ofstream(path, std::ios::binary) << report_html(input);
}

/// Thirty layers of a small model, as a run over eight prompts leaves them.
Statistics ordinary_layers(int n_layers) {
  SyntheticRun run = ordinary_run();
  run.layout.n_heads = 16;
  run.layout.n_kv_heads = 4;
  return synthetic_layers(n_layers, run);
}

/// Both answers, each in every combination, and ranges that had not settled.
void spoil(Artifact& artifact) {
  for (ArtifactLayer& layer : artifact.layers) {
    const auto worse = [&](ArtifactSite& site, int i) {
      Assessment& a = site.assessment;
      a.scale = i % 2 == 0 ? ScaleNeed::Needed : ScaleNeed::Any;
      a.fp8 = i % 3 == 2 ? Fitness::Keep16 : Fitness::Fine;
      a.at_scale.kl = a.at_scale.severity = 0.01 * (1 + i);
      a.at_scale.by = Basis::Attention;
      a.at_scale.decided_by = Figure::Kl;
      site.growth.depends_on = {.on = "a-prompt-with-a-name-of-some-length-" + std::to_string(i), .ratio = 3};
      site.growth.converged = false;
    };
    worse(layer.key, layer.index);
    worse(layer.value, layer.index / 2);
    worse(layer.query, layer.index / 3);
  }
}

/// Eight prompts whose answers differ, at some length.
SavedEvaluation evaluation_of(int n_layers) {
  std::vector<int> layers;
  for (int layer = 0; layer < n_layers; ++layer) layers.push_back(layer);
  Json json = sound_evaluation(evaluated_model(), layers);
  const Json one = json["answers"][0];
  for (int i = 0; i < 8; ++i) {
    json["answers"].push_back(one);
    json["answers"].back()["prompt"] = "prompt-" + std::to_string(i);
    json["answers"].back()["others"]["file"]["text"] = std::string(200, 'w') + " " + std::to_string(i);
  }
  return evaluation_from_json(json);
}

void write_pages(const std::filesystem::path& folder) {
  const Statistics thirty = ordinary_layers(30), ninety = ordinary_layers(90), row = synthetic_statistics(latent_run());
  const Artifact fine = solved_artifact(thirty), latent = solved_artifact(row);
  ReportInput input = {fine, &thirty, "run.kvstats", "kvcal test"};
  write(folder / "fine.html", input);
  const SavedEvaluation evaluation = evaluation_of(30);
  input.evaluation = &evaluation;
  input.evaluated_as = "file";
  write(folder / "evaluated.html", input);
  Artifact spoiled = solved_artifact(ninety);
  spoil(spoiled);
  write(folder / "problems.html", {spoiled, &ninety, "run.kvstats", "kvcal test"});
  write(folder / "latent.html", {latent, &row, "run.kvstats", "kvcal test"});
}

}  // namespace
}  // namespace kvcal

int main(int, char** argv) { kvcal::write_pages(argv[1]); }
