#include "calibrate/sweep.h"

#include <string>
#include <vector>

#include "calibrate/run_description.h"
#include "solve/sampled_damage.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

int64_t rows_of(const std::vector<SequenceGroup>& groups) {
  int64_t n = 0;
  for (const SequenceGroup& g : groups) n += tokens_of(*g.sequences);
  return n;
}

SweepGroup group_of(const std::string& name, const std::vector<Sequence>& sequences, int pass) {
  SweepGroup group{name};
  for (const Sequence& s : sequences)
    if (s.pass == pass) {
      ++group.n_sequences;
      group.n_tokens += s.n_tokens;
    }
  return group;
}

std::vector<SweepGroup> groups_of(const SequencePlan& plan, const std::vector<Sequence>& measured,
                                  const SweepPart& part) {
  std::vector<SweepGroup> groups;
  if (part.is_first()) groups.push_back(group_of("warm-up", plan.warmup, 0));
  for (int pass = part.first_pass; pass <= part.last_pass; ++pass)
    groups.push_back(group_of("pass " + std::to_string(pass), measured, pass));
  if (part.is_first()) groups.push_back(group_of("sanity", plan.sanity, 0));
  return groups;
}

}  // namespace

Sweeper::Sweeper(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options,
                 CalibrationListener& listener)
    : model_(model),
      plan_(plan),
      options_(options),
      listener_(listener),
      pool_(options.threads ? options.threads : available_processors()),
      isa_(plan.op->isa()) {}

RunRecord Sweeper::record(const SequencePlan& sequences, int n_passes, const SanityCheck& sanity) const {
  return record_of({model_, plan_.sources, options_, isa_}, sequences, n_passes, sanity);
}

Statistics Sweeper::run(const SequencePlan& sequences, const SweepPart& part, SanityCheck& sanity,
                        ResumeFolder* resume) {
  const int n_passes = part.last_pass;
  std::vector<Sequence> measured;
  for (const Sequence& s : sequences.measured)
    if (part.has(s)) measured.push_back(s);
  Observer observer(model_.spec(), {n_passes, ids_of(sequences), segments_of(measured), kinds_of(sequences)}, pool_,
                    plan_.op.get(), sample_options(options_.solve));
  NoTap away;
  std::vector<SequenceGroup> groups;
  if (part.is_first()) {
    groups.push_back({&sequences.warmup, &away, Until::LastKv, nullptr});
    groups.push_back({&sequences.sanity, &away, Until::Logits, &sanity});
  }
  groups.push_back({&measured, &observer, Until::LastKv, nullptr});

  const int64_t rows = rows_of(groups);
  tokens_run_ += rows;
  int64_t done = resume ? rows * resume->layers_done() : 0;
  listener_.sweep_begins({groups_of(sequences, measured, part), rows * (model_.spec().last_cache_layer() + 1), done});
  Runner runner(*model_.model, *plan_.op, model_.weights, plan_.memory);
  if (resume) {
    resume->observe(observer, record(sequences, n_passes, SanityCheck(0, sequences.prompts)));
    runner.keep_in(*resume);
  }
  runner.on_step([&](const RunStep& step) { listener_.step(step, done += step.tokens); });
  runner.run(groups, sequences.prompts);
  Statistics statistics = observer.take(record(sequences, n_passes, sanity));
  listener_.sweep_ends();
  return statistics;
}

}  // namespace kvcal
