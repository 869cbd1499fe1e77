// For every Ops that stands around another one: all ops as calls of one function.
#pragma once

#include "ops/op_list.h"
#include "ops/ops.h"

namespace kvcal {

/// An Ops whose memory and weights are those of another one.
class OpsAround : public Ops {
 public:
  explicit OpsAround(Ops& inner) : Ops(inner.precision()), inner_(inner) {}

  std::string isa() const override { return inner_.isa(); }
  std::vector<std::string> notes() const override { return inner_.notes(); }
  Tensor temporary(const Shape& shape, DType dtype) override { return inner_.temporary(shape, dtype); }
  void end_batch() override { inner_.end_batch(); }
  Owned allocate(const Shape& shape, DType dtype) override { return inner_.allocate(shape, dtype); }
  Tensor upload(const Tensor& host) override { return inner_.upload(host); }
  void download(const Tensor& from, const Tensor& host) override { inner_.download(from, host); }
  Mark mark() override { return inner_.mark(); }
  void download_at(const Mark& mark, const Tensor& from, const Tensor& host) override {
    inner_.download_at(mark, from, host);
  }

 protected:
  Linear do_load_linear(const Tensor& w, const Tensor& b) override { return inner_.load_linear(w, b); }
  Linear do_load_linear_f32(const Tensor& w, const Tensor& b) override { return inner_.load_linear_f32(w, b); }
  Owned do_load_vector(const Tensor& w, DType as, float plus) override { return load_vector(inner_, w, as, plus); }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& w, const Tensor& e, int64_t n) override {
    return inner_.load_column_norms(w, e, n);
  }
  LinearGroup do_load_linears(std::span<const HostLinear> w) override { return inner_.load_linears(w); }

  /// The public call behind which do_load_vector() stands.
  static Owned load_vector(WeightLoader& loader, const Tensor& w, DType as, float plus) {
    if (as == DType::F32 && plus == 0) return loader.load_f32(w);
    return loader.load_gain(w, plus == 0 ? Gain::Plain : Gain::OnePlus);
  }

  Ops& inner_;
};

/// Every op is Self's call(name, op, arguments...): a template that gets the op's name and public member of Ops.
template <class Self>
class EachOp : public OpsAround {
 public:
  using OpsAround::OpsAround;

 protected:
#define KVCAL_CALL(Result, name, parameters, ...) \
  Result do_##name parameters override { return static_cast<Self&>(*this).call(#name, &Ops::name, __VA_ARGS__); }

  KVCAL_OPS(KVCAL_CALL)
  KVCAL_COMPOSED_OPS(KVCAL_CALL)
#undef KVCAL_CALL
};

}  // namespace kvcal
