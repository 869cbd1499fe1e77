#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/thread_pool.h"

namespace kvcal {
namespace {

class ThreadPoolSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolSizes, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolSizes, EveryTaskRunsOnceAndWorkersAreExclusive) {
  ThreadPool pool(GetParam());
  for (const int64_t n : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
    std::vector<std::atomic<int>> busy(static_cast<size_t>(GetParam()));
    pool.parallel_for(n, [&](int64_t task, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, GetParam());
      EXPECT_EQ(busy[static_cast<size_t>(worker)].fetch_add(1), 0);
      ++runs[static_cast<size_t>(task)];
      --busy[static_cast<size_t>(worker)];
    });
    for (const auto& r : runs) EXPECT_EQ(r, 1);
  }
}

TEST_P(ThreadPoolSizes, ResultsAreVisibleWithoutFurtherSynchronization) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> values(500);
  for (int round = 0; round < 200; ++round) {
    pool.parallel_for(500, [&](int64_t task, int) { values[static_cast<size_t>(task)] += task; });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), (round + 1) * int64_t{124750});
  }
}

TEST_P(ThreadPoolSizes, LowestFailureWins) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    try {
      pool.parallel_for(64, [&](int64_t task, int) {
        if (task == 5) std::this_thread::sleep_for(std::chrono::microseconds(200));  // the later failure comes first
        if (task >= 5) fail("task " + std::to_string(task));
      });
      FAIL() << "nothing thrown";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "task 5");
    }
  }
  int n = 0;
  pool.parallel_for(1, [&](int64_t, int) { ++n; });
  EXPECT_EQ(n, 1) << "usable after a failure";
}

TEST_P(ThreadPoolSizes, NestedLoopsRunOnTheSameWorker) {
  ThreadPool pool(GetParam());
  std::atomic<int> n_begun = 0, n_done = 0;
  pool.parallel_for(GetParam(), [&](int64_t, int outer) {
    // As many tasks as workers, each waiting for all: every worker is shown to take part.
    ++n_begun;
    while (n_begun < GetParam()) std::this_thread::yield();
    pool.parallel_for(5, [&](int64_t, int inner) {
      EXPECT_EQ(inner, outer);
      ++n_done;
    });
  });
  EXPECT_EQ(n_done, 5 * GetParam());
}

TEST(ThreadPool, TwoPoolsMayNest) {
  ThreadPool outer(2), inner(3);
  std::atomic<int> n = 0;
  outer.parallel_for(4, [&](int64_t, int) { inner.parallel_for(6, [&](int64_t, int) { ++n; }); });
  EXPECT_EQ(n, 24);
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  std::vector<int> counts(3);
  const auto caller = [&](size_t mine) {
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> n = 0;
      pool.parallel_for(10, [&](int64_t, int) { ++n; });
      counts[mine] += n;
    }
  };
  std::thread a(caller, 0), b(caller, 1), c(caller, 2);
  a.join(), b.join(), c.join();
  EXPECT_EQ(counts, (std::vector<int>{1000, 1000, 1000}));
}

TEST(ThreadPool, RefusesNoThreads) {
  try {
    ThreadPool pool(0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a thread pool of 0 threads, expected at least 1");
  }
  EXPECT_GE(available_processors(), 1);
}

}  // namespace
}  // namespace kvcal
