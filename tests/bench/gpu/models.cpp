// P1, P3, P9, P10, P11, P17: whole layers of a model, through the Runner as calibrate uses it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "base/thread_pool.h"
#include "bench/gpu/bench.h"
#include "bench/model_work.h"
#include "calibrate/opened_model.h"
#include "kernels/runtime/check.h"
#include "prefill/runner.h"
#include "stats/attention_sampler.h"
#include "stats/observer.h"

namespace kvcal::bench {
namespace {

namespace fs = std::filesystem;

struct Sizes {
  int64_t length, tokens;  // of a prompt; of the shorter of two runs
};
Sizes sizes(const Options& o) { return o.toy ? Sizes{70, 70} : Sizes{2048, 131072}; }

SequencePlan random_plan(const ModelSpec& spec, int64_t tokens, int64_t length) {
  std::minstd_rand random(2);
  std::vector<PromptTokens> prompts;
  for (int64_t at = 0; at < tokens; at += length) {
    PromptTokens p{"prompt-" + std::to_string(100000000 + at), {}, 1};
    for (int64_t i = 0; i < length; ++i)
      p.ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(spec.vocab)));
    prompts.push_back(std::move(p));
  }
  SequenceOptions options;
  options.passes = 1;
  options.warmup_passes = 0;
  options.sanity = false;
  options.max_length = length;
  return plan_sequences(std::move(prompts), options);
}

/// Those of write_random_model.
std::vector<PromptTokens> given_prompts(const std::string& folder) {
  std::ifstream in(fs::path(folder) / "prompts.jsonl");
  std::vector<PromptTokens> prompts;
  for (std::string line; std::getline(in, line);) {
    const Json prompt = parse_json(line);
    prompts.push_back({prompt["id"], prompt["input_ids"].get<std::vector<int32_t>>(), 1});
  }
  return prompts;
}

/// Who looks on: nobody, the observer at keys and values (or latent rows), or at queries too.
enum class Taps : uint8_t { None, Cached, All };

/// A model whose caches have no queries, as far as an observer can tell.
ModelSpec without_queries(ModelSpec spec) {
  for (KvLayout& c : spec.caches) c.n_heads = 0;
  return spec;
}

/// Does not show queries to an observer that expects none.
class CachedOnly final : public KvTap {
 public:
  explicit CachedOnly(KvTap& observer) : observer_(observer) {}
  Tensor query(int, const Tensor& q, const Batch&) override { return q; }
  Tensor key(int cache, const Tensor& k, const Batch& batch) override { return observer_.key(cache, k, batch); }
  Tensor value(int cache, const Tensor& v, const Batch& batch) override { return observer_.value(cache, v, batch); }
  Tensor latent(int cache, const Tensor& row, const Batch& batch) override {
    return observer_.latent(cache, row, batch);
  }
  bool wants_absorbed_queries() const override { return false; }
  StateCounter* state_counter() override { return observer_.state_counter(); }
  void layer_done(int layer) override { observer_.layer_done(layer); }

 private:
  KvTap& observer_;
};

/// Of a run for which it is made: seconds until the last batch of each layer; the device may be behind.
class LayerEnds {
 public:
  void operator()(const RunStep& step) {
    ends_.resize(std::max(ends_.size(), static_cast<size_t>(step.layer) + 1));
    ends_[static_cast<size_t>(step.layer)] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  const Values& ends() const { return ends_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Values ends_;
};

size_t used_device_bytes() {
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? total - free : 0;
}

/// As calibrate plans it: all memory is taken before the run, and batches are as large as they may be.
MemoryPlan plan_of(const OpenedModel& model, const Ops& op, const SequencePlan& sequences) {
  const auto n_prompts = static_cast<int64_t>(sequences.prompts.size());
  const int64_t sampled = n_sampled(segments_of(sequences.measured));
  MemoryOptions options;
  options.device = op.device_memory();
  options.device_statistics_bytes =
      static_cast<uint64_t>(Observer::device_bytes_needed(model.spec(), {sampled, n_prompts, 1}));
  options.sampled_rows = sampled;
  return plan_memory(model.spec(), model.weights, sequences, options);
}

using OnStep = std::function<void(const RunStep&)>;

/// Seconds of one sweep over the layers.
double run(OpenedModel& model, Ops& op, ThreadPool& pool, const SequencePlan& plan, const MemoryPlan& memory, Taps taps,
           OnStep on_step = {}) {
  std::vector<std::string> ids;
  for (const PromptTokens& p : plan.prompts) ids.push_back(p.id);
  NoTap away;
  Observer observer(taps == Taps::Cached ? without_queries(model.spec()) : model.spec(),
                    {1, ids, segments_of(plan.measured)}, pool, &op);
  CachedOnly cached(observer);
  KvTap* const tap_of[] = {&away, &cached, &observer};
  KvTap* tap = tap_of[static_cast<size_t>(taps)];
  Runner runner(*model.model, op, model.weights, memory);
  if (on_step) runner.on_step(std::move(on_step));
  return seconds_of([&] { runner.run({{&plan.measured, tap, Until::LastKv, nullptr}}, plan.prompts); });
}

/// Operations of one token in the layers that are run.
double flops_per_token(const OpenedModel& model, int64_t length) {
  double flops = mixing_flops(model, length);
  for (const ModelProduct& p : products_of(model)) flops += p.flops();
  return flops;
}

// ---------------------------------------------------------------- files

std::vector<fs::path> weight_files(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  return files;
}

/// Out of the page cache, as far as the system follows.
double forget(const std::string& folder) {
  double bytes = 0;
  for (const fs::path& path : weight_files(folder)) {
    const int file = open(path.c_str(), O_RDONLY);
    fdatasync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
    bytes += static_cast<double>(fs::file_size(path));
  }
  return bytes;
}

double processor_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

/// What a plain loader does: maps the files and copies them out.
void copy_mapped(const std::string& folder) {
  std::vector<char> to(size_t{16} << 20);
  for (const fs::path& path : weight_files(folder)) {
    const int file = open(path.c_str(), O_RDONLY);
    const size_t size = fs::file_size(path);
    void* from = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    for (size_t at = 0; from != MAP_FAILED && at < size; at += to.size())
      std::memcpy(to.data(), static_cast<const char*>(from) + at, std::min(to.size(), size - at));
    if (from != MAP_FAILED) munmap(from, size);
    close(file);
  }
}

// ---------------------------------------------------------------- one model

struct Times {
  // Seconds of n tokens, of 2 n, of 2 n again, of 2 n with statistics of keys and values, of 2 n with all.
  Values one, two, two_again, cached, observed;
  Values layer_ends;  // of the last of two_again
};

Values per_round(const Values& a, const Values& b, const std::function<double(double, double)>& f) {
  Values v;
  for (size_t i = 0; i < a.size(); ++i) v.push_back(f(a[i], b[i]));
  return v;
}

void print_rates(const std::string& name, OpenedModel& model, const Times& t, const Sizes& s) {
  const double per_token = flops_per_token(model, s.length);
  const auto tokens = static_cast<double>(s.tokens);
  // What 2 n tokens take longer than n: layers at work, with nothing of loading.
  print("P1", name, "TFLOP/s",
        per_round(t.one, t.two, [&](double one, double two) { return 1e-12 * per_token * tokens / (two - one); }),
        {{"model", name},
         {"tokens", 2 * s.tokens},
         {"flops_per_token", per_token},
         {"seconds", t.two},
         {"layer_ends", t.layer_ends}});
  const auto percent = [](double bare, double more) { return 100 * (more / bare - 1); };
  print("P3", name + ", keys and values", "% of a run", per_round(t.two, t.cached, percent),
        {{"model", name}, {"seconds", t.cached}, {"same_again_percent", per_round(t.two, t.two_again, percent)}});
  print("P3", name + ", everything", "% of a run", per_round(t.two, t.observed, percent),
        {{"model", name}, {"seconds", t.observed}, {"same_again_percent", per_round(t.two, t.two_again, percent)}});
}

void print_loading(const std::string& name, const std::string& folder, OpenedModel& model, Ops& op, ThreadPool& pool,
                   const MemoryPlan& plan, const Options& o, const Times& t) {
  const Sizes s = sizes(o);
  const SequencePlan few = random_plan(model.spec(), s.length, s.length),
                     many = random_plan(model.spec(), 2 * s.tokens, s.length);
  Values loading, processor, mapped, waiting;
  double bytes = 0;
  for (int round = 0; round < o.rounds; ++round) {
    bytes = forget(folder);
    double before = processor_seconds();
    loading.push_back(run(model, op, pool, few, plan, Taps::None));
    processor.push_back((processor_seconds() - before) / (1e-9 * bytes));
    forget(folder);
    before = processor_seconds();
    copy_mapped(folder);
    mapped.push_back((processor_seconds() - before) / (1e-9 * bytes));
    forget(folder);
    const double cold = run(model, op, pool, many, plan, Taps::None);
    waiting.push_back(100 * (1 - 2 * (median(t.two) - median(t.one)) / cold));
  }
  print("P9", name, "GB/s", rates(1e-9 * bytes, loading), {{"model", name}, {"bytes", bytes}});
  print("P10", name, "% of a run", waiting, {{"model", name}, {"tokens", 2 * s.tokens}});
  print("P11", name, "of a mapping loader's processor time",
        per_round(mapped, processor, [](double a, double b) { return b / a; }),
        {{"model", name}, {"seconds_per_gb", processor}, {"mapped_seconds_per_gb", mapped}});
}

/// The most that a run which keeps to its plan takes of the device, against what the plan says.
void print_memory(const std::string& name, OpenedModel& model, const Sizes& s) {
  const size_t before = used_device_bytes();
  const auto op = make_ops();
  ThreadPool pool(available_processors());
  const SequencePlan sequences = random_plan(model.spec(), 2 * s.tokens, s.length);
  const MemoryPlan plan = plan_of(model, *op, sequences);
  size_t peak = 0;
  run(model, *op, pool, sequences, plan, Taps::All,
      [&](const RunStep&) { peak = std::max(peak, used_device_bytes()); });
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  print("P17", name + ", device memory", "of the plan's bytes",
        {static_cast<double>(peak - std::min(before, peak)) / static_cast<double>(plan.total())},
        {{"model", name},
         {"device_bytes", peak},
         {"planned_bytes", plan.total()},
         {"host_bytes", 1024 * static_cast<double>(u.ru_maxrss)},
         {"planned_host_bytes", plan.host},
         {"notes", op->notes()}});
}

void bench_model(const Options& o, const std::string& folder) {
  const std::string name = fs::path(folder).filename().string();
  const Sizes s = sizes(o);
  OpenedModel model(folder);
  print_memory(name, model, s);
  const auto op = make_ops();
  ThreadPool pool(available_processors());
  const SequencePlan one = random_plan(model.spec(), s.tokens, s.length),
                     two = random_plan(model.spec(), 2 * s.tokens, s.length);
  const MemoryPlan plan = plan_of(model, *op, two);
  run(model, *op, pool, two, plan, Taps::All);
  Times t;
  for (int round = 0; round < o.rounds; ++round) {
    t.one.push_back(run(model, *op, pool, one, plan, Taps::None));
    t.two.push_back(run(model, *op, pool, two, plan, Taps::None));
    t.cached.push_back(run(model, *op, pool, two, plan, Taps::Cached));
    t.observed.push_back(run(model, *op, pool, two, plan, Taps::All));
    LayerEnds ends;
    t.two_again.push_back(run(model, *op, pool, two, plan, Taps::None, std::ref(ends)));
    t.layer_ends = ends.ends();
  }
  print_rates(name, model, t, s);
  print_loading(name, folder, model, *op, pool, plan, o, t);
}

}  // namespace

void bench_observed(const Options& o) {
  for (const std::string& folder : o.models) {
    OpenedModel model(folder);
    const auto op = make_ops();
    ThreadPool pool(available_processors());
    SequenceOptions options;
    options.passes = 1;
    options.warmup_passes = 0;
    options.sanity = false;
    options.max_length = model.spec().max_positions;
    const SequencePlan sequences = plan_sequences(given_prompts(folder), options);
    const MemoryPlan plan = plan_of(model, *op, sequences);
    run(model, *op, pool, sequences, plan, Taps::All);
    Values seconds;
    for (int i = 0; i < o.rounds; ++i) seconds.push_back(run(model, *op, pool, sequences, plan, Taps::All));
    print("P13", fs::path(folder).filename().string() + ", all statistics", "s", seconds,
          {{"tokens", sequences.n_tokens()}});
  }
}

void bench_models(const Options& o) {
  for (const std::string& folder : o.models) bench_model(o, folder);
}

}  // namespace kvcal::bench
