// Threads that go through the steps of one slice together, for batches too small to be cut:
// each has its part of the weights, small enough to stay in its own cache.
#pragma once

#include <atomic>
#include <thread>

class Meeting {
    std::atomic<long> arrived{0}, round{0};

  public:
    void wait(long members) {
        if (members == 1) return;
        const long now = round.load(std::memory_order_acquire);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
            arrived.store(0, std::memory_order_relaxed);
            round.store(now + 1, std::memory_order_release);
            return;
        }
        for (long spins = 0; round.load(std::memory_order_acquire) == now; ++spins)
            if (spins > 4096) std::this_thread::yield();  // others want the processor
    }
};

struct Member {
    long rank, size;
    Meeting* meeting;

    void wait() const { meeting->wait(size); }
    // this member's part of 0 ... n
    long begin(long n) const { return n * rank / size; }
    long end(long n) const { return n * (rank + 1) / size; }
};
