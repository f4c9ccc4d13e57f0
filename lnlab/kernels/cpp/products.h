// Matrix products with a small matrix that never leaves the registers: rows of A (a few
// cases of one time step) against panels of W, three vectors wide, that are packed once
// and then read in a straight line, the next panel being fetched while this one is used.
// Every sum runs over k in the same order whatever the number of rows, so that a case's
// result does not depend on the company it is computed in.
#pragma once

#include <algorithm>

#include "memory.h"
#include "team.h"
#include "vectors.h"

// C (R x N vectors) (+)= A (R x K) B (K x N vectors); A(i, k) stands at A[i ai + k ak]
template <class T, int R, int N>
inline void tile(const T* A, long ai, long ak, const T* B, long ldb, T* C, long ldc, long K,
                 bool accumulate, const char* ahead, long ahead_step) {
    vec<T> sums[R][N];
    for (int i = 0; i < R; ++i)
        for (int j = 0; j < N; ++j) sums[i][j] = vec<T>{};
    for (long k = 0; k < K; ++k) {
        vec<T> b[N];
        for (int j = 0; j < N; ++j) b[j] = load(B + k * ldb + j * W<T>);
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

// A weight matrix (K x N, N whole vectors) cut into blocks of k and panels of columns.
template <class T> struct Packed {
    static constexpr long PANEL = TILE_VECTORS * W<T>, BLOCK = 1024;
    long K = 0, N = 0;
    T* data = nullptr;

    static long size(long K, long N) { return K * N; }
    long panels() const { return (N + PANEL - 1) / PANEL; }
    long width(long p) const { return std::min(PANEL, N - p * PANEL); }
    T* at(long k, long p) const {
        return data + k * N + p * PANEL * std::min(BLOCK, K - k);
    }

    // entry(k, n) gives the value; columns n of the source are asked for in order
    template <class Entry> void fill_panel(long p, Entry entry) const {
        for (long k0 = 0; k0 < K; k0 += BLOCK) {
            T* to = at(k0, p);
            for (long k = k0; k < std::min(K, k0 + BLOCK); ++k)
                for (long n = 0; n < width(p); ++n) *to++ = entry(k, p * PANEL + n);
        }
    }

    // C (rows x N) (+)= A (rows x K) W, the panels of one member. Going back and forth over the panels from one step
    // to the next finds the panels used last still in the cache.
    void multiply(const T* A, long lda, long rows, T* C, long ldc, bool accumulate,
                  bool backwards, const Member& me) const {
        const long begin = me.begin(panels()), end = me.end(panels());
        for (long k0 = 0; k0 < K; k0 += BLOCK) {
            const long depth = std::min(BLOCK, K - k0);
            for (long i = begin; i < end; ++i) {
                const long p = backwards ? begin + end - 1 - i : i;
                const long next = i + 1 == end ? p : backwards ? p - 1 : p + 1;
                panel<T>(A + k0, lda, 1, rows, at(k0, p), width(p), C + p * PANEL, ldc, depth,
                         width(p) / W<T>, accumulate || k0, at(k0, next),
                         depth * PANEL * sizeof(T));
            }
        }
    }
};

// C (M x N) += A^T B for A (rows x M) and B (rows x N): the gradient of a weight matrix from
// a chunk of rows that is still in the cache. M and N are whole vectors. A column of A is
// spread over as many pages as there are rows, so what a tile reads is first laid together.
// Few columns are not worth that.
template <class T> class Outer {
    static constexpr long PANEL = TILE_VECTORS * W<T>, BLOCK = 1024, FEW = 4 * PANEL;
    Buffer<T> strips, columns;

  public:
    explicit Outer(long rows) : strips(rows * BLOCK), columns(rows * PANEL) {}

    void add(const T* A, long lda, long M, const T* B, long ldb, long N, long rows, T* C,
             const Member& me) const {
        const long begin = me.begin(M / TILE_ROWS) * TILE_ROWS;
        const long end = me.end(M / TILE_ROWS) * TILE_ROWS;
        for (long m = begin; m < end; m += BLOCK) {
            const long width = std::min(BLOCK, end - m);
            if (N > FEW) lay_together(A + m, lda, width, rows);
            for (long n = 0; n < N; n += PANEL)
                add_panel(A + m, lda, width, B + n, ldb, std::min(PANEL, N - n), rows,
                          C + m * N + n, N);
        }
    }

  private:
    void lay_together(const T* A, long lda, long width, long rows) const {
        for (long k = 0; k < rows; ++k)
            for (long i = 0; i < width; i += TILE_ROWS)
                std::copy_n(A + k * lda + i, TILE_ROWS, strips + i * rows + k * TILE_ROWS);
    }

    void add_panel(const T* A, long lda, long width, const T* B, long ldb, long own, long rows,
                   T* C, long N) const {
        for (long k = 0; k < rows; ++k) std::copy_n(B + k * ldb, own, columns + k * own);
        for (long i = 0; i < width; i += TILE_ROWS, C += TILE_ROWS * N) {
            for (int row = 0; row < TILE_ROWS; ++row)
                for (int j = 0; j < TILE_VECTORS; ++j)
                    __builtin_prefetch(C + (TILE_ROWS + row) * N + j * W<T>, 1, 2);
            const T* strip = N > FEW ? strips + i * rows : A + i;
            const long step = N > FEW ? TILE_ROWS : lda;
            panel<T>(strip, 1, step, TILE_ROWS, columns, own, C, N, rows, own / W<T>, true,
                     strip + rows * TILE_ROWS, N > FEW ? rows * TILE_ROWS * sizeof(T) : 0);
        }
    }
};
