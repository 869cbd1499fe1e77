#include "prefill/runner.h"

#include <algorithm>
#include <set>

#include "ops/residual_rows.h"

namespace kvcal {
namespace {

/// "embed_tokens." of "embed_tokens.weight".
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.') + 1); }

}  // namespace

struct Runner::Stream {
  SequenceGroup group;
  size_t index;  // of the group
  std::vector<Batch> batches;
  std::unique_ptr<ResidualRows> residual;
  RunStates states;

  Stream(const SequenceGroup& g, size_t i, std::vector<Batch> b, const ModelSpec& spec, Ops& op, ResidualPlace place)
      : group(g), index(i), batches(std::move(b)), states(spec, g.state, g.tap->state_counter()) {
    ResidualShape shape{0, spec.residual_width(), 0};
    for (const Batch& batch : batches) {
      shape.n_tokens += batch.n_tokens();
      shape.most_rows = std::max(shape.most_rows, batch.n_tokens());
    }
    residual = op.residual_rows(shape, place);
  }

  /// Rows [row, row + n) for the ops, those of the batch after it already on their way. After the last comes the first,
  /// of the next layer.
  Tensor load(size_t i, int64_t row) const {
    const int64_t n = batches[i].n_tokens();
    const Tensor x = residual->load(row, n);
    const bool last = i + 1 == batches.size();
    if (batches.size() > 1) residual->expect(last ? 0 : row + n, batches[last ? 0 : i + 1].n_tokens());
    return x;
  }

  /// Shows the sink its part-th part of a batch, if there is one; returns the rows behind it.
  int64_t to_sink(Ops& op, Head& head, size_t i, int64_t part) const {
    const Batch& batch = batches[i];
    const int64_t step = group.sink->most_rows().value_or(batch.n_tokens()), from = part * step,
                  n = std::min(step, batch.n_tokens() - from);
    if (n <= 0) return 0;
    int64_t row = from;
    for (size_t before = 0; before < i; ++before) row += batches[before].n_tokens();
    group.sink->hidden(op, residual->load(row, n), n == batch.n_tokens() ? batch : rows_of(batch, from, n), head);
    op.end_batch();
    return batch.n_tokens() - from - n;
  }
};

namespace {

std::vector<Tensor> on_host(const std::vector<ResidualRows*>& rows) {
  std::vector<Tensor> tensors;
  for (ResidualRows* r : rows) tensors.push_back(r->on_host());
  return tensors;
}

void finish_sequences(LayerStates& states, const Batch& batch) {
  for (const SequenceSpan& s : batch.sequences)
    if (s.span.first_position + s.span.n_tokens == s.sequence_tokens) states.finish(s.sequence);
}

}  // namespace

void Runner::run(const std::vector<SequenceGroup>& groups, const std::vector<PromptTokens>& prompts) {
  const ModelSpec& spec = model_.spec();
  bool logits = false;
  std::vector<Stream> streams;
  if (plan_.on_device) op_.reserve(plan_.reserve());
  for (size_t i = 0; i < groups.size(); ++i) {
    const SequenceGroup& g = groups[i];
    if (g.sequences->empty()) continue;
    logits = logits || g.until == Until::Logits;
    streams.emplace_back(
        g, i, make_batches(*g.sequences, prompts, plan_.chunk_tokens, spec.n_position_axes, plan_.cut(), plan_.block),
        spec, op_, plan_.residual_place);
  }
  n_layers_ = logits ? static_cast<int>(spec.layers.size()) : spec.last_counted_layer() + 1;
  const int first = store_ ? store_->layers_done() : 0;
  BlockLoader blocks(model_, op_, weights_, first, n_layers_);
  if (first == 0)
    embed(streams);
  else
    restore(first, streams);
  run_layers(first, blocks, streams, logits);
  if (logits) while_doing("running the output head", [&] { run_head(streams); });
}

// Of the groups that this layer, or the head behind the last one, still works on, and that are not another one till
// then.
std::vector<ResidualRows*> Runner::rows_before(int layer, const std::vector<Stream>& streams) const {
  std::vector<ResidualRows*> rows;
  for (const Stream& s : streams) {
    const bool has_begun = s.group.first_layer == 0 || s.group.first_layer < layer;
    const bool goes_on = s.group.until == Until::Logits || layer <= model_.spec().last_counted_layer();
    if (has_begun && goes_on) rows.push_back(s.residual.get());
  }
  return rows;
}

void Runner::restore(int layer, const std::vector<Stream>& streams) {
  const std::vector<ResidualRows*> rows = rows_before(layer, streams);
  store_->restore(on_host(rows));
  for (ResidualRows* r : rows) r->take_host();
}

void Runner::save(int layer, const std::vector<Stream>& streams) {
  store_->save(layer, on_host(rows_before(layer, streams)));
}

void Runner::embed(std::vector<Stream>& streams) {
  const auto embedding = model_.load_embedding(op_, weights_.text);
  for (Stream& s : streams) {
    if (s.group.first_layer > 0) continue;
    int64_t row = 0;
    for (const Batch& batch : s.batches) {
      const Tensor rows = with_encoder_rows(op_, embedding->forward(op_, batch), batch);
      s.residual->save(row, embedding->stream(op_, rows));
      op_.end_batch();
      row += batch.n_tokens();
    }
  }
}

void Runner::branch(int layer, std::vector<Stream>& streams) {
  for (Stream& s : streams) {
    if (layer == 0 || s.group.first_layer != layer) continue;
    const auto from = std::ranges::find(streams, s.group.branch_of, &Stream::index);
    int64_t row = 0;
    for (const Batch& batch : s.batches) {
      s.residual->save(row, from->residual->load(row, batch.n_tokens()));
      op_.end_batch();
      row += batch.n_tokens();
    }
  }
}

void Runner::run_layers(int first, BlockLoader& blocks, std::vector<Stream>& streams, bool logits) {
  for (int layer = first; layer < n_layers_; ++layer) {
    while_doing("running layer " + std::to_string(layer), [&] {
      const auto block = blocks.take(layer);
      branch(layer, streams);
      run_block(layer, *block, streams);
    });
    // Where a later layer reads rows or choices of an earlier one, a stopped run begins again at the owner of them.
    if (store_ && (layer + 1 < n_layers_ || logits) && store_->keeps(layer + 1) && can_branch(model_.spec(), layer + 1))
      save(layer + 1, streams);
  }
}

bool Runner::can_branch(const ModelSpec& spec, int layer) {
  const auto reads = [&](const KvLayout& c) { return c.layer < layer && spec.last_reader(c.cache) >= layer; };
  const auto takes = [&](const LayerSpec& l) { return l.index >= layer && l.picker >= 0 && l.picker < layer; };
  return std::ranges::none_of(spec.caches, reads) && std::ranges::none_of(spec.layers, takes);
}

// Logits are the model's: its MTP layer has none to give to them.
bool Runner::works_on(const Stream& s, int layer) const {
  const ModelSpec& spec = model_.spec();
  const bool wanted = s.group.until == Until::Logits ? !spec.is_mtp(layer) : layer <= spec.last_counted_layer();
  return wanted && layer >= s.group.first_layer;
}

void Runner::run_block(int layer, Block& block, std::vector<Stream>& streams) {
  std::set<KvTap*> taps;
  for (Stream& s : streams) {
    if (!works_on(s, layer)) continue;
    int64_t row = 0;
    for (size_t i = 0; i < s.batches.size(); ++i) {
      const int64_t n = s.batches[i].n_tokens();
      if (model_.spec().is_mtp(layer))
        run_mtp_batch(layer, block, s, i, row);
      else
        run_batch(layer, block, s, i, row);
      row += n;
      if (step_) step_({layer, n_layers_, n});
    }
    s.states.end(layer);
    taps.insert(s.group.tap);
  }
  for (KvTap* tap : taps) tap->layer_done(layer);
}

void Runner::run_batch(int layer, Block& block, Stream& s, size_t i, int64_t row) {
  const bool is_last = s.group.until == Until::LastKv && layer == model_.spec().last_counted_layer();
  // Where a state stands beside attention, what may be skipped would be the one that is counted.
  const LayerSpec& l = model_.spec().layers[static_cast<size_t>(layer)];
  const bool has_both = l.has_long_state() && (l.cache >= 0 || l.shares_cache >= 0);
  const Tail tail = is_last && !has_both ? Tail::Skip : Tail::Full;
  const Batch& batch = s.batches[i];
  LayerStates& states = s.states.begin(layer);
  const Tensor x = s.load(i, row);
  s.group.tap->layer_input(x);
  const Tensor y = block.forward(op_, x, batch, states, *s.group.tap, tail);
  if (tail == Tail::Full) s.residual->save(row, with_deepstack(op_, y, batch, layer));
  op_.end_batch();
  finish_sequences(states, batch);
}

// The last layer there is: nothing reads what it makes.
void Runner::run_mtp_batch(int layer, Block& block, Stream& s, size_t i, int64_t row) {
  LayerStates& states = s.states.begin(layer);
  const Batch* next = i + 1 < s.batches.size() ? &s.batches[i + 1] : nullptr;
  for (const MtpRows& rows : mtp_rows(s.batches[i], next)) {
    const Tensor x = s.residual->load(row + rows.row, rows.batch.n_tokens());
    block.forward(op_, x, rows.batch, states, *s.group.tap, Tail::Skip);
    op_.end_batch();
    finish_sequences(states, rows.batch);
  }
}

void Runner::run_head(std::vector<Stream>& streams) {
  const auto head = load_now(
      op_, weights_, [&](WeightBinder& text, WeightBinder& lm_head) { return model_.load_head(op_, text, lm_head); });
  const ModelSpec& spec = model_.spec();
  for (const WeightBinder& table :
       {weights_.text.at(module_of(spec.embedding)), weights_.head.at(module_of(spec.head))})
    table.release();
  size_t most = 0;
  for (const Stream& s : streams) most = std::max(most, s.batches.size());
  for (size_t i = 0; i < most; ++i)
    for (int64_t part = 0, left = 1; left > 0; ++part) {
      left = 0;
      for (Stream& s : streams)
        if (s.group.until == Until::Logits && i < s.batches.size()) left += s.to_sink(op_, *head, i, part);
    }
}

}  // namespace kvcal
