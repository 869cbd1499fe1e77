#include "calibrate/sweep.h"

#include <string>
#include <utility>
#include <vector>

#include "calibrate/run_description.h"
#include "solve/sampled_damage.h"
#include "stats/merge.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

SweepGroup group_of(const std::string& name, const std::vector<Sequence>& sequences, int pass) {
  SweepGroup group{name};
  for (const Sequence& s : sequences)
    if (s.pass == pass) {
      ++group.n_sequences;
      group.n_tokens += s.n_tokens;
    }
  return group;
}

/// A repeat runs as a sequence of its own where the part leaves out what it repeats.
std::vector<Sequence> measured_in(const SequencePlan& plan, const SweepPart& part) {
  std::vector<Sequence> measured;
  for (const Sequence& s : plan.measured) {
    if (part.has(s)) {
      measured.push_back(s);
      continue;
    }
    for (const Repeat& r : s.repeats)
      if (Sequence repeat = {r.sequence, r.pass, s.pieces, s.n_tokens}; part.has(repeat)) measured.push_back(repeat);
  }
  return measured;
}

std::vector<SweepGroup> groups_of(const SequencePlan& plan, const SweepPart& part) {
  const std::vector<Sequence> measured = measured_in(plan, part);
  std::vector<SweepGroup> groups;
  if (part.is_first()) groups.push_back(group_of("warm-up", plan.warmup, 0));
  for (int pass = part.first_pass; pass <= part.last_pass; ++pass)
    groups.push_back(group_of("pass " + std::to_string(pass), measured, pass));
  if (part.is_first()) groups.push_back(group_of("sanity", plan.sanity, 0));
  return groups;
}

/// A device that reads its weights together with others, while this lives.
class Joined {
 public:
  explicit Joined(Ops& op) : reader_(op.reader()) {
    if (reader_) reader_->join();
  }
  Joined(Joined&& other) noexcept : reader_(std::exchange(other.reader_, nullptr)) {}
  Joined& operator=(Joined&&) = delete;
  ~Joined() {
    if (reader_) reader_->leave();
  }

 private:
  WeightReader* reader_;
};

}  // namespace

Sweeper::Sweeper(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options,
                 CalibrationListener& listener)
    : model_(model),
      plan_(plan),
      options_(options),
      listener_(listener),
      pool_(options.threads ? options.threads : available_processors()) {
  for (size_t i = 1; i < plan.devices.size(); ++i) {
    others_.push_back(
        std::make_unique<OpenedModel>(model.checkpoint.folder(), options.solve.max_model_len, options.mtp));
    if (options.emulate_activations) others_.back()->weights.text.emulate_activations();
  }
}

RunRecord Sweeper::record(const SequencePlan& sequences, int n_passes, const SanityCheck& sanity) const {
  return record_of({model_, plan_.sources, options_, plan_.devices.isa()}, sequences, n_passes, sanity);
}

struct Sweeper::Swept {
  const SequencePlan& sequences;
  int n_passes;
  SanityCheck& sanity;
  SweepStore* store;
};

std::vector<Sweeper::Share> Sweeper::shares_of(const SequencePlan& sequences, const SweepPart& part) const {
  const auto measured = deal(measured_in(sequences, part), plan_.devices.size());
  std::vector<Share> shares(measured.size());
  for (size_t i = 0; i < shares.size(); ++i) shares[i].measured = measured[i];
  if (!part.is_first()) return shares;
  const auto warmup = deal(sequences.warmup, shares.size());
  for (size_t i = 0; i < warmup.size(); ++i) shares[i].warmup = warmup[i];
  shares.front().sanity = sequences.sanity;  // on one device: it adds floating-point numbers in order
  return shares;
}

Statistics Sweeper::run_share(size_t device, const Share& share, const Swept& swept, const HearStep& hear) {
  Ops& op = plan_.devices.op(device);
  OpenedModel& model = device == 0 ? model_ : *others_[device - 1];
  const SequencePlan& sequences = swept.sequences;
  op.enter_thread();
  Observer observer(
      model.spec(),
      {swept.n_passes, ids_of(sequences), segments_of(share.measured), kinds_of(sequences), repeats_of(share.measured)},
      pool_, &op, sample_options(options_.solve));
  NoTap away;
  const std::vector<SequenceGroup> groups = {{&share.warmup, &away, Until::LastKv, nullptr},
                                             {&share.sanity, &away, Until::Logits, &swept.sanity},
                                             {&share.measured, &observer, Until::LastKv, nullptr}};
  Runner runner(*model.model, op, model.weights, plan_.memory);
  if (swept.store) {
    swept.store->observe(observer, record(sequences, swept.n_passes, SanityCheck(0, sequences.prompts)));
    runner.keep_in(swept.store->rows());
  }
  runner.on_step(hear);
  runner.run(groups, sequences.prompts);
  return observer.take({});
}

Statistics Sweeper::run_shares(const std::vector<Share>& shares, const Swept& swept, const HearStep& hear) {
  std::vector<Statistics> found(shares.size());
  std::vector<Joined> joined;  // all before the first begins
  for (size_t i = 0; i < shares.size(); ++i) joined.emplace_back(plan_.devices.op(i));
  const auto work = [&](size_t device, const HearStep& told) {
    const Joined mine(std::move(joined[device]));  // leaves when this one ends: the others wait for it no longer
    found[device] = while_doing("device " + quoted(plan_.devices.name(device)),
                                [&] { return run_share(device, shares[device], swept, told); });
  };
  run_workers(shares.size(), work, hear);
  return merge(found);
}

Statistics Sweeper::run(const SequencePlan& sequences, const SweepPart& part, SanityCheck& sanity, SweepStore* store) {
  const std::vector<Share> shares = shares_of(sequences, part);
  int64_t rows = 0;
  for (const Share& s : shares) rows += tokens_of(s.warmup) + tokens_of(s.measured) + tokens_of(s.sanity);
  tokens_run_ += rows;
  int64_t done = store ? rows * store->rows().layers_done() : 0;
  listener_.sweep_begins({groups_of(sequences, part), rows * (model_.spec().last_counted_layer() + 1), done});
  const HearStep hear = [&](const RunStep& step) { listener_.step(step, done += step.tokens); };
  const Swept swept = {sequences, part.last_pass, sanity, store};
  Statistics statistics =
      shares.size() == 1 ? run_share(0, shares.front(), swept, hear) : run_shares(shares, swept, hear);
  statistics.run = record(sequences, part.last_pass, sanity);
  listener_.sweep_ends();
  return statistics;
}

}  // namespace kvcal
