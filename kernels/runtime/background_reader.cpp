#include "kernels/runtime/background_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

constexpr uint64_t kSector = DirectFile::kAlignment;

uint64_t sector_of(uint64_t offset) { return offset / kSector * kSector; }

/// Pinned memory need not begin at a sector's multiple.
std::byte* aligned(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return reinterpret_cast<std::byte*>((address + kSector - 1) / kSector * kSector);
}

}  // namespace

BackgroundReader::BackgroundReader(int device, cudaStream_t compute, const ReaderOptions& options)
    : compute_(compute),
      options_(options),
      own_(std::make_shared<Target>()),
      freed_(make_event()),
      loaded_(make_event()) {
  assert(options.readers > 0 && options.slots > 0 && options.slot_bytes > 0 && options.slot_bytes % (2 * kSector) == 0);
  own_->device = device;
  own_->copies = make_stream();
  for (int i = 0; i < options.slots; ++i) own_->copied.push_back(make_awaited_event());
}

BackgroundReader::~BackgroundReader() {
  leave();
  cancel();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  job_posted_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (const Slot& slot : ring_)  // before it goes
    for (const auto& device : slot.used_by) static_cast<void>(cudaStreamSynchronize(device->copies.get()));
}

// ---------------------------------------------------------------- what is wanted

void BackgroundReader::collect(const FileLocator& files) {
  cancel();
  files_ = &files;
  ++n_collected_;
}

BackgroundReader::Piece BackgroundReader::Piece::part(uint64_t first, uint64_t n) const {
  Piece p = *this;
  p.from += first;
  p.bytes = n;
  for (char*& to_device : p.to) to_device += first / size_of(stored) * size_of(as);
  return p;
}

bool BackgroundReader::Piece::same_as(const Piece& other) const {
  return !file == !other.file && from == other.from && bytes == other.bytes && stored == other.stored &&
         as == other.as && plus == other.plus;
}

const DirectFile& BackgroundReader::direct(const SourceFile& file) {
  for (const auto& [source, opened] : opened_)
    if (source == &file) return *opened;
  opened_.emplace_back(&file, std::make_unique<DirectFile>(file, options_.direct));
  return *opened_.back().second;
}

void BackgroundReader::add(const Tensor& host, const Tensor& to, float plus) {
  Piece p;
  p.bytes = host.bytes();
  p.stored = host.dtype;
  p.as = to.dtype;
  p.plus = plus;
  p.to = {static_cast<char*>(to.data)};
  if (p.bytes == 0) return;
  if (p.plain()) p.stored = p.as = DType::U8;  // may be cut anywhere
  if (const auto region = files_->locate(host.data, host.bytes())) {
    p.file = &direct(*region->file);
    p.from = region->offset;
  } else {
    auto kept = std::make_shared<Storage>(Shape{static_cast<int64_t>(p.bytes)}, DType::U8);
    std::memcpy(kept->tensor().data, host.data, p.bytes);
    p.memory = std::move(kept);
  }
  wanted_.push_back(std::move(p));
}

void BackgroundReader::add_work(uint64_t from, uint64_t bytes, Work work) {
  Job job{from, from + bytes, {}, {}};
  job.work.push_back(std::move(work));
  wanted_work_.push_back(std::move(job));
}

BackgroundReader::Source BackgroundReader::source_of(const void* data, uint64_t bytes) {
  if (const auto region = files_->locate(data, bytes)) return {&direct(*region->file), nullptr, region->offset};
  return {nullptr, static_cast<const std::byte*>(data), 0};
}

const std::byte* BackgroundReader::Source::read(uint64_t first, uint64_t n, std::byte* to) const {
  if (file) return file->read(from + first, from + first + n, to);
  std::memcpy(to, memory + first, n);  // pinned, as a copy in the background has to be
  return to;
}

// A piece that has slots to itself: half a slot holds what is read, the other half what it becomes.
void BackgroundReader::add_alone(std::deque<Job>& jobs, const Piece& piece) const {
  const uint64_t half = options_.slot_bytes / 2 - kSector;  // less the sector that the beginning may lie in
  const uint64_t step = half / std::max(size_of(piece.stored), size_of(piece.as)) * size_of(piece.stored);
  for (uint64_t at = 0; at < piece.bytes; at += step) {
    const Piece part = piece.part(at, std::min(step, piece.bytes - at));
    jobs.push_back({part.from, part.from + part.bytes, {part}});
  }
}

// Extends the last job if the piece begins where that ends, or in the same sector or the next: what lies between is
// read for nothing, but with no request of its own.
void BackgroundReader::add_to_extent(std::deque<Job>& jobs, const Piece& piece) const {
  for (uint64_t at = 0; at < piece.bytes;) {
    const uint64_t from = piece.from + at;
    Job* job = jobs.empty() ? nullptr : &jobs.back();
    const bool same = job && job->pieces.front().file == piece.file && job->pieces.front().plain();
    if (!same || from < job->begin || from > job->end + kSector || from >= sector_of(job->begin) + options_.slot_bytes)
      job = &jobs.emplace_back(Job{from, from, {}});
    const uint64_t room = sector_of(job->begin) + options_.slot_bytes - from, n = std::min(room, piece.bytes - at);
    job->pieces.push_back(piece.part(at, n));
    job->end = std::max(job->end, from + n);
    at += n;
  }
}

std::deque<BackgroundReader::Job> BackgroundReader::make_jobs() {
  const auto place = [](const Piece& p) { return std::tuple(!p.file, !p.plain(), p.file, p.from); };
  std::stable_sort(wanted_.begin(), wanted_.end(), [&](const Piece& a, const Piece& b) { return place(a) < place(b); });
  std::deque<Job> jobs;
  for (const Piece& p : wanted_)
    if (p.file && p.plain())
      add_to_extent(jobs, p);
    else
      add_alone(jobs, p);
  wanted_.clear();
  std::ranges::move(wanted_work_, std::back_inserter(jobs));
  wanted_work_.clear();
  return jobs;
}

// ---------------------------------------------------------------- reading

void BackgroundReader::start() {
  files_ = nullptr;
  if (!wanted_work_.empty())
    while (own_->slots.size() < own_->copied.size()) own_->slots.push_back(allocate_bytes(options_.slot_bytes));
  order_after(own_->copies.get(), compute_, freed_);
  if (joined()) return options_.group->offer(*this);
  targets_ = {own_};
  post(make_jobs());
}

/// What another device wants goes there too.
void BackgroundReader::add_places_of(BackgroundReader& other) {
  const std::vector<Piece> pieces = std::exchange(other.wanted_, {});
  std::vector<Job> work = std::exchange(other.wanted_work_, {});
  const auto same = [](const Piece& a, const Piece& b) { return a.same_as(b); };
  const auto same_place = [](const Job& a, const Job& b) { return a.begin == b.begin && a.end == b.end; };
  if (!std::ranges::equal(wanted_, pieces, same) || !std::ranges::equal(wanted_work_, work, same_place))
    fail("devices that read weights together want different ones; this is a bug of this program, please report it");
  for (size_t i = 0; i < pieces.size(); ++i) wanted_[i].to.push_back(pieces[i].to.front());
  for (size_t i = 0; i < work.size(); ++i) wanted_work_[i].work.push_back(std::move(work[i].work.front()));
}

// Called by the last of the members that offers, in its thread.
void BackgroundReader::read_for(const std::vector<BackgroundReader*>& members) noexcept {
  try {
    targets_.clear();
    for (BackgroundReader* const m : members) {
      targets_.push_back(m->own_);
      if (m != this) add_places_of(*m);
    }
    post(make_jobs());
  } catch (...) {
    error_ = std::current_exception();
  }
}

void BackgroundReader::post(std::deque<Job> jobs) {
  error_ = nullptr;
  if (jobs.empty()) return;
  start_threads();
  {
    const std::lock_guard lock(mutex_);
    outstanding_ = jobs.size();
    jobs_ = std::move(jobs);
  }
  job_posted_.notify_all();
}

void BackgroundReader::start_threads() {
  if (!threads_.empty()) return;
  for (int i = 0; i < options_.slots; ++i) {
    ring_.push_back({allocate_pinned(options_.slot_bytes + kSector), {}});
    free_.push_back(static_cast<size_t>(i));
  }
  try {
    while (threads_.size() < static_cast<size_t>(options_.readers)) threads_.emplace_back([this] { read_jobs(); });
  } catch (const std::system_error& e) {  // fewer are slower, not wrong
    if (threads_.empty()) fail(std::string("starting a thread that reads weights: ") + e.what());
  }
}

void BackgroundReader::read_jobs() {
  const cudaError_t chosen = cudaSetDevice(own_->device);
  std::unique_lock lock(mutex_);
  for (;;) {
    job_posted_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    slot_freed_.wait(lock, [&] { return !free_.empty(); });
    const size_t slot = free_.front();
    free_.pop_front();
    const bool wanted = !error_;  // after a failure the rest is only counted
    lock.unlock();
    std::exception_ptr error;
    try {
      check(chosen, "opening the device in a thread that reads weights");
      if (wanted) run(job, slot);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    free_.push_back(slot);
    slot_freed_.notify_one();
    if (--outstanding_ == 0) all_done_.notify_all();
  }
}

void BackgroundReader::run(const Job& job, size_t slot) {
  for (const auto& device : std::exchange(ring_[slot].used_by, targets_))
    check(cudaEventSynchronize(device->copied[slot].get()), "waiting for a copy of weights");
  std::byte* const memory = aligned(ring_[slot].memory.get());
  if (job.work.empty())
    read_pieces(job, memory);
  else
    do_work(job.work, memory, slot);
  for (const auto& device : targets_)
    check(cudaEventRecord(device->copied[slot].get(), device->copies.get()), "recording a copy of weights");
}

void BackgroundReader::do_work(const std::vector<Work>& work, std::byte* memory, size_t slot) {
  const std::vector<const std::byte*> parts = work.front().fill(memory);
  for (size_t i = 0; i < targets_.size(); ++i) {
    Target& target = *targets_[i];
    check(cudaSetDevice(target.device), "choosing a device that weights are read for");
    work[i].send({parts, static_cast<std::byte*>(target.slots[slot].get()), target});
  }
}

void BackgroundReader::read_pieces(const Job& job, std::byte* memory) {
  const Piece& first = job.pieces.front();
  if (!first.plain()) {
    convert(first, memory);
    copy(first, memory, first.elements() * size_of(first.as));
  } else if (!first.file) {
    std::memcpy(memory, first.memory->tensor().as<uint8_t>() + first.from, first.bytes);
    copy(first, memory, first.bytes);
  } else {
    const std::byte* const begin = first.file->read(job.begin, job.end, memory);
    for (const Piece& p : job.pieces) copy(p, begin + (p.from - job.begin), p.bytes);
  }
}

void BackgroundReader::convert(const Piece& piece, std::byte* out) const {
  std::byte* const raw = out + options_.slot_bytes / 2;
  const std::byte* const stored = piece.file ? piece.file->read(piece.from, piece.from + piece.bytes, raw)
                                             : piece.memory->tensor().as<std::byte>() + piece.from;
  std::memmove(raw, stored, piece.bytes);  // to where every type may begin
  const uint64_t n = piece.elements();
  if (piece.as == DType::BF16) return convert_to_bf16(piece.stored, raw, reinterpret_cast<bf16*>(out), n);
  auto* const values = reinterpret_cast<float*>(out);
  convert_to_float(piece.stored, raw, values, n);
  if (piece.plus != 0)
    for (uint64_t i = 0; i < n; ++i) values[i] = piece.plus + values[i];
}

void BackgroundReader::copy(const Piece& to, const std::byte* from, uint64_t bytes) {
  for (size_t i = 0; i < targets_.size(); ++i) targets_[i]->copy(to.to[i], from, bytes);
}

void BackgroundReader::Target::copy(void* to, const void* from, uint64_t bytes) {
  bytes_copied += bytes;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, copies.get()), "copying weights to the device");
}

// ---------------------------------------------------------------- the end

void BackgroundReader::wait_for_readers() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [&] { return outstanding_ == 0; });
}

void BackgroundReader::close_files() {
  for (const auto& [source, opened] : opened_) bytes_read_ += opened->bytes_read();
  opened_.clear();
}

void BackgroundReader::finish() {
  if (collecting()) start();
  std::exception_ptr error;
  if (joined()) {
    error = receive();
  } else {
    wait_for_readers();
    error = error_;
  }
  close_files();
  order_after(compute_, own_->copies.get(), loaded_);
  if (error) std::rethrow_exception(error);
}

/// What a member of the group reads for all; gives back what that failed with.
std::exception_ptr BackgroundReader::receive() {
  BackgroundReader& reader = options_.group->reader_for(*this);
  reader.wait_for_readers();
  std::exception_ptr error = reader.error_;
  options_.group->received(*this);
  return error;
}

void BackgroundReader::join() {
  if (options_.group && !joined()) options_.group->join(*this);
}

void BackgroundReader::leave() noexcept {
  if (!joined()) return;
  cancel();
  options_.group->leave(*this);
}

void BackgroundReader::cancel() noexcept {
  if (joined()) {
    // What is being read for others too is read to its end.
    if (!options_.group->withdraw(*this)) static_cast<void>(receive());
  } else {
    const std::lock_guard lock(mutex_);
    outstanding_ -= jobs_.size();
    jobs_.clear();
  }
  wait_for_readers();
  close_files();
  if (cudaEventRecord(loaded_.get(), own_->copies.get()) == cudaSuccess)  // of copies that were begun
    static_cast<void>(cudaStreamWaitEvent(compute_, loaded_.get(), 0));
  files_ = nullptr;
  wanted_.clear();
  wanted_work_.clear();
}

uint64_t BackgroundReader::bytes_read() const {
  uint64_t bytes = bytes_read_;
  for (const auto& [source, opened] : opened_) bytes += opened->bytes_read();
  return bytes;
}

}  // namespace kvcal::cuda
