// Sequences through a whole model, each alone from position 0, with everything kept: what the attention layers received
// and the logits of the last positions.
#pragma once

#include <map>
#include <vector>

#include "harness/downloading_tap.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"

namespace kvcal {

inline std::vector<float> values_of(Ops& op, const Tensor& t) {
  const Storage host(t.shape, t.dtype);
  op.download(t, host.tensor());
  std::vector<float> values(static_cast<size_t>(t.elements()));
  convert_to_float(t.dtype, host.tensor().data, values.data(), values.size());
  return values;
}

class LastLogits final : public LogitsSink {
 public:
  std::map<int64_t, std::vector<float>> logits;  // by sequence

  void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) override {
    for (const SequenceSpan& s : batch.sequences) {
      if (s.span.first_position + s.span.n_tokens != s.sequence_tokens) continue;
      const int64_t row = s.span.row + s.span.n_tokens - 1;
      const Tensor y = head.forward(op, op.take_rows(x, std::span<const int64_t>(&row, 1)));
      logits[s.sequence] = values_of(op, y);
    }
  }
};

inline std::vector<PromptTokens> prompts_of(const std::vector<std::vector<int32_t>>& ids) {
  std::vector<PromptTokens> prompts;
  for (size_t i = 0; i < ids.size(); ++i) prompts.push_back({std::to_string(i), ids[i], 1});
  return prompts;
}

inline std::vector<Sequence> singles(const std::vector<PromptTokens>& prompts) {
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const int64_t n = static_cast<int64_t>(prompts[i].ids.size()), index = static_cast<int64_t>(i);
    sequences.push_back({index, 1, {{index, 0, n}}, n});
  }
  return sequences;
}

struct WholeRun {
  RecordingTap tap;
  LastLogits logits;

  void run(LoadedModel& m, const std::vector<std::vector<int32_t>>& ids) {
    const std::vector<PromptTokens> prompts = prompts_of(ids);
    const std::vector<Sequence> sequences = singles(prompts);
    Runner runner(*m.model, *m.ops, m.weights, 256);
    DownloadingTap shown(*m.ops, tap);
    runner.run({{&sequences, &shown, Until::Logits, &logits}}, prompts);
  }
};

}  // namespace kvcal
