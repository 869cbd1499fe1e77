#include "capacity/fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "deployment/cache_choices.h"

namespace kvcal {

void check(const Deployment& d, const ModelSpec& spec) {
  constexpr int64_t kMostGpus = int64_t{1} << 20;
  if (d.gpus < 1 || d.gpus > kMostGpus) fail("--gpus is " + std::to_string(d.gpus) + ", expected at least 1");
  if (d.tp < 1 || d.gpus % d.tp != 0)
    fail("--tp is " + std::to_string(d.tp) + " and --gpus " + std::to_string(d.gpus) +
         ": the GPUs must be a whole number of tensor-parallel groups");
  if (!(d.utilization > 0 && d.utilization <= 1))
    fail("--gpu-memory-utilization is " + std::to_string(d.utilization) + ", expected more than 0 and at most 1");
  check_tensor_parallel(spec, d.tp);
}

Budget budget_of(const Deployment& d, const WeightBytes& weights) {
  Budget b;
  b.usable = static_cast<int64_t>(std::floor(static_cast<double>(d.gpu_memory) * d.utilization));
  const auto tp = static_cast<uint64_t>(d.tp);
  b.weights = static_cast<int64_t>((weights.bytes + tp - 1) / tp);
  b.allowance = static_cast<int64_t>(d.allowance);
  return b;
}

Fit::Fit(const Deployment& deployment, const Budget& budget, SequenceCost cost)
    : replicas_(deployment.replicas()), bytes_(std::max<int64_t>(0, budget.cache())), cost_(std::move(cost)) {}

int64_t Fit::sequences(int64_t context) const {
  const int64_t bytes = std::max<int64_t>(1, cost_.bytes(context));
  return bytes_ / bytes * replicas_;
}

int64_t Fit::context(int64_t concurrency, int64_t longest) const {
  int64_t fits = 0, too_long = longest + 1;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (holds(concurrency, middle) ? fits : too_long) = middle;
  }
  return fits;
}

namespace {

const char* type_of(KvFormat format) {
  if (format == KvFormat::FP8) return "fp8_e4m3";
  return format == KvFormat::NVFP4 ? "nvfp4" : "int4_per_token_head";
}

/// Of heads that not every kernel of every version takes; 0: there are none.
int64_t odd_width(const ModelSpec& spec) {
  for (const KvLayout& c : spec.caches)
    if (c.head_dim_k != 128 && c.head_dim_k != 256) return c.head_dim_k;
  return 0;
}

void add_after(std::string& list, const char* separator, const std::string& item) {
  list += (list.empty() ? "" : separator) + item;
}

}  // namespace

FormatOffer offer_of(const Deployment& d, KvFormat format, const ModelSpec& spec) {
  if (std::string why = why_not_planned(spec, format); !why.empty()) return {format, Trait::No, std::move(why)};
  const bool latent = std::ranges::any_of(spec.caches, &KvLayout::is_mla);
  const CachePlace place = {&d.gpu, trait_of(latent), odd_width(spec)};
  const std::vector<NamedEngine> servers =
      d.server ? std::vector{*d.server} : std::vector<NamedEngine>{{Engine::Vllm, {}}, {Engine::Sglang, {}}};
  FormatOffer offer = {format, Trait::No, ""};
  std::string takers, others;
  for (const NamedEngine& server : servers) {
    const CacheService service = cache_service(server, type_of(format), place);
    const std::string name = str(server.server, service.version);
    if (service.served != Trait::No && offer.served != Trait::Yes) offer.served = service.served;
    if (service.served == Trait::Yes)
      add_after(takers, ", ", name);
    else
      add_after(others, "; ", name + ": " + service.why);
  }
  offer.text = takers.empty() || others.empty() ? others : takers + " alone (" + others + ")";
  return offer;
}

const FormatOffer& Capacity::offer(KvFormat format) const {
  return *std::ranges::find(offers, format, &FormatOffer::format);
}

bool Capacity::has(KvFormat format) const {
  return std::ranges::any_of(fits, [&](const auto& fit) { return fit.first == format; });
}

const Fit& Capacity::at(KvFormat format) const {
  return std::ranges::find_if(fits, [&](const auto& fit) { return fit.first == format; })->second;
}

Capacity capacity_of(const ModelSpec& spec, const Deployment& deployment, const WeightBytes& weights) {
  check(deployment, spec);
  Capacity c = {deployment, weights, budget_of(deployment, weights), {}, {}, {}};
  const auto add = [&](KvFormat format) {
    c.fits.emplace_back(format,
                        Fit(deployment, c.budget,
                            cost_of_sequence(spec, format, deployment.tp, deployment.kept_layers, deployment.state)));
  };
  add(KvFormat::BF16);
  for (const KvFormat format : {KvFormat::FP8, KvFormat::NVFP4, KvFormat::INT4}) {
    c.offers.push_back(offer_of(deployment, format, spec));
    if (format == KvFormat::FP8 || c.offers.back().served == Trait::Yes) add(format);
  }
  if (!deployment.recipe.empty())
    c.recipe = Fit(deployment, c.budget, cost_of_sequence(spec, deployment.recipe, deployment.tp, deployment.state));
  return c;
}

int64_t tokens_in(const Budget& budget, const SequenceCost& cost) {
  return std::max<int64_t>(0, budget.cache()) / std::max<int64_t>(1, cost.bytes_per_token());
}

int64_t longest_context(const ModelSpec& spec) {
  return spec.max_positions > 0 ? spec.max_positions : int64_t{1} << 20;
}

std::vector<int64_t> usual_contexts(const ModelSpec& spec) {
  const int64_t longest = longest_context(spec);
  std::vector<int64_t> contexts;
  for (int64_t context = 4096; context < longest; context *= 2) contexts.push_back(context);
  contexts.push_back(longest);
  return contexts;
}

}  // namespace kvcal
