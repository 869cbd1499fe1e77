#include "launch_plan.h"

#include <algorithm>
#include <cmath>

#include "calibrate/calibrate.h"

namespace kvcal {
namespace {

/// A quarter of what a thread reaches with AVX-512 BF16 (tests/bench/NOTES.md): processors without it are slower.
constexpr double kOperationsPerSecond = 50e9;

/// A shared file system that other jobs use too.
constexpr double kBytesPerSecond = 0.5e9;

constexpr uint64_t kNoLimit = uint64_t{1} << 50;

/// Of the products of one token. Of experts twice the share that a token meets, for what all tokens meet.
double operations_per_token(const ModelSpec& spec) {
  double operations = 0;
  for (const LayerSpec& layer : spec.layers)
    if (layer.index <= spec.last_counted_layer())
      operations += 2.0 * static_cast<double>(layer.parameters) *
                    (layer.expert_share < 1 ? std::min(1.0, 2 * layer.expert_share) : 1.0);
  return operations;
}

/// The plan of a calibration hears of its model.
class PlanListener final : public CalibrationListener {
 public:
  explicit PlanListener(NoticeListener& listener) : listener_(listener) {}
  void hear(Notice notice, const std::string& text) override { listener_.hear(notice, text); }
  void planned(const CalibrationPlan&, const ModelSpec& spec) override {
    operations_per_token_ = operations_per_token(spec);
  }
  double operations() const { return operations_per_token_; }

 private:
  NoticeListener& listener_;
  double operations_per_token_ = 0;
};

int64_t useful_parts(double read_seconds, double product_seconds, int64_t n_sequences) {
  constexpr int64_t kMost = 1024;
  int64_t parts = 1;
  while (2 * parts <= std::min(n_sequences, kMost) && product_seconds / static_cast<double>(parts) > read_seconds)
    parts *= 2;
  return parts;
}

}  // namespace

int64_t LaunchPlan::limit_seconds() const {
  constexpr double kQuarter = 900;
  return static_cast<int64_t>(kQuarter * std::ceil((3 * (read_seconds + product_seconds) + 600) / kQuarter));
}

LaunchPlan plan_launch(const CalibrationInputs& inputs, const CalibrationOptions& given, int64_t parts,
                       NoticeListener& listener) {
  CalibrationOptions options = given;
  options.extent = Extent::Plan;
  options.memory = kNoLimit;  // the whole run need not fit anywhere
  PlanListener heard(listener);
  const SequencePlan whole = calibrate(inputs, options, heard).sequences;
  LaunchPlan plan;
  plan.plan_sha256 = whole.sha256;
  plan.n_prompts = static_cast<int64_t>(whole.prompts.size());
  plan.n_sequences = whole.n_sequences;
  plan.n_tokens = whole.n_tokens_of_all;
  plan.threads = options.threads;
  plan.weights = Checkpoint::open(inputs.model).total_bytes();
  plan.read_seconds = static_cast<double>(plan.weights) / kBytesPerSecond;
  const double all = heard.operations() * static_cast<double>(plan.n_tokens) /
                     (kOperationsPerSecond * static_cast<double>(options.threads));
  plan.parts = parts > 0 ? parts : useful_parts(plan.read_seconds, all, plan.n_sequences);
  plan.product_seconds = all / static_cast<double>(plan.parts);
  if (given.memory > 0) options.memory = given.memory;
  options.sequences.n_shards = plan.parts;
  CalibrationListener nobody;
  plan.memory = calibrate(inputs, options, nobody).memory.total();
  return plan;
}

}  // namespace kvcal
