#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/rank_group.h"

namespace kvcal {
namespace {

constexpr int kTag = 1;

/// A count of MPI is an int; of a message as much as this at a time.
constexpr size_t kPiece = size_t{1} << 30;

void require(int error, const char* function) {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  fail(std::string(function) + ": " + text);
}

/// The error line has been printed by then. Without this the other ranks would wait for this one.
void end_the_others() {
  int finished = 0;
  if (MPI_Finalized(&finished) == MPI_SUCCESS && !finished) MPI_Abort(MPI_COMM_WORLD, 2);
}

class MpiRanks final : public RankGroup {
 public:
  MpiRanks() {
    int provided = 0;
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    std::atexit(end_the_others);
    require(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    require(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    require(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    MPI_Comm host = MPI_COMM_NULL;
    require(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    require(MPI_Comm_size(host, &size_on_host_), "MPI_Comm_size");
    require(MPI_Comm_rank(host, &rank_on_host_), "MPI_Comm_rank");
    require(MPI_Comm_free(&host), "MPI_Comm_free");
    if (provided < MPI_THREAD_FUNNELED) fail("this MPI allows no threads beside the one that calls it");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_on_host() const override { return size_on_host_; }
  int rank_on_host() const override { return rank_on_host_; }

  std::string host() const override {
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    require(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    return {name, static_cast<size_t>(length)};
  }

  std::string broadcast(std::string bytes) override {
    uint64_t length = bytes.size();
    require(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    bytes.resize(length);
    for (size_t at = 0; at < bytes.size(); at += kPiece)
      require(MPI_Bcast(bytes.data() + at, piece(bytes.size(), at), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return bytes;
  }

  void send(int to, std::string_view bytes) override {
    const uint64_t length = bytes.size();
    require(MPI_Send(&length, 1, MPI_UINT64_T, to, kTag, MPI_COMM_WORLD), "MPI_Send");
    for (size_t at = 0; at < bytes.size(); at += kPiece)
      require(MPI_Send(bytes.data() + at, piece(bytes.size(), at), MPI_BYTE, to, kTag, MPI_COMM_WORLD), "MPI_Send");
  }

  std::string receive(int from) override {
    uint64_t length = 0;
    require(MPI_Recv(&length, 1, MPI_UINT64_T, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    std::string bytes(length, '\0');
    for (size_t at = 0; at < bytes.size(); at += kPiece)
      require(
          MPI_Recv(bytes.data() + at, piece(bytes.size(), at), MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "MPI_Recv");
    return bytes;
  }

  void finish() override {
    require(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    require(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  static int piece(size_t size, size_t at) { return static_cast<int>(std::min(size - at, kPiece)); }

  int rank_ = 0, size_ = 1, rank_on_host_ = 0, size_on_host_ = 1;
};

std::unique_ptr<RankGroup> join() { return std::make_unique<MpiRanks>(); }

}  // namespace

const RankLibrary* kvcal_mpi_ranks() {
  static const RankLibrary library = {kRankInterface, join};
  return &library;
}

}  // namespace kvcal
