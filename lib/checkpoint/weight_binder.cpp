#include "checkpoint/weight_binder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/activation_scheme.h"
#include "checkpoint/formats/stored_weight.h"
#include "checkpoint/quantization.h"

namespace kvcal {

struct WeightBinder::Shared {
  Shared() = default;
  explicit Shared(const Checkpoint& checkpoint) : facts(read_quantization_facts(checkpoint)) {}

  const QuantizationFacts facts{};
  std::mutex mutex;
  std::set<std::string, std::less<>> claimed;
  std::multimap<std::string, Storage, std::less<>> decoded;  // until release()
  std::optional<ActivationScheme> activations;               // where their rounding is emulated
  std::set<std::string, std::less<>> asked, unasked;         // weights whose inputs somebody has asked for; decoded
                                                             // ones of which nobody has
  std::unique_ptr<ThreadPool> pool;                          // for decoding; made when first needed
  int64_t elements = 0;                                      // of what is claimed without a checkpoint
};

namespace {

std::string reading(const Checkpoint& checkpoint) { return "reading " + quoted(checkpoint.folder().string()) + ": "; }

std::string weight_format(const Checkpoint& checkpoint) {
  const QuantizationSummary summary = describe_quantization(checkpoint.config(), checkpoint.folder());
  return summary.weights_quantized ? summary.method + (summary.detail.empty() ? "" : " (" + summary.detail + ")")
                                   : "one that config.json does not name";
}

Storage stands_for(const WeightRequest& request, const StoredWeight& stored, const std::string& reading) {
  const int64_t rows = request.experts() * request.out(), columns = request.in();
  auto weight =
      std::make_shared<const EncodedWeight>(EncodedWeight::Form{reading, rows, columns, stored.open, stored.codes});
  return standing_for({std::move(weight), {}, 0, rows, 0, columns}, request.shape);
}

}  // namespace

WeightBinder::WeightBinder(const Checkpoint& checkpoint, std::string prefix)
    : WeightBinder(&checkpoint, std::move(prefix), std::make_shared<Shared>(checkpoint), Decode::Now, 1) {}

WeightBinder::WeightBinder(const Checkpoint* checkpoint, std::string prefix, std::shared_ptr<Shared> shared,
                           Decode when, int64_t times)
    : checkpoint_(checkpoint), prefix_(std::move(prefix)), shared_(std::move(shared)), when_(when), times_(times) {}

WeightBinder WeightBinder::at(std::string_view sub) const {
  return {checkpoint_, prefix_ + std::string(sub), shared_, when_, times_};
}

const TensorInfo* WeightBinder::info(std::string_view name) const {
  return checkpoint_ ? checkpoint_->find(prefix_ + std::string(name)) : nullptr;
}

bool WeightBinder::has(std::string_view name) const {
  return checkpoint_ && !stored_name(*checkpoint_, prefix_ + std::string(name)).empty();
}

Tensor WeightBinder::operator()(std::string_view name, const Shape& shape) const {
  const Tensor found = optional(name, shape);
  if (!found) fail_missing(prefix_ + std::string(name));
  return found;
}

Tensor WeightBinder::optional(std::string_view name, const Shape& shape) const {
  const std::string full = prefix_ + std::string(name);
  if (!checkpoint_) return counted(full, shape);
  const TensorInfo* found = checkpoint_->find(full);
  if (found && is_plain(*found)) return load(full, *found, shape);
  if (const Tensor decoded = decode(full, shape)) return decoded;
  return found ? load(full, *found, shape) : Tensor{};
}

Tensor WeightBinder::uncounted(std::string_view name, const Shape& shape) const {
  return checkpoint_ ? (*this)(name, shape) : of_no_weight(shape).tensor();
}

Tensor WeightBinder::rows(std::string_view name, const Shape& shape, int64_t first, int64_t n) const {
  if (checkpoint_) return (*this)(name, shape).rows(first, n);
  const Tensor part = of_no_weight(shape).tensor().rows(first, n);
  return counted(prefix_ + std::string(name) + " from " + std::to_string(first), part.shape);
}

std::vector<WeightBinder> WeightBinder::modules(std::string_view sub, int64_t n) const {
  std::vector<WeightBinder> all;
  for (int64_t i = 0; i < (checkpoint_ ? n : std::min<int64_t>(n, 1)); ++i)
    all.push_back(at(std::string(sub) + std::to_string(i) + "."));
  if (!checkpoint_ && n > 0) all[0].times_ = times_ * n;
  return all;
}

WeightBinder WeightBinder::without_checkpoint() { return {nullptr, "", std::make_shared<Shared>(), Decode::Never, 1}; }

int64_t WeightBinder::elements_asked() const { return shared_->elements; }

Tensor WeightBinder::counted(const std::string& part, const Shape& shape) const {
  if (shared_->claimed.insert(part).second) shared_->elements += times_ * shape.elements();
  return of_no_weight(shape).tensor();
}

WeightBinder WeightBinder::shapes_only() const { return {checkpoint_, prefix_, shared_, Decode::Never, times_}; }

WeightBinder WeightBinder::as_stored() const { return {checkpoint_, prefix_, shared_, Decode::Later, times_}; }

bool WeightBinder::may_decode() const { return shared_->facts.weights_quantized; }

std::string WeightBinder::emulate_activations() const {
  const ActivationScheme scheme = read_activation_scheme(*checkpoint_);
  const std::lock_guard lock(shared_->mutex);
  shared_->activations = scheme;
  return scheme.name;
}

InputRounding WeightBinder::inputs_of(std::string_view name) const {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->activations) return {};
  const std::string full = prefix_ + std::string(name);
  shared_->asked.insert(full);
  shared_->unasked.erase(full);
  const InputRounding rounding = while_doing("reading " + quoted(checkpoint_->folder().string()),
                                             [&] { return input_rounding(*checkpoint_, *shared_->activations, full); });
  if (rounding.scale > 0) shared_->claimed.insert(input_scale_name(*checkpoint_, full));
  return rounding;
}

void WeightBinder::check_inputs_asked() const {
  const std::lock_guard lock(shared_->mutex);
  const auto first = shared_->unasked.lower_bound(prefix_);
  if (first != shared_->unasked.end() && first->starts_with(prefix_))
    fail(reading(*checkpoint_) + "the rounding of the inputs of " + quoted(*first) +
         " is not emulated for this architecture");
}

void WeightBinder::claim(std::string_view name) const {
  constexpr std::string_view kWeight = "weight";
  const std::string full = prefix_ + std::string(name);
  const std::lock_guard lock(shared_->mutex);
  shared_->claimed.insert(full);
  if (!full.ends_with("." + std::string(kWeight))) return;
  const auto parts = checkpoint_->names_below(full.substr(0, full.size() - kWeight.size()));
  shared_->claimed.insert(parts.begin(), parts.end());
}

Tensor WeightBinder::load(const std::string& full, const TensorInfo& found, const Shape& shape) const {
  if (!is_plain(found))
    fail(reading(*checkpoint_) + "tensor " + quoted(full) + " is " + str(found) + ", a quantized weight; its format, " +
         weight_format(*checkpoint_) + ", is not supported: use the original BF16 checkpoint");
  if (!(found.shape == shape))
    fail(reading(*checkpoint_) + "tensor " + quoted(full) + " has shape " + str(found.shape) + ", expected " +
         str(shape) + "; is config.json from another checkpoint?");
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->claimed.insert(full);
  }
  return while_doing("tensor " + quoted(full), [&] { return checkpoint_->tensor(full); });
}

// Nothing when no known format holds the weight.
Tensor WeightBinder::decode(const std::string& full, const Shape& shape) const {
  const WeightRequest request{*checkpoint_, shared_->facts, full, shape};
  const std::string reading_folder = "reading " + quoted(checkpoint_->folder().string());
  const std::optional<StoredWeight> stored = while_doing(reading_folder, [&] { return find_stored_weight(request); });
  if (!stored) return {};
  Storage memory = when_ == Decode::Later ? stands_for(request, *stored, reading_folder) : Storage(shape, DType::BF16);
  const Tensor view = memory.tensor();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->claimed.insert(stored->parts.begin(), stored->parts.end());
    shared_->decoded.emplace(full, std::move(memory));
    if (shared_->activations && !shared_->asked.contains(full)) shared_->unasked.insert(full);
  }
  if (when_ == Decode::Now) while_doing(reading_folder, [&] { decode_into(view, request, *stored); });
  return view;
}

void WeightBinder::decode_into(const Tensor& to, const WeightRequest& request, const StoredWeight& stored) const {
  constexpr int kMostThreads = 16;
  constexpr int64_t kPieces = 4;  // for each thread, so that none waits long for another
  ThreadPool* pool = nullptr;
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->pool) shared_->pool = std::make_unique<ThreadPool>(std::min(available_processors(), kMostThreads));
    pool = shared_->pool.get();
  }
  const int64_t rows = request.experts() * request.out();
  const int64_t piece = std::max<int64_t>((rows + kPieces * pool->n_threads() - 1) / (kPieces * pool->n_threads()), 64);
  const DecodeRows decode_rows = stored.open();
  pool->parallel_for((rows + piece - 1) / piece, [&](int64_t i, int) {
    decode_rows({i * piece, std::min(piece, rows - i * piece)}, to.as<bf16>() + i * piece * request.in());
  });
}

void WeightBinder::fail_missing(const std::string& full) const {
  const std::string missing = reading(*checkpoint_) + "tensor " + quoted(full) + " is missing";
  if (const std::string twin = stored_name(*checkpoint_, full); !twin.empty())
    fail(missing + ", but " + quoted(twin) + " exists: a quantized weight; its format, " + weight_format(*checkpoint_) +
         ", is not supported: use the original BF16 checkpoint");
  // Only the siblings are compared: a checkpoint may have hundreds of thousands of names.
  const std::span<const std::string> siblings = checkpoint_->names_below(prefix_);
  if (siblings.empty())
    fail(missing + ", and so is everything below " + quoted(prefix_) + "; is config.json from another checkpoint?");
  constexpr size_t kMostCompared = 20000;
  const std::string near = nearest_match(full, siblings.first(std::min(siblings.size(), kMostCompared)));
  fail(missing + (near.empty() ? "" : "; the nearest name is " + quoted(near)) +
       "; is config.json from another checkpoint?");
}

void WeightBinder::prefetch() const { checkpoint_->prefetch(checkpoint_->names_below(prefix_)); }
void WeightBinder::release() const {
  checkpoint_->drop(checkpoint_->names_below(prefix_));
  const std::lock_guard lock(shared_->mutex);
  std::erase_if(shared_->decoded, [&](const auto& entry) { return entry.first.starts_with(prefix_); });
}

uint64_t WeightBinder::bytes() const { return checkpoint_->bytes_of(checkpoint_->names_below(prefix_)); }

SkipReport WeightBinder::report(const SkipRules& rules) const {
  SkipReport report;
  std::map<std::string, SkipReport::Skipped, std::less<>> by_rule;
  const std::lock_guard lock(shared_->mutex);
  for (const std::string& name : checkpoint_->names()) {
    if (shared_->claimed.contains(name)) {
      ++report.n_claimed;
      continue;
    }
    const std::string_view rule = rules.rule_for(name);
    if (rule.empty()) {
      report.unclaimed.push_back(name);
      continue;
    }
    auto& skipped = by_rule.try_emplace(std::string(rule), SkipReport::Skipped{std::string(rule), 0, 0}).first->second;
    ++skipped.n_tensors;
    skipped.bytes += checkpoint_->find(name)->bytes;
  }
  for (auto& [rule, skipped] : by_rule) report.skipped.push_back(std::move(skipped));
  return report;
}

}  // namespace kvcal
