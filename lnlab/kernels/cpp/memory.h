// Memory that is handed back and used again: fresh pages from the system would cost up to a
// third of a step over a long sequence. Large blocks lie on huge pages where there are any.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

class Pool {
    static constexpr size_t LARGE = size_t(1) << 21, KEPT = size_t(1) << 30;
    std::mutex mutex;
    std::multimap<size_t, void*> idle;
    std::map<void*, size_t> sizes;
    size_t idle_bytes = 0;

  public:
    void* take(size_t bytes) {
        bytes = bytes < LARGE ? (bytes + 63) / 64 * 64 : (bytes + LARGE - 1) / LARGE * LARGE;
        std::lock_guard<std::mutex> hold(mutex);
        auto found = idle.lower_bound(bytes);
        if (found != idle.end() && found->first <= 2 * bytes) {
            void* block = found->second;
            idle_bytes -= found->first;
            idle.erase(found);
            return block;
        }
        void* block = std::aligned_alloc(bytes < LARGE ? 64 : LARGE, bytes ? bytes : 64);
        if (!block) throw std::bad_alloc();
#if defined(__linux__)
        if (bytes >= LARGE) madvise(block, bytes, MADV_HUGEPAGE);
#endif
        sizes[block] = bytes;
        return block;
    }

    void give(void* block) {
        std::lock_guard<std::mutex> hold(mutex);
        const size_t bytes = sizes[block];
        if (idle_bytes + bytes > KEPT) {
            sizes.erase(block);
            std::free(block);
            return;
        }
        idle.emplace(bytes, block);
        idle_bytes += bytes;
    }
};

inline Pool pool;

template <class T> class Buffer {
    T* data;
    size_t count;

  public:
    explicit Buffer(size_t n) : data(static_cast<T*>(pool.take(n * sizeof(T)))), count(n) {}
    ~Buffer() { pool.give(data); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    operator T*() const { return data; }
    void zero() { std::memset(static_cast<void*>(data), 0, count * sizeof(T)); }
};
