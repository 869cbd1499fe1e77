#include "plan_text.h"

#include "base/counted.h"
#include "base/number_text.h"
#include "progress.h"

namespace kvcal {

Lines plan_text(const SequencePlan& sequences, const MemoryPlan& m, const ModelSpec& spec) {
  const auto measured = static_cast<int64_t>(sequences.measured.size());
  return Lines("plan: " + counted(static_cast<int64_t>(sequences.prompts.size()), "prompt") + ", " +
               (measured < sequences.n_sequences ? grouped(measured) + " of " : "") +
               counted(sequences.n_sequences, "sequence") + ", " + counted(sequences.n_tokens(), "token") +
               " through " + std::to_string(spec.last_counted_layer() + 1) + " of " +
               std::to_string(spec.layers.size()) + " layers in batches of " + grouped(m.chunk_tokens)) +
         Lines("plan: " + bytes_text(m.total()) + " of " + (m.on_device && !m.one_memory ? "the device's " : "") +
               "memory (weights " + bytes_text(m.weights) +
               (m.on_device ? "" : ", file pages " + bytes_text(m.mapped)) + ", residual stream " +
               bytes_text(m.residual) +
               (m.residual_place == ResidualPlace::Host ? " for two batches, the rest in host memory" : "") +
               ", batch " + bytes_text(m.activations) + ", states " + bytes_text(m.states) + ", statistics " +
               bytes_text(m.statistics) + ", program " + bytes_text(m.program) +
               (m.one_memory ? ", pinned " + bytes_text(m.host) : "") + "), budget " + bytes_text(m.budget) +
               (m.on_device && !m.one_memory ? "; host memory " + bytes_text(m.host) : ""));
}

Json plan_json(const SequencePlan& sequences, const MemoryPlan& m) {
  Json json = {{"n_prompts", sequences.prompts.size()},
               {"n_sequences", sequences.measured.size()},
               {"n_tokens", sequences.n_tokens()},
               {"longest", sequences.longest()},
               {"plan_sha256", sequences.sha256},
               {"chunk_tokens", m.chunk_tokens},
               {"memory",
                {{"total", m.total()},
                 {"weights", m.weights},
                 {"file_pages", m.mapped},
                 {"residual", m.residual},
                 {"batch", m.activations},
                 {"states", m.states},
                 {"statistics", m.statistics},
                 {"program", m.program},
                 {"budget", m.budget}}}};
  if (m.on_device) json["memory"]["host"] = m.host;
  return json;
}

}  // namespace kvcal
