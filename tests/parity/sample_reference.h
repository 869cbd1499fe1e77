// sample_attention by the formula: dense attention of one row, in double, with every key and value rounded on its own.
#pragma once

#include "parity/sample_inputs.h"

namespace kvcal::test {

/// Every third row and the last, so that tiles of rows have gaps.
inline std::vector<int32_t> some_rows(int64_t n) {
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < n; ++i)
    if (i % 3 == 1 || i == n - 1) rows.push_back(static_cast<int32_t>(i));
  return rows;
}

/// The nearest multiple of the format's step at this magnitude, even where two are as near; its largest at most.
inline double rounded(double x, int rung, SampleFormat format) {
  const double scale = std::ldexp(1.0, rung), y = std::fabs(x) / scale;
  if (y == 0.0) return x;
  const double step = format == SampleFormat::Int8 ? 1.0 : std::ldexp(1.0, std::max(std::ilogb(y), -6) - 3);
  return std::copysign(std::min(std::nearbyint(y / step) * step, largest_of(format)), x) * scale;
}

/// The lowest that clips none of rows [row, end).
inline int rung_of(const Values& x, int64_t row, int64_t end, SampleFormat format) {
  const int64_t width = x.tensor().dim(1) * x.tensor().dim(2);
  double top = 0.0;
  for (int64_t i = row * width; i < end * width; ++i) top = std::max(top, std::fabs(x.real[static_cast<size_t>(i)]));
  return top == 0.0 ? kLeastRung
                    : std::max(kLeastRung, static_cast<int>(std::ceil(std::log2(top / largest_of(format)))));
}

/// The highest rung at which no more than one in so many of the values other than zero is subnormal.
inline int normal_rung(const std::vector<double>& values, size_t in_so_many) {
  std::vector<int> exponents;
  for (const double x : values)
    if (x != 0.0) exponents.push_back(std::ilogb(x));
  std::sort(exponents.begin(), exponents.end());
  return exponents.empty() ? kMostRung : exponents[exponents.size() / in_so_many] + 6;
}

/// Up to which rung rows [0, end) of a head round alike.
inline int alike_of(const Values& x, int64_t head, int64_t end, SampleFormat format) {
  if (format == SampleFormat::Int8) return kNoneAlike;
  const int64_t n_heads = x.tensor().dim(1), width = x.tensor().dim(2);
  const auto at = [&](int64_t t, int64_t d) { return x.real[static_cast<size_t>((t * n_heads + head) * width + d)]; };
  int alike = kMostRung;
  const auto look_at = [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      std::vector<double> token;
      for (int64_t d = 0; d < width; ++d) token.push_back(at(t, d));
      alike = std::min(alike, normal_rung(token, 16));
    }
    for (int64_t d = 0; d < width; ++d) {
      std::vector<double> channel;
      for (int64_t t = from; t < to; ++t) channel.push_back(at(t, d));
      alike = std::min(alike, normal_rung(channel, 16));
    }
  };
  for (int64_t block = 0; block + 64 <= end; block += 64) look_at(block, block + 64);
  look_at(std::max<int64_t>(0, end - 64), end);
  return alike;
}

/// Logarithms of the probabilities of the visible keys, and at the end of that of the sink; keys and query rounded at
/// the rungs that are given.
inline std::vector<double> log_probabilities(const SampleCase& c, const Inputs& in, int64_t row, int64_t head,
                                             const int* rung, const int* query_rung = nullptr) {
  const auto at = [&](double x, const int* r) { return r ? rounded(x, *r, c.format) : x; };
  const int64_t g = head / (c.n_heads / c.n_kv_heads);
  std::vector<double> p;
  for (int64_t j = c.first_key(row); j <= c.last_key(row); ++j) {
    double dot = 0.0;
    for (int64_t d = 0; d < c.key_dim; ++d) {
      const double key = in.k.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.key_dim + d)];
      const double query = in.q.real[static_cast<size_t>((row * c.n_heads + head) * c.key_dim + d)];
      dot += at(query, query_rung) * at(key, rung);
    }
    const double logit = dot * double{in.scale}, cap = double{c.softcap};
    p.push_back(!c.sees(row, head, j) ? -std::numeric_limits<double>::infinity()
                : cap > 0.0           ? cap * std::tanh(logit / cap)
                                      : logit);
  }
  if (c.sinks) p.push_back(in.sinks.real[static_cast<size_t>(head)]);
  const double top = *std::max_element(p.begin(), p.end());
  double total = 0.0;
  for (const double x : p) total += std::exp(x - top);
  for (double& x : p) x -= top + std::log(total);
  return p;
}

/// By rung of the ladders.
struct Figures {
  double output = 0;
  std::vector<double> divergence, change, query_divergence, key_change;
};

/// `lowest` rung of keys, of values, of the query.
inline Figures figures_of(const SampleCase& c, const Inputs& in, int64_t row, int64_t head, const int (&lowest)[3]) {
  const int64_t g = head / (c.n_heads / c.n_kv_heads), first = c.first_key(row), last = c.last_key(row);
  const auto first_of_query = in.q.real.begin() + (row * c.n_heads + head) * c.key_dim;
  const std::vector<double> query(first_of_query, first_of_query + c.key_dim);
  const std::vector<double> log_p = log_probabilities(c, in, row, head, nullptr);
  std::vector<double> p;
  for (const double l : log_p) p.push_back(std::exp(l));
  const auto square = [&](const std::vector<double>& weights, auto value) {  // of Σ_j weight_j value(x_j), by column
    double sum = 0.0;
    for (int64_t d = 0; d < c.value_dim; ++d) {
      double y = 0.0;
      for (int64_t j = first; j <= last; ++j)
        y += weights[static_cast<size_t>(j - first)] *
             value(in.v.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.value_dim + d)]);
      y *= in.norms.real[static_cast<size_t>(head * c.value_dim + d)];
      sum += y * y;
    }
    return sum;
  };
  const auto same = [](double x) { return x; };
  const auto divergence_from = [&](const std::vector<double>& other) {
    double sum = 0.0;
    for (size_t j = 0; j < p.size(); ++j)
      if (p[j] > 0.0) sum += p[j] * (log_p[j] - other[j]);
    return sum;
  };
  const int alike[3] = {alike_of(in.k, g, last + 1, c.format), alike_of(in.v, g, last + 1, c.format),
                        c.format == SampleFormat::Int8 ? kNoneAlike : normal_rung(query, query.size() + 1)};
  // The i-th rung of a ladder, at most `top`; of those that round alike the nearest to 0.
  const auto rung = [&](int i, int size, int site, int top) {
    const int own = i == size - 1 ? 0 : std::min(lowest[site] - c.below + i, top);
    return own < lowest[site] || own > alike[site] ? own : std::clamp(0, lowest[site], alike[site]);
  };
  Figures f;
  f.output = square(p, same);
  for (int i = 0, n = c.request().cache().size(); i < n; ++i) {
    const int key = rung(i, n, 0, std::max(lowest[0] + 4, 0)), value = rung(i, n, 1, std::max(lowest[1] + 4, 0));
    const std::vector<double> other = log_probabilities(c, in, row, head, &key);
    f.divergence.push_back(divergence_from(other));
    f.change.push_back(square(p, [&](double x) { return rounded(x, value, c.format) - x; }));
    std::vector<double> moved;
    for (size_t j = 0; j < p.size(); ++j) moved.push_back(std::exp(other[j]) - p[j]);
    f.key_change.push_back(square(moved, same));
  }
  for (int i = 0, n = c.request().query().size(); i < n; ++i) {
    const int rounds_at = rung(i, n, 2, std::max(lowest[2] + 8, 5));
    f.query_divergence.push_back(divergence_from(log_probabilities(c, in, row, head, nullptr, &rounds_at)));
  }
  return f;
}

/// Relative error of |.|_w² where weights are rounded to bf16 (ops/cpu/sample_products.h).
inline double weight_bound(Precision precision) { return precision == Precision::BF16 ? 0x1p-6 : 0.0; }

}  // namespace kvcal::test
