// Panel products through oneDNN: bf16 x bf16 -> f32 on AMX or AVX-512 BF16.
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "ops/cpu/panel_product.h"

namespace kvcal::cpu {
namespace {

using dnnl::matmul;
using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

/// Work for oneDNN on the calling thread alone, whatever OMP_NUM_THREADS says. A primitive depends on the number of
/// threads at its creation too.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;  // the setting is the calling thread's own
};

/// Where memory for its generated code is refused, oneDNN 2 goes on with a null pointer: asked for before it does.
void require_room() {
  constexpr size_t kBytes = size_t{4} << 20;  // a primitive's code takes 256 KiB at a time
  void* const room = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) fail("out of memory: " + std::to_string(kBytes) + " bytes for the code of a matrix product");
  ::munmap(room, kBytes);
}

template <class F>
auto named(F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    fail(std::string("oneDNN: ") + e.what());
  }
}

class OneDnnProduct final : public PanelProduct {
 public:
  explicit OneDnnProduct(const PanelShape& shape) : PanelProduct(shape), n_(shape.n), k_(shape.k) {
    // The weight's layout is the dense primitive's choice; all others are made to read it.
    Variant& dense = variants_[0];
    std::call_once(dense.made, [&] {
      make(dense, kRows, memory::desc({k_, n_}, memory::data_type::bf16, memory::format_tag::any), false);
    });
    packed_ = dense.weight;
  }

  size_t packed_bytes() const override { return packed_.get_size(); }

  void pack(const void* w, void* packed) const override {
    require_room();
    named([&] {
      const OneThread guard;
      const memory from({{k_, n_}, memory::data_type::bf16, memory::format_tag::ba}, engine(), const_cast<void*>(w));
      memory to(packed_, engine(), packed);
      dnnl::stream stream(engine());
      dnnl::reorder(from, to).execute(stream, const_cast<memory&>(from), to);
      stream.wait();
    });
  }

  size_t scratch_bytes(int64_t rows, bool accumulate) const override {
    return variant(rows, accumulate).scratch.get_size();
  }

  void run(int64_t rows, const void* x, const void* packed, float* y, bool accumulate, void* scratch) const override {
    named([&] {
      const OneThread guard;
      const Variant& v = variant(rows, accumulate);
      dnnl::stream stream(engine());
      v.primitive.execute(stream, {{DNNL_ARG_SRC, memory(v.source, engine(), const_cast<void*>(x))},
                                   {DNNL_ARG_WEIGHTS, memory(packed_, engine(), const_cast<void*>(packed))},
                                   {DNNL_ARG_DST, memory(v.target, engine(), y)},
                                   {DNNL_ARG_SCRATCHPAD, memory(v.scratch, engine(), scratch)}});
      stream.wait();
    });
  }

 private:
  struct Variant {
    std::once_flag made;
    memory::desc source, weight, target, scratch;
    matmul primitive;
  };

  const Variant& variant(int64_t rows, bool accumulate) const {
    Variant& v = variants_[2 * panel_rows_index(rows) + (accumulate ? 1 : 0)];
    std::call_once(v.made, [&] { make(v, rows, packed_, accumulate); });
    return v;
  }

  void make(Variant& v, int64_t rows, const memory::desc& weight, bool accumulate) const {
    const OneThread guard;
    require_room();
    named([&] {
      v.source = memory::desc({rows, k_}, memory::data_type::bf16, memory::dims{shape().x_stride, 1});
      v.target = memory::desc({rows, n_}, memory::data_type::f32, memory::format_tag::ab);
      dnnl::primitive_attr attr;
      attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      if (accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        attr.set_post_ops(sum);
      }
#if DNNL_VERSION_MAJOR >= 3
      const matmul::primitive_desc pd(engine(), v.source, weight, v.target, attr);
#else
      const matmul::primitive_desc pd(matmul::desc(v.source, weight, v.target), attr, engine());
#endif
      v.weight = pd.weights_desc();
      v.scratch = pd.scratchpad_desc();
      v.primitive = matmul(pd);
    });
  }

  int64_t n_, k_;
  mutable std::array<Variant, 2 * kPanelRows.size()> variants_;  // [row counts][overwrite, accumulate]
  memory::desc packed_;
};

class OneDnnProducts final : public PanelProducts {
 public:
  explicit OneDnnProducts(std::string isa) : isa_(std::move(isa)) {}
  std::string isa() const override { return isa_; }

 private:
  std::shared_ptr<const PanelProduct> make(const PanelShape& shape) override {
    return std::make_shared<OneDnnProduct>(shape);
  }

  std::string isa_;
};

}  // namespace

std::unique_ptr<PanelProducts> make_onednn_products() {
  // The values are sets of features, so that later processors contain the earlier ones.
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl::cpu_isa::avx512_core_amx)) return std::make_unique<OneDnnProducts>("amx_bf16");
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return std::make_unique<OneDnnProducts>("avx512_bf16");
  return nullptr;
}

}  // namespace kvcal::cpu
