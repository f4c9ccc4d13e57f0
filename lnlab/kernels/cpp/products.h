// Matrix products with a small matrix that never leaves the registers: rows of A (a few
// examples of one time step) against panels of W, three vectors wide, that are packed once
// and then read in a straight line, the next panel being fetched while this one is used.
// Every sum runs over k in the same order whatever the number of rows, so that an example's
// result does not depend on the company it is computed in.
#pragma once

#include <algorithm>

#include "memory.h"
#include "thread_team.h"
#include "vectors.h"

// C (R x N vectors) (+)= A (R x K) B (K x N vectors); A(i, k) stands at A[i ai + k ak]
template <class T, int R, int N>
__attribute__((always_inline)) inline void
chain(const T* A, long ai, long ak, const T* B, long ldb, T* C, long ldc, long K,
      bool accumulate, const char* ahead, long ahead_step) {
    vec<T> sums[R][N];
    for (int i = 0; i < R; ++i)
        for (int j = 0; j < N; ++j) sums[i][j] = vec<T>{};
    for (long k = 0; k < K; ++k) {
        vec<T> b[N];
        for (int j = 0; j < N; ++j) b[j] = held<T>(load(B + k * ldb + j * W<T>));
        __builtin_prefetch(ahead + k * ahead_step, 0, 2);
        for (int i = 0; i < R; ++i) {
            const T a = A[i * ai + k * ak];
            for (int j = 0; j < N; ++j) sums[i][j] += a * b[j];
        }
    }
    for (int i = 0; i < R; ++i)
        for (int j = 0; j < N; ++j) {
            T* c = C + i * ldc + j * W<T>;
            store<T>(c, accumulate ? load(c) + sums[i][j] : sums[i][j]);
        }
}

// the same in pieces: one long chain of sums rounds more than the products of torch do; what
// is written is asked for first
template <class T, int R, int N>
__attribute__((noinline)) void tile(const T* A, long ai, long ak, const T* B, long ldb, T* C,
                                    long ldc, long K, bool accumulate, const char* ahead,
                                    long ahead_step) {
    constexpr long PIECE = 128;
    for (int i = 0; i < R; ++i)
        for (int j = 0; j < N; ++j) __builtin_prefetch(C + i * ldc + j * W<T>, 1);
    for (long k = 0; k < K; k += PIECE)
        chain<T, R, N>(A + k * ak, ai, ak, B + k * ldb, ldb, C, ldc, std::min(PIECE, K - k),
                       accumulate || k, ahead + k * ahead_step, ahead_step);
}

template <class T, int N>
inline void tiles(const T* A, long ai, long ak, long rows, const T* B, long ldb, T* C, long ldc,
                  long K, bool accumulate, const char* ahead, long ahead_bytes) {
    const long count = (rows + TILE_ROWS - 1) / TILE_ROWS, step = ahead_bytes / (count * K);
    long i = 0;
    auto run = [&](auto size) {
        for (; i + size() <= rows; i += size(), ahead += step * K)
            tile<T, size(), N>(A + i * ai, ai, ak, B, ldb, C + i * ldc, ldc, K, accumulate,
                               ahead, step);
    };
    run(std::integral_constant<int, TILE_ROWS>());
    run(std::integral_constant<int, 4>());
    run(std::integral_constant<int, 2>());
    run(std::integral_constant<int, 1>());
}

// one panel of up to three vectors
template <class T>
inline void panel(const T* A, long ai, long ak, long rows, const T* B, long ldb, T* C, long ldc,
                  long K, long vectors, bool accumulate, const void* ahead, long ahead_bytes) {
    const char* next = static_cast<const char*>(ahead);
    if (vectors == 3)
        tiles<T, 3>(A, ai, ak, rows, B, ldb, C, ldc, K, accumulate, next, ahead_bytes);
    else if (vectors == 2)
        tiles<T, 2>(A, ai, ak, rows, B, ldb, C, ldc, K, accumulate, next, ahead_bytes);
    else
        tiles<T, 1>(A, ai, ak, rows, B, ldb, C, ldc, K, accumulate, next, ahead_bytes);
}

// Columns in panels of three vectors. One vector left over would keep the registers a third
// full: the last two panels have two vectors each then.
template <class T> struct Panels {
    static constexpr long MOST = TILE_VECTORS * W<T>;
    long N;

    long count() const { return (N + MOST - 1) / MOST; }
    long begin(long p) const {
        const bool lone = N % MOST == W<T> && p == count() - 1 && p;
        return p * MOST - lone * W<T>;
    }
    long width(long p) const { return (p + 1 < count() ? begin(p + 1) : N) - begin(p); }
};

// A weight matrix (K x N, N whole vectors) cut into blocks of k and panels of columns.
template <class T> struct Packed {
    static constexpr long BLOCK = 1024;
    long K = 0, N = 0;
    T* data = nullptr;

    Panels<T> panels() const { return {N}; }
    T* at(long k, long p) const {
        return data + k * N + panels().begin(p) * std::min(BLOCK, K - k);
    }

    // column(n) points to the K values of column n, or nowhere: zeros
    template <class Column> void fill_columns(long p, Column column) const {
        const long width = panels().width(p), first = panels().begin(p);
        constexpr long few = 64 / sizeof(T);
        const T* from[Panels<T>::MOST];
        for (long n = 0; n < width; ++n) from[n] = column(first + n);
        const T zeros[few] = {};  // a line of the cache
        for (long k0 = 0; k0 < K; k0 += BLOCK)
            for (long k = k0, end = std::min(K, k0 + BLOCK); k < end; k += few)
                for (long n = 0; n < width; ++n) {
                    T* to = at(k0, p) + (k - k0) * width + n;
                    const T* v = from[n] ? from[n] + k : zeros;
                    __builtin_prefetch(v + 2 * few);
                    for (long i = 0; i < std::min(end - k, few); ++i) to[i * width] = v[i];
                }
    }

    // row(k) points to the first `columns` values of row k, or nowhere; the rest is zeros
    template <class Row> void fill_rows(long p, long columns, Row row) const {
        const long width = panels().width(p), first = panels().begin(p);
        const long real = std::clamp(columns - first, 0L, width);
        for (long k0 = 0; k0 < K; k0 += BLOCK) {
            T* to = at(k0, p);
            for (long k = k0; k < std::min(K, k0 + BLOCK); ++k, to += width) {
                const T* from = row(k);
                if (from) std::copy_n(from + first, real, to);
                std::fill(to + (from ? real : 0), to + width, T(0));
            }
        }
    }

    // C (rows x N) (+)= A (rows x K) W, the panels of one member. Going back and forth over
    // the panels from one step to the next finds those used last still in the cache.
    void multiply(const T* A, long lda, long rows, T* C, long ldc, bool accumulate,
                  bool backwards, const Member& me) const {
        const Panels<T> cut = panels();
        const long begin = me.begin(cut.count()), end = me.end(cut.count());
        for (long k0 = 0; k0 < K; k0 += BLOCK) {
            const long depth = std::min(BLOCK, K - k0);
            for (long i = begin; i < end; ++i) {
                const long p = backwards ? begin + end - 1 - i : i;
                const long next = i + 1 == end ? p : backwards ? p - 1 : p + 1;
                const long width = cut.width(p);
                panel<T>(A + k0, lda, 1, rows, at(k0, p), width, C + cut.begin(p), ldc, depth,
                         width / W<T>, accumulate || k0, at(k0, next),
                         depth * width * sizeof(T));
            }
        }
    }
};

// C (M x N) (+)= A^T B for A (rows x M) and B (rows x N): the gradient of a weight matrix from
// a chunk of rows that is still in the cache. M and N are whole vectors. B is packed once, the
// rows of C come one after the other.
template <class T> class Outer {
    Buffer<T> columns;

  public:
    Outer(long rows, long N) : columns(rows * N) {}

    void add(const T* A, long lda, long M, const T* B, long ldb, long N, long rows, T* C,
             bool accumulate, const Member& me) const {
        const Panels<T> cut{N};
        for (long p = 0; p < cut.count(); ++p) {
            T* to = columns + cut.begin(p) * rows;
            for (long k = 0; k < rows; ++k, to += cut.width(p))
                copy<T>(B + k * ldb + cut.begin(p), cut.width(p), to);
        }
        for (long m = me.begin(M / TILE_ROWS); m < me.end(M / TILE_ROWS); ++m)
            for (long p = 0; p < cut.count(); ++p) {
                const long i = m * TILE_ROWS, n = cut.begin(p), size = rows * cut.width(p);
                const T* panel_of_B = columns + n * rows;
                panel<T>(A + i, 1, lda, TILE_ROWS, panel_of_B, cut.width(p), C + i * N + n, N,
                         rows, cut.width(p) / W<T>, accumulate, panel_of_B + size,
                         size * sizeof(T));
            }
    }
};
