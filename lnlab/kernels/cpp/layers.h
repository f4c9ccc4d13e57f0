// Layer normalization of one example whose units lie in blocks (gates) of H, each padded with
// zeros to P, a whole number of vectors: what eq. 15 and its gradient need.
#pragma once

#include "vectors.h"

template <class T> struct Units {
    long H, P;

    explicit Units(long units) : H(units), P((units + step - 1) / step * step) {}
    static constexpr long step = W<T> > TILE_ROWS ? W<T> : TILE_ROWS;

    // v where unit j, j + 1, ... are real, 0 in the padding
    vec<T> real(vec<T> v, long j) const {
        if (j + W<T> <= H) return v;
        T lanes[W<T>];
        __builtin_memcpy(lanes, &v, sizeof v);
        for (long i = H > j ? H - j : 0; i < W<T>; ++i) lanes[i] = 0;
        return load(lanes);
    }
    // of a block that is not padded: units j, j + 1, ..., and 0 in the padding
    INLINE vec<T> some(const T* block, long j) const {
        if (j + W<T> <= H) return load(block + j);
        T lanes[W<T>] = {};
        for (long i = 0; j + i < H; ++i) lanes[i] = block[j + i];
        return load(lanes);
    }
    INLINE void put(vec<T> v, T* block, long j) const {
        if (j + W<T> <= H) return store<T>(block + j, v);
        for (long i = 0; j + i < H; ++i) block[j + i] = v[i];
    }
};

template <class T> struct Moments {
    T mu = 0, scale = 1;  // scale = 1 / sigma

    vec<T> normal(const T* a) const { return (load(a) - mu) * scale; }
};

// Two passes: E[a^2] - E[a]^2 cancels once |mu| >> sigma. Four sums hide the latency.
template <class T>
inline Moments<T> moments(const T* a, long blocks, const Units<T>& units, T eps) {
    const long count = blocks * units.P, n = blocks * units.H, step = W<T>;
    vec<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
    long i = 0;
    for (; i + 4 * step <= count; i += 4 * step) {
        s0 += load(a + i);
        s1 += load(a + i + step);
        s2 += load(a + i + 2 * step);
        s3 += load(a + i + 3 * step);
    }
    for (; i < count; i += step) s0 += load(a + i);
    const T mu = total<T>((s0 + s1) + (s2 + s3)) / n;
    s0 = s1 = vec<T>{};
    for (long block = 0; block < blocks; ++block, a += units.P) {
        long j = 0;
        for (; j + 2 * step <= units.H; j += 2 * step) {
            const vec<T> d = load(a + j) - mu, e = load(a + j + step) - mu;
            s0 += d * d;
            s1 += e * e;
        }
        for (; j < units.P; j += step) {
            const vec<T> d = units.real(load(a + j) - mu, j);
            s0 += d * d;
        }
    }
    return {mu, T(1) / std::sqrt(total<T>(s0 + s1) / n + eps)};
}

// The gradient of layer normalization, a sum of two products with the normalized input:
// da = scale (d - mean(d) - normal mean(d normal)), d being that of the normalized input.
template <class T> struct Slopes {
    vec<T> plain = {}, along = {};

    void take(vec<T> d, vec<T> normal) {
        plain += d;
        along += d * normal;
    }
    void times(T share) {
        plain *= share;
        along *= share;
    }
    void mean(long n) {
        plain = vec<T>{} + total<T>(plain) / n;
        along = vec<T>{} + total<T>(along) / n;
    }
    template <class S> vec<T> input(vec<T> d, vec<T> normal, S scale) const {
        return (d - plain - normal * along) * scale;
    }
};

// What the next example of the backward pass will read. Nothing foresees it, as that runs from
// the last step to the first; asked for all at once it would hold up what is computed
// meanwhile, so it is asked for a vector at a time.
template <class T> struct Ahead {
    const T *a_h, *a_x, *c_before, *dh;

    INLINE void summed(long at) const {
        __builtin_prefetch(a_h + at);
        __builtin_prefetch(a_x + at);
    }
    INLINE void state(long j) const {
        __builtin_prefetch(c_before + j);
        __builtin_prefetch(dh + j);
    }
};
