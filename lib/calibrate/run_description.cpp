#include "calibrate/run_description.h"

#include <span>

#include "base/checksum.h"
#include "checkpoint/config_file.h"
#include "checkpoint/quantization.h"
#include "solve/sampled_damage.h"

namespace kvcal {
namespace {

PromptTags tags_of(const SequencePlan& plan) {
  PromptTags tags;
  for (size_t i = 0; i < plan.prompts.size(); ++i)
    for (const std::string& tag : plan.prompts[i].tags) tags[tag].push_back(i);
  return tags;
}

uint64_t sum_of_kinds(const SequencePlan& plan) {
  Checksum sum;
  for (const std::vector<uint8_t>& kinds : kinds_of(plan)) sum.update(std::as_bytes(std::span(kinds)));
  return sum.value();
}

}  // namespace

std::vector<std::string> ids_of(const SequencePlan& plan) {
  std::vector<std::string> ids;
  for (const PromptTokens& p : plan.prompts) ids.push_back(p.id);
  return ids;
}

std::vector<std::vector<uint8_t>> kinds_of(const SequencePlan& plan) {
  std::vector<std::vector<uint8_t>> kinds;
  for (const PromptTokens& p : plan.prompts) {
    if (p.kinds.size() != p.ids.size()) return {};
    kinds.push_back(p.kinds);
  }
  return kinds;
}

RunRecord record_of(const DescribedRun& run, const SequencePlan& plan, int n_passes, const SanityCheck& sanity) {
  const auto& [model, sources, options, isa] = run;
  RunRecord record;
  record.model = describe(model);
  CalibrationInfo& calibration = record.calibration.emplace();
  calibration.prompts_sha256 = sources.prompts_sha256;
  calibration.plan_sha256 = plan.sha256;
  calibration.n_prompts = static_cast<int64_t>(plan.prompts.size());
  calibration.n_tokens = plan.n_tokens_of_all;
  calibration.longest = plan.longest_of_all;
  calibration.max_length = options.sequences.max_length;
  calibration.passes = n_passes;
  if (!model.spec().placeholders.empty()) calibration.encoder_tokens = plan.n_encoder_tokens_of_all;
  calibration.precision = options.precision == Precision::BF16 ? "bf16" : "f32";
  calibration.isa = isa;
  calibration.activation_quant = sources.activation_quant;
  calibration.tool_version = options.tool_version;
  check_digests(calibration);
  record.layers_without_kv = layers_without_kv(model.spec());
  if (sanity.n_tokens() > 0) record.sanity = {sanity.mean_nll(), sanity.uniform_nll(), sanity.n_tokens()};
  record.plan_sha256 = plan.sha256;
  record.tokenizer_sha256 = sources.tokenizer_sha256;
  if (const SequenceOptions& s = options.sequences; s.n_shards > 1) record.shard = {s.shard + 1, s.n_shards};
  record.n_passes = n_passes;
  record.prompt_ids = ids_of(plan);
  record.tags = tags_of(plan);
  return record;
}

Json identity_of(const RunRecord& record, const Checkpoint& checkpoint, const SequencePlan& plan,
                 const CalibrationOptions& options) {
  const SequenceOptions& s = options.sequences;
  const SampleOptions sample = sample_options(options.solve);
  return {{"model", to_json(*record.model)},
          {"quantization", config_sha256(find_quantization(checkpoint.config(), checkpoint.folder()))},
          {"calibration", to_json(*record.calibration)},
          {"token_kinds", std::to_string(sum_of_kinds(plan))},
          {"tags", record.tags},
          {"commit", options.commit},
          {"sanity", s.sanity},
          {"warmup_passes", s.warmup_passes},
          {"shard", s.shard},
          {"n_shards", s.n_shards},
          {"sampled", {static_cast<int>(sample.format), sample.rungs_below}}};
}

}  // namespace kvcal
