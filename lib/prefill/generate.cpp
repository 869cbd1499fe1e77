#include "prefill/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "prefill/block_loader.h"

namespace kvcal {

struct Generator::Run {
  std::vector<PromptTokens> prompts;  // one: everything fed so far and next
  Sequence sequence;
  RunStates states;

  Run(const PromptTokens& prompt, int64_t capacity, const ModelSpec& spec, const StateFormat& state = {})
      : prompts{prompt}, states(spec, state) {
    sequence.pieces = {{0, 0, capacity}};
    sequence.n_tokens = capacity;  // never reached in one step, so that all states are kept
  }
};

Generator::Generator(const Model& model, Ops& op, ModelWeights& weights, int64_t chunk_tokens)
    : model_(model), op_(op), chunk_tokens_(chunk_tokens) {
  embedding_ = model.load_embedding(op, weights.text);
  for (const LayerSpec& layer : model.spec().layers)
    blocks_.push_back(while_doing("loading layer " + std::to_string(layer.index), [&] {
      return load_now(op, weights,
                      [&](WeightBinder& text, WeightBinder&) { return model.load_block(layer.index, op, text); });
    }));
  head_ = load_now(op, weights,
                   [&](WeightBinder& text, WeightBinder& lm_head) { return model.load_head(op, text, lm_head); });
}

std::vector<float> Generator::feed(Run& run, int64_t first, int64_t n, KvTap& tap) {
  Batch batch;
  append_tokens(batch, run.sequence, run.prompts, first, n);
  finish_batch(batch, model_.spec().n_position_axes);
  Tensor x = embedding_->stream(op_, with_encoder_rows(op_, embedding_->forward(op_, batch), batch));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const int layer = static_cast<int>(i);
    x = with_deepstack(op_, blocks_[i]->forward(op_, x, batch, run.states.begin(layer), tap, Tail::Full), batch, layer);
  }
  const int64_t last = n - 1;
  const Tensor logits = head_->forward(op_, op_.take_rows(x, std::span<const int64_t>(&last, 1)));
  const Storage host({logits.elements()}, logits.dtype);
  op_.download(logits, host.tensor().reshaped(logits.shape));
  op_.end_batch();
  run.states.forget_choices();
  std::vector<float> out(static_cast<size_t>(logits.elements()));
  convert_to_float(logits.dtype, host.tensor().data, out.data(), out.size());
  return out;
}

std::vector<float> Generator::last_logits(const PromptTokens& prompt, const std::vector<int64_t>& steps, KvTap& tap) {
  Run run(prompt, static_cast<int64_t>(prompt.ids.size()) + 1, model_.spec());
  std::vector<float> logits;
  int64_t first = 0;
  for (const int64_t n : steps) {
    logits = feed(run, first, n, tap);
    first += n;
  }
  return logits;
}

namespace {

int32_t largest(const std::vector<float>& logits) {
  for (const float x : logits)
    if (std::isnan(x))
      fail("a logit is not a number: the checkpoint or its loading is broken, or a rounded cache or state overflows");
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<std::pair<int32_t, float>> top_logits(const std::vector<float>& logits, int64_t n) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(static_cast<size_t>(std::max<int64_t>(n, 0)), order.size());
  const auto value = [&](int32_t i) { return logits[static_cast<size_t>(i)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  std::vector<std::pair<int32_t, float>> top;
  for (size_t i = 0; i < count; ++i) top.emplace_back(order[i], value(order[i]));
  return top;
}

}  // namespace

Generated Generator::generate(const PromptTokens& prompt, const GenerateOptions& options, KvTap& tap) {
  if (prompt.ids.empty()) fail("nothing to continue: the prompt has no tokens");
  const int64_t n_prompt = static_cast<int64_t>(prompt.ids.size());
  StateFormat state = options.state;
  state.prompt_tokens = n_prompt;
  Run run(prompt, n_prompt + options.max_new_tokens + 1, model_.spec(), state);
  std::vector<float> logits;
  for (int64_t first = 0; first < n_prompt;) {
    const int64_t room = batch_rows(run.prompts, chunk_tokens_);
    const int64_t end =
        block_end(first, std::min(n_prompt, batch_end(run.sequence, run.prompts, first, room)), options.block);
    logits = feed(run, first, end - first, tap);
    first = end;
  }
  Generated result;
  const int32_t first_token = largest(logits);  // also refuses NaN
  result.top = top_logits(logits, options.n_top);
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t token = first_token; static_cast<int64_t>(result.output_ids.size()) < options.max_new_tokens;) {
    result.output_ids.push_back(token);
    const auto& stop = options.stop_tokens;
    if (std::find(stop.begin(), stop.end(), token) != stop.end()) break;
    if (static_cast<int64_t>(result.output_ids.size()) == options.max_new_tokens) break;
    run.prompts[0].ids.push_back(token);
    token = largest(feed(run, static_cast<int64_t>(run.prompts[0].ids.size()) - 1, 1, tap));
  }
  result.decode_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace kvcal
