// What the libraries that Python calls share: plain C functions over pointers, which need
// nothing of torch and are compiled in seconds. Each returns 0, or -1 where memory ran out.
#pragma once

#include <cstdint>

#include "memory.h"

#if defined(_OPENMP)
#include <omp.h>
#else
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
#endif

// the numbers of lnlab.kernels.fused_cells.CellKind
enum class Kernel : int64_t {
    LSTM = 0, DRAW = 1, GRU_WRITES = 2, GRU_KEEPS = 3, RNN = 4, PLAIN_LSTM = 5,
    PLAIN_GRU_WRITES = 6, PLAIN_GRU_KEEPS = 7, BATCH_LSTM = 8
};

template <class Task> int64_t unless_full(Task task) {
    try {
        return task();
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

extern "C" {

void* take(int64_t bytes) {
    try {
        return pool.take(size_t(bytes));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void give(void* block) { pool.give(block); }
}
