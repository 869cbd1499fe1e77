#include "kernels/residual_rows.h"

#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

void copy(const Tensor& to, const Tensor& from, cudaMemcpyKind kind, cudaStream_t stream) {
  if (from.bytes() > 0)
    check(cudaMemcpyAsync(to.data, from.data, from.bytes(), kind, stream), "copying rows " + str(from));
}

void wait_for(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "waiting for the device"); }

}  // namespace

// ---------------------------------------------------------------- in the memory of the device

void DeviceRows::save(int64_t row, const Tensor& x) {
  copy(rows_.view.rows(row, x.dim(0)), x, cudaMemcpyDeviceToDevice, stream_);
}

Tensor DeviceRows::on_host() {
  if (!host_) host_ = Storage(rows_.view.shape, rows_.view.dtype);
  copy(host_.tensor(), rows_.view, cudaMemcpyDeviceToHost, stream_);
  wait_for(stream_);
  return host_.tensor();
}

void DeviceRows::take_host() {
  copy(rows_.view, host_.tensor(), cudaMemcpyHostToDevice, stream_);
  wait_for(stream_);
}

// ---------------------------------------------------------------- in pinned memory of the host

PinnedRows::PinnedRows(const ResidualShape& shape, DType dtype, std::array<Owned, 2> stages, cudaStream_t compute)
    : rows_{nullptr, {shape.n_tokens, shape.hidden}, dtype},
      compute_(compute),
      copies_(make_stream()),
      worked_(make_event()) {
  memory_ = allocate_pinned(rows_.bytes());
  rows_.data = memory_.get();
  for (size_t i = 0; i < stages.size(); ++i) stages_[i].memory = std::move(stages[i]);
}

// Before the memory goes that copies still read and write.
PinnedRows::~PinnedRows() { static_cast<void>(cudaStreamSynchronize(copies_.get())); }

void PinnedRows::fill(Stage& stage, int64_t row, int64_t n) {
  order_after(copies_.get(), compute_, worked_);  // who reads or writes the stage has been queued before
  copy(stage.memory.view.rows(0, n), rows_.rows(row, n), cudaMemcpyHostToDevice, copies_.get());
  check(cudaEventRecord(stage.filled.get(), copies_.get()), "recording an event");
  stage.row = row;
  stage.n = n;
}

void PinnedRows::forget(int64_t row, int64_t n) {
  for (Stage& s : stages_)
    if (s.row >= 0 && row < s.row + s.n && s.row < row + n) s.row = -1;
}

Tensor PinnedRows::load(int64_t row, int64_t n) {
  current_ ^= 1;
  Stage& stage = stages_[current_];
  if (stage.row != row || stage.n != n) fill(stage, row, n);
  check(cudaStreamWaitEvent(compute_, stage.filled.get(), 0), "letting a stream wait for rows");
  loaded_ = true;
  return stage.memory.view.rows(0, n);
}

void PinnedRows::expect(int64_t row, int64_t n) {
  const Stage& stage = stages_[current_];
  if (loaded_ && row < stage.row + stage.n && stage.row < row + n) return;  // they are being changed
  fill(stages_[current_ ^ 1], row, n);
}

void PinnedRows::save(int64_t row, const Tensor& x) {
  if (!loaded_) current_ ^= 1;
  loaded_ = false;
  Stage& stage = stages_[current_];
  const int64_t n = x.dim(0);
  const Tensor room = stage.memory.view.rows(0, n);
  forget(row, n);
  stage.row = -1;
  check(cudaStreamWaitEvent(compute_, stage.emptied.get(), 0), "letting a stream wait for rows");
  copy(room, x, cudaMemcpyDeviceToDevice, compute_);
  order_after(copies_.get(), compute_, worked_);
  copy(rows_.rows(row, n), room, cudaMemcpyDeviceToHost, copies_.get());
  check(cudaEventRecord(stage.emptied.get(), copies_.get()), "recording an event");
}

Tensor PinnedRows::on_host() {
  wait_for(copies_.get());
  return rows_;
}

void PinnedRows::take_host() {
  for (Stage& s : stages_) s.row = -1;
}

}  // namespace kvcal::cuda
