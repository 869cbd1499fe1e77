// What the CPU path reaches of what the machine can do, all in one run and in turns:
//
//   cpu_bench MODEL [--threads N] [--tokens N] [--rounds N]
//
// 1. Every shape of matrix product in the model: `linear`, made of fixed panels, against oneDNN's own choice for the
//    whole product.
// 2. The model: seconds of its products alone (from 1; what a token meets of each), of a run without and with
//    statistics; its rate in floating-point operations, those of attention and delta nets included, as a share of the
//    products' rate.
// 3. With --threads 2 and more: how products and run scale from one thread.
// Prints a table with medians and the spread, and ends with one JSON object.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "bench/model_work.h"
#include "calibrate/opened_model.h"
#include "ops/cpu/cpu_ops.h"
#include "prefill/memory_plan.h"
#include "prefill/runner.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

struct Options {
  std::string model;
  int threads = available_processors();
  int64_t tokens = 4096, prompt = 512, chunk = 0;  // chunk: as a run would have it
  int rounds = 5;
};

/// Seconds of each round.
using Times = std::vector<double>;

double median(Times t) {
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}

std::string spread(const Times& t) {
  const auto [least, most] = std::minmax_element(t.begin(), t.end());
  char text[64];
  std::snprintf(text, sizeof text, "%.3f (%.3f..%.3f)", median(t), *least, *most);
  return text;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Storage random_rows(int64_t rows, int64_t columns) {
  Storage s({rows, columns}, DType::BF16);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * columns; ++i) s.tensor().as<bf16>()[i] = to_bf16(normal(random));
  return s;
}

/// oneDNN's choice for the whole product, weights packed as it likes, f32 accumulation, bf16 result.
class FreeProduct {
 public:
  FreeProduct(const Tensor& x, const Tensor& w) : y_({x.dim(0), w.dim(0)}, DType::BF16) {
    using dnnl::memory;
    const auto bf16_type = memory::data_type::bf16;
    const memory::desc source({x.dim(0), x.dim(1)}, bf16_type, memory::format_tag::ab);
    const memory::desc weight({w.dim(1), w.dim(0)}, bf16_type, memory::format_tag::any);
    const memory::desc target({x.dim(0), w.dim(0)}, bf16_type, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc pd(engine_, source, weight, target);
#else
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(source, weight, target), engine_);
#endif
    const memory plain({{w.dim(1), w.dim(0)}, bf16_type, memory::format_tag::ba}, engine_, w.data);
    memory packed(pd.weights_desc(), engine_);
    dnnl::reorder(plain, packed).execute(stream_, const_cast<memory&>(plain), packed);
    stream_.wait();
    primitive_ = dnnl::matmul(pd);
    arguments_ = {{DNNL_ARG_SRC, memory(source, engine_, x.data)},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_DST, memory(target, engine_, y_.tensor().data)}};
  }

  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Storage y_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct ProductTimes {
  Times panels, free_choice;
};

/// One product of [tokens, in] rows, in batches as the runner makes them for the panels, at once for oneDNN.
ProductTimes time_product(const Options& o, int threads, int64_t out, int64_t in) {
  const auto op = make_cpu_ops({.threads = threads});
  const Storage x = random_rows(o.tokens, in), w = random_rows(out, in);
  const Linear linear = op->load_linear(w.tensor(), {});
  omp_set_num_threads(threads);
  FreeProduct free_choice(x.tensor(), w.tensor());
  const auto panels = [&] {
    for (int64_t row = 0; row < o.tokens; row += o.chunk) {
      op->linear(x.tensor().rows(row, std::min(o.chunk, o.tokens - row)), linear);
      op->end_batch();
    }
  };
  panels();
  free_choice.run();
  ProductTimes t;
  for (int round = 0; round < o.rounds; ++round) {
    t.panels.push_back(seconds_of(panels));
    omp_set_num_threads(threads);
    t.free_choice.push_back(seconds_of([&] { free_choice.run(); }));
  }
  return t;
}

std::vector<PromptTokens> random_prompts(const Options& o, int64_t vocab) {
  std::mt19937 random(2);
  std::vector<PromptTokens> prompts;
  for (int64_t at = 0; at < o.tokens; at += o.prompt) {
    PromptTokens p{"prompt-" + std::to_string(100000 + at), {}, 1};
    for (int64_t i = 0; i < o.prompt; ++i)
      p.ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
    prompts.push_back(std::move(p));
  }
  return prompts;
}

double time_run(OpenedModel& model, const Options& o, int threads, bool statistics) {
  const auto op = make_cpu_ops({.threads = threads});
  ThreadPool pool(threads);
  SequenceOptions sequences;
  sequences.passes = 1;
  sequences.warmup_passes = 0;
  sequences.sanity = false;
  const SequencePlan plan = plan_sequences(random_prompts(o, model.spec().vocab), sequences);
  std::vector<std::string> ids;
  for (const PromptTokens& p : plan.prompts) ids.push_back(p.id);
  NoTap away;
  Observer observer(model.spec(), {1, ids, segments_of(plan.measured)}, pool, op.get());
  KvTap* tap = statistics ? static_cast<KvTap*>(&observer) : &away;
  return seconds_of([&] {
    Runner(*model.model, *op, model.weights, o.chunk)
        .run({{&plan.measured, tap, Until::LastKv, nullptr}}, plan.prompts);
  });
}

struct Result {
  double products = 0;  // seconds of all products that are run, by themselves
  Times bare, observed;
};

Result measure(OpenedModel& model, const Options& o, int threads, Json& json) {
  std::printf("%d thread%s, %lld tokens\n%-16s %7s %24s %24s %7s\n", threads, threads == 1 ? "" : "s",
              static_cast<long long>(o.tokens), "out x in", "times", "panels GFLOP/s", "free choice GFLOP/s", "ratio");
  Result r;
  double free_total = 0, product_flops = 0;
  for (const bench::ModelProduct& p : bench::products_of(model)) {
    const ProductTimes t = time_product(o, threads, p.out, p.in);
    const double flops = 2e-9 * static_cast<double>(o.tokens * p.out * p.in);
    const auto rates = [&](Times times) {
      for (double& s : times) s = flops / s;
      return spread(times);
    };
    std::printf("%6lld x %-7lld %7.2f %24s %24s %7.3f\n", static_cast<long long>(p.out), static_cast<long long>(p.in),
                p.per_token, rates(t.panels).c_str(), rates(t.free_choice).c_str(),
                median(t.free_choice) / median(t.panels));
    r.products += p.per_token * median(t.panels);
    product_flops += p.flops();
    free_total += p.per_token * median(t.free_choice);
  }
  for (int round = 0; round < std::max(3, o.rounds / 2); ++round) {
    r.bare.push_back(time_run(model, o, threads, false));
    r.observed.push_back(time_run(model, o, threads, true));
  }
  std::printf("products of all layers alone   %.3f s, %.3f of oneDNN's free choice\n", r.products,
              free_total / r.products);
  std::printf("run without statistics         %s s: products are %.3f of it\n", spread(r.bare).c_str(),
              r.products / median(r.bare));
  std::printf("run with all statistics        %s s: products are %.3f of it, statistics add %.1f %%\n",
              spread(r.observed).c_str(), r.products / median(r.observed),
              100 * (median(r.observed) / median(r.bare) - 1));
  const double rate = r.products / median(r.observed) * (1 + bench::mixing_flops(model, o.prompt) / product_flops);
  std::printf("rate of the model, with statistics, %.3f of the products' rate\n\n", rate);
  json["threads"][std::to_string(threads)] = {{"rate_of_products", rate},
                                              {"products_seconds", r.products},
                                              {"panels_of_free_choice", free_total / r.products},
                                              {"run_seconds", median(r.bare)},
                                              {"run_with_statistics_seconds", median(r.observed)}};
  return r;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] { return i + 1 < argc ? std::stoll(argv[++i]) : 0; };
    if (!std::strcmp(argv[i], "--threads"))
      o.threads = static_cast<int>(value());
    else if (!std::strcmp(argv[i], "--tokens"))
      o.tokens = value();
    else if (!std::strcmp(argv[i], "--rounds"))
      o.rounds = static_cast<int>(value());
    else
      o.model = argv[i];
  }
  if (o.model.empty() || o.threads < 1 || o.tokens < o.prompt || o.rounds < 1)
    fail("usage: cpu_bench MODEL [--threads N] [--tokens N, at least 512] [--rounds N]");
  return o;
}

int run(int argc, char** argv) {
  Options o = parse(argc, argv);
  OpenedModel model(o.model);
  o.chunk = useful_rows(model.spec());
  Json json{{"model", o.model}, {"isa", make_cpu_ops({.threads = 1})->isa()}, {"tokens", o.tokens}};
  const Result all = measure(model, o, o.threads, json);
  if (o.threads > 1) {
    const Result one = measure(model, o, 1, json);
    const double products = one.products / all.products, whole = median(one.observed) / median(all.observed);
    std::printf("from 1 to %d threads: products %.2fx, run %.2fx, that is %.3f of it\n", o.threads, products, whole,
                whole / products);
    json["scaling"] = {{"products", products}, {"run", whole}};
  }
  std::printf("%s\n", json.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace kvcal

int main(int argc, char** argv) {
  try {
    return kvcal::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cpu_bench: %s\n", e.what());
    return 2;
  }
}
