// The factory, memory and weights, copies, statistics.
#include "kernels/cuda_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/cublaslt_gemm.h"
#include "kernels/cuda_backend.h"
#include "kernels/gemm_kernels.h"
#include "kernels/kernels.h"
#include "kernels/runtime/device.h"

namespace kvcal {

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options, std::unique_ptr<cuda::AttentionLibrary> attention) {
  cuda::use_device(options.device);
  return std::make_unique<cuda::CudaBackend>(options, std::make_unique<cuda::CublasLtGemm>(), std::move(attention));
}

namespace cuda {

CudaBackend::CudaBackend(const CudaOptions& options, std::unique_ptr<Gemm> gemm,
                         std::unique_ptr<AttentionLibrary> attention)
    : Ops(options.precision),
      device_(options.device),
      gemm_(std::move(gemm)),
      attention_(std::move(attention)),
      stream_(make_stream()),
      fetching_(make_stream()),
      arena_(stream_.get()),
      staging_(stream_.get()),
      reader_(options.device, stream_.get(), options.reader) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, options.device), "asking for the properties of the device");
  shared_limit_ = properties.sharedMemPerBlockOptin;
  n_processors_ = properties.multiProcessorCount;
  isa_ = "cuda_sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  arena_.poison_on_reset(options.poison_temporaries);
  probe(stream_.get());
  warpgroups_ = has_warpgroups();
}

void CudaBackend::enter_thread() { check(cudaSetDevice(device_), "opening CUDA device " + std::to_string(device_)); }

std::string CudaBackend::isa() const {
  // Which shapes the library refuses depends on its version and the device alone.
  const std::string library = attention_ && precision() == Precision::BF16 ? attention_->identity() : "";
  return library.empty() ? isa_ : isa_ + "-" + library;
}

std::vector<std::string> CudaBackend::notes() const {
  std::vector<std::string> all = notes_;
  for (const std::string& note : gemm_->notes()) all.push_back(note);
  if (attention_) all.insert(all.end(), attention_->notes().begin(), attention_->notes().end());
  return all;
}

void* data_of(const Tensor& t) {
  if (t.device != Device::Cuda) fail("got " + str(t) + " in host memory, expected device memory");
  return t.data;
}

Shape with_first(const Shape& shape, int64_t extent) {
  std::vector<int64_t> extents{extent};
  for (int i = 1; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return Shape(extents);
}

Shape with_last(const Shape& shape, int64_t extent) {
  std::vector<int64_t> extents;
  for (int i = 0; i + 1 < shape.rank(); ++i) extents.push_back(shape[i]);
  extents.push_back(extent);
  return Shape(extents);
}

// ---------------------------------------------------------------- memory

void CudaBackend::copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying " + std::to_string(bytes) + " bytes");
}

Tensor CudaBackend::upload(const Tensor& host) {
  if (host.device != Device::Host) fail("upload: " + str(host) + " is not in host memory");
  const Tensor t = temporary(host.shape, host.dtype);
  copy(t.data, host.data, host.bytes(), cudaMemcpyHostToDevice);
  return t;
}

void CudaBackend::download(const Tensor& from, const Tensor& host) {
  if (from.dtype != host.dtype || from.elements() != host.elements())
    fail("download: " + str(from) + " does not fit " + str(host));
  copy(host.data, data_of(from), host.bytes(), cudaMemcpyDeviceToHost);
  check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
}

Ops::Mark CudaBackend::mark() {
  auto event = std::make_shared<Event>(make_event());
  check(cudaEventRecord(event->get(), stream_.get()), "recording an event");
  return event;
}

void CudaBackend::download_at(const Mark& mark, const Tensor& from, const Tensor& host) {
  if (!mark || from.dtype != host.dtype || from.elements() != host.elements())
    fail("download_at: " + str(from) + " does not fit " + str(host) + ", or has no mark");
  const cudaStream_t stream = fetching_.get();
  check(cudaStreamWaitEvent(stream, static_cast<const Event*>(mark.get())->get(), 0), "waiting for a mark");
  if (host.bytes() > 0)
    check(cudaMemcpyAsync(host.data, data_of(from), host.bytes(), cudaMemcpyDeviceToHost, stream),
          "copying " + str(from) + " to the host");
  check(cudaStreamSynchronize(stream), "waiting for the device");
}

// ---------------------------------------------------------------- weights

void CudaBackend::load_into(const Tensor& device, const Tensor& host, float plus) {
  if (host.device == Device::Stored) {
    if (!reader_.collecting() || plus != 0)
      fail("a weight that is only stored, " + str(host) + ", cannot be loaded so");
    return load_stored(device, host);
  }
  if (reader_.collecting()) return reader_.add(host, device, plus);
  const auto n = static_cast<size_t>(host.elements());
  const Storage converted(host.shape, device.dtype);
  if (device.dtype == DType::BF16) {
    convert_to_bf16(host.dtype, host.data, converted.tensor().as<bf16>(), n);
  } else {
    float* values = converted.tensor().as<float>();
    convert_to_float(host.dtype, host.data, values, n);
    if (plus != 0.0f)
      for (size_t i = 0; i < n; ++i) values[i] = plus + values[i];
  }
  copy(device.data, converted.tensor().data, converted.tensor().bytes(), cudaMemcpyHostToDevice);
}

Owned CudaBackend::load(const Tensor& host, DType as, float plus) {
  const Owned o = uninitialised(host.shape, as);
  load_into(o.view, host, plus);
  return o;
}

Owned CudaBackend::do_load_vector(const Tensor& weight, DType as, float plus) { return load(weight, as, plus); }

/// BF16 where that is exact: the library adds to bf16 results no other bias.
DType CudaBackend::bias_type(const Tensor& bias) const {
  const auto n = static_cast<size_t>(bias.elements());
  std::vector<float> values(n);
  convert_to_float(bias.dtype, bias.data, values.data(), n);
  const bool exact =
      std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x) || round_to_bf16(x) == x; });
  return exact && precision() == Precision::BF16 ? DType::BF16 : DType::F32;
}

Linear CudaBackend::do_load_linear(const Tensor& weight, const Tensor& bias) {
  Linear linear{
      weight.dim(1), weight.dim(0), std::make_shared<const Owned>(load(weight, activation_dtype(), 0.0f)), {}};
  if (bias) linear.bias = load(bias, bias_type(bias), 0.0f);
  return linear;
}

Linear CudaBackend::do_load_linear_f32(const Tensor& weight, const Tensor& bias) {
  const DType as = weight.dtype == DType::BF16 ? activation_dtype() : DType::F32;
  Linear linear{weight.dim(1), weight.dim(0), std::make_shared<const Owned>(load(weight, as, 0.0f)), {}};
  if (bias) linear.bias = load(bias, DType::F32, 0.0f);
  return linear;
}

void CudaBackend::multiply(const Tensor& x, const Linear& w, const Tensor& y) {
  const int64_t rows = x.elements() / w.in;
  data_of(x);
  gemm_->multiply(x.reshaped({rows, w.in}), weight_of(w), w.bias.view, y.reshaped({rows, w.out}), stream_.get());
}

Tensor CudaBackend::do_linear(const Tensor& x, const Linear& w) {
  const Tensor y = activation(with_last(x.shape, w.out));
  multiply(x, w, y);
  return y;
}

Tensor CudaBackend::do_linear_f32(const Tensor& x, const Linear& w) {
  const Tensor y = temporary(with_last(x.shape, w.out), DType::F32);
  if (weight_of(w).dtype == x.dtype) {
    multiply(x, w, y);
    return y;
  }
  const Tensor wide = temporary(x.shape, DType::F32);
  widen_values(static_cast<const bf16*>(data_of(x)), data_as<float>(wide), x.elements(), stream_.get());
  multiply(wide, w, y);
  return y;
}

// ---------------------------------------------------------------- copies

/// rows[i] = table[ids[i]], converted. Several threads: pages of the checkpoint come one fault at a time.
void CudaBackend::gather_rows(const Tensor& table, std::span<const int32_t> ids, const Tensor& rows) {
  constexpr int64_t kTask = 64;  // rows
  const auto n = static_cast<int64_t>(ids.size());
  const auto dim = static_cast<size_t>(table.dim(1));
  const auto gather = [&](int64_t task, int) {
    for (int64_t t = task * kTask; t < std::min(n, (task + 1) * kTask); ++t) {
      const void* const from = table.rows(ids[static_cast<size_t>(t)], 1).data;
      const Tensor to = rows.rows(t, 1);
      if (to.dtype == DType::BF16)
        convert_to_bf16(table.dtype, from, to.as<bf16>(), dim);
      else
        convert_to_float(table.dtype, from, to.as<float>(), dim);
    }
  };
  if (n <= kTask) return gather(0, 0);
  constexpr int kMostThreads = 8;
  if (!gatherers_) gatherers_.emplace(std::min(kMostThreads, available_processors()));
  gatherers_->parallel_for((n + kTask - 1) / kTask, gather);
}

/// Through pinned memory: the device copies one strip of rows while the next is gathered.
Tensor CudaBackend::do_embed(const Tensor& table, std::span<const int32_t> ids) {
  const auto n = static_cast<int64_t>(ids.size());
  const Tensor y = activation({n, table.dim(1)});
  const auto row_bytes = static_cast<int64_t>(y.bytes()) / std::max<int64_t>(n, 1);
  const int64_t most = static_cast<int64_t>(PinnedStaging::kBlockBytes) / std::max<int64_t>(row_bytes, 1);
  if (most == 0)
    fail("embed: a row of " + str(table) + " is larger than " + std::to_string(PinnedStaging::kBlockBytes));
  for (int64_t row = 0; row < n; row += most) {
    const Tensor to = y.rows(row, std::min(most, n - row));
    const Tensor strip{staging_.take(to.bytes()), to.shape, to.dtype, Device::Host};
    gather_rows(table, ids.subspan(static_cast<size_t>(row), static_cast<size_t>(to.dim(0))), strip);
    copy(to.data, strip.data, to.bytes(), cudaMemcpyHostToDevice);
  }
  return y;
}

Tensor CudaBackend::do_columns(const Tensor& x, int64_t from, int64_t n) {
  const Tensor y = temporary(with_last(x.shape, n), x.dtype);
  const size_t element = size_of(x.dtype), pitch = static_cast<size_t>(width_of(x)) * element,
               bytes = static_cast<size_t>(n) * element;
  if (y.elements() > 0)
    check(cudaMemcpy2DAsync(y.data, bytes, data_as<char>(x) + static_cast<size_t>(from) * element, pitch, bytes,
                            static_cast<size_t>(rows_of(x)), cudaMemcpyDeviceToDevice, stream_.get()),
          "copying columns of " + str(x));
  return y;
}

Tensor CudaBackend::do_take_rows(const Tensor& x, std::span<const int64_t> rows) {
  const Tensor y = temporary(with_first(x.shape, static_cast<int64_t>(rows.size())), x.dtype);
  if (y.elements() > 0)
    cuda::take_rows(data_of(x), y.data, device_copy(rows), static_cast<int64_t>(rows.size()),
                    static_cast<int64_t>(x.bytes()) / x.dim(0), stream_.get());
  return y;
}

// ---------------------------------------------------------------- statistics

void CudaBackend::do_accumulate(const Tensor& x, const TapTables& tables, std::span<const TapRows> rows) {
  cuda::accumulate(x.dtype,
                   {data_of(x), static_cast<uint64_t*>(data_of(tables.words)), device_copy(rows),
                    static_cast<int64_t>(rows.size()), x.dim(0), tables.shape, layout_of(tables.shape)},
                   n_processors_, stream_.get());
}

void CudaBackend::do_count_states(std::span<const Tensor> states, const TapTables& tables,
                                  std::span<const TapRows> rows) {
  std::vector<cuda::StateRow> counted;
  for (size_t i = 0; i < states.size(); ++i) counted.push_back({data_as<float>(states[i]), rows[i]});
  cuda::count_states({device_copy(counted), static_cast<uint64_t*>(data_of(tables.words)),
                      static_cast<int64_t>(states.size()), tables.shape, layout_of(tables.shape)},
                     stream_.get());
}

}  // namespace cuda
}  // namespace kvcal
