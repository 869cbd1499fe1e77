// Weights from files to the device: reader threads, a ring of pinned memory, a stream of its own for the copies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/direct_file.h"
#include "kernels/runtime/handle.h"
#include "kernels/runtime/reader_group.h"
#include "ops/weight_reader.h"
#include "tensor/tensor.h"

namespace kvcal::cuda {

struct ReaderOptions {
  int readers = 6;                           // threads; the result does not depend on it
  int slots = 8;                             // of the ring
  uint64_t slot_bytes = uint64_t{16} << 20;  // a multiple of 8 KiB, two at least: the most that is read at once
  bool direct = true;                        // past the page cache, where the file system allows it
  std::shared_ptr<ReaderGroup> group = {};   // of devices that can read together; null: this one is alone
};

/// Reads what add() was given in the order of the files, neighbours together, each byte once (whole sectors at the
/// ends). Copies begin when the work queued on the compute stream before start() is done, so that they may overwrite
/// the memory of a layer freed before; work queued there after finish() comes after the copies. The host waits for the
/// disk in finish(), never for the device.
class BackgroundReader final : public WeightReader {
 public:
  BackgroundReader(int device, cudaStream_t compute, const ReaderOptions& options);
  ~BackgroundReader() override;

  void collect(const FileLocator& files) override;
  void start() override;
  void finish() override;
  void join() override;
  void leave() noexcept override;
  void cancel() noexcept override;

  bool collecting() const { return files_ != nullptr; }

  /// Wants plus + host, converted to the dtype of `to`, at `to` on the device. Memory that is of no file is copied now.
  void add(const Tensor& host, const Tensor& to, float plus);

  /// Where a device gets its copies; a slot in use may outlive the device's reader.
  struct Target {
    int device = 0;
    Stream copies{};
    std::vector<Event> copied{};       // by slot of whoever reads
    std::vector<DeviceBytes> slots{};  // slot_bytes each, once there is work that may want them
    std::atomic<uint64_t> bytes_copied{0};

    void copy(void* to, const void* from, uint64_t bytes);  // queued on `copies`
  };
  /// What a device does with a slot that is filled.
  struct Sending {
    const std::vector<const std::byte*>& parts;  // as fill() returned them
    std::byte* room;                             // slot_bytes on the device
    Target& target;                              // its device is the current one
  };
  /// Something that is more than a tensor's bytes and has a slot to itself; reader threads call its functions.
  struct Work {
    /// Reads into slot_bytes of the host, which begin at a sector; returns where the parts are. Once for all devices.
    std::function<std::vector<const std::byte*>(std::byte* host)> fill;
    std::function<void(const Sending&)> send;  // queues on the target's copies
  };

  /// Wants what `work` makes of these bytes: devices that read together want the same.
  void add_work(uint64_t from, uint64_t bytes, Work work);

  /// Bytes of the host, which may be of a file, and how work gets them: read() as DirectFile's, with the same room.
  struct Source {
    const DirectFile* file = nullptr;  // null: they are at `memory`
    const std::byte* memory = nullptr;
    uint64_t from = 0;  // in the file
    const std::byte* read(uint64_t first, uint64_t n, std::byte* to) const;
  };
  Source source_of(const void* data, uint64_t bytes);

  uint64_t slot_bytes() const { return options_.slot_bytes; }

  /// How often collect() was called.
  uint64_t n_collected() const { return n_collected_; }

  /// Bytes read from files so far.
  uint64_t bytes_read() const;
  uint64_t bytes_copied() const override { return own_->bytes_copied; }

 private:
  friend ReaderGroup;

  /// A tensor, or a part of one, that goes to the device.
  struct Piece {
    const DirectFile* file = nullptr;  // null: `memory` holds it
    std::shared_ptr<const Storage> memory;
    uint64_t from = 0, bytes = 0;  // in the file or the memory
    DType stored = DType::BF16, as = DType::BF16;
    float plus = 0;
    std::vector<char*> to;  // on each of the devices that it is read for

    bool plain() const { return stored == as && plus == 0; }
    bool same_as(const Piece& other) const;  // of another device
    uint64_t elements() const { return bytes / size_of(stored); }
    Piece part(uint64_t first, uint64_t n) const;  // bytes, as stored
  };
  /// What a slot takes: bytes [begin, end) of one file for several pieces; or one piece to convert, or from memory; or
  /// work, of each device.
  struct Job {
    uint64_t begin = 0, end = 0;
    std::vector<Piece> pieces{};
    std::vector<Work> work{};  // by target
  };
  struct Slot {
    PinnedBytes memory;
    std::vector<std::shared_ptr<Target>> used_by;  // devices whose copies from it may not be done
  };

  const DirectFile& direct(const SourceFile& file);
  std::deque<Job> make_jobs();
  void add_places_of(BackgroundReader& other);
  void read_for(const std::vector<BackgroundReader*>& members) noexcept;
  void post(std::deque<Job> jobs);
  bool joined() const { return options_.group && options_.group->has(*this); }
  void add_alone(std::deque<Job>& jobs, const Piece& piece) const;
  void add_to_extent(std::deque<Job>& jobs, const Piece& piece) const;
  void start_threads();
  void read_jobs();
  void run(const Job& job, size_t slot);
  void read_pieces(const Job& job, std::byte* memory);
  void do_work(const std::vector<Work>& work, std::byte* memory, size_t slot);
  void convert(const Piece& piece, std::byte* out) const;
  void copy(const Piece& to, const std::byte* from, uint64_t bytes);
  void wait_for_readers();
  std::exception_ptr receive();
  void close_files();

  const cudaStream_t compute_;
  const ReaderOptions options_;
  const std::shared_ptr<Target> own_;
  Event freed_, loaded_;
  std::vector<Slot> ring_;
  const FileLocator* files_ = nullptr;  // while collecting
  std::vector<Piece> wanted_;
  std::vector<Job> wanted_work_;
  std::vector<std::shared_ptr<Target>> targets_;  // of the jobs that were posted last
  std::vector<std::pair<const SourceFile*, std::unique_ptr<DirectFile>>> opened_;
  uint64_t n_collected_ = 0;
  uint64_t bytes_read_ = 0;  // from files that are closed again

  std::mutex mutex_;
  std::condition_variable job_posted_, slot_freed_, all_done_;
  std::deque<Job> jobs_;      // guarded by mutex_, as are the next four
  std::deque<size_t> free_;   // slots, in the order in which they were given back
  size_t outstanding_ = 0;    // jobs that are not done
  std::exception_ptr error_;  // of the first that failed, until the next are posted
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvcal::cuda
