// Vectors of floats or doubles as wide as the machine's registers, and the functions of
// them that gates need. Written with the vector extensions of GCC and Clang: one source
// for AVX-512, AVX2, and whatever 16-byte vectors a processor has (SSE2, NEON).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
// 8 x 3 registers of sums where there are 32 registers, 4 x 3 where there are 16
constexpr int TILE_ROWS = BYTES == 64 ? 8 : 4;
constexpr int TILE_VECTORS = 3;

// the compiler would call some of these, and pass vectors through memory
#define INLINE inline __attribute__((always_inline))

template <class T> struct Lanes;

template <> struct Lanes<float> {
    typedef float vec __attribute__((vector_size(BYTES)));
    typedef float anywhere __attribute__((vector_size(BYTES), aligned(4)));
    typedef int32_t bits __attribute__((vector_size(BYTES)));
    static constexpr float log2e = 1.44269504f, ln2_high = 0.693145751953125f,
                           ln2_low = 1.42860677e-6f, lowest = -87.0f, highest = 88.0f,
                           round = 12582912.0f;  // 1.5 * 2^23: adding it rounds to integers
    static constexpr int mantissa = 23, bias = 127;
};

template <> struct Lanes<double> {
    typedef double vec __attribute__((vector_size(BYTES)));
    typedef double anywhere __attribute__((vector_size(BYTES), aligned(8)));
    typedef int64_t bits __attribute__((vector_size(BYTES)));
    static constexpr double log2e = 1.4426950408889634, ln2_high = 0.693147180369123816490,
                            ln2_low = 1.90821492927058770002e-10, lowest = -708.0,
                            highest = 709.0, round = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr int mantissa = 52, bias = 1023;
};

template <class T> using vec = typename Lanes<T>::vec;
template <class T> constexpr long W = BYTES / sizeof(T);  // lanes of a vector
template <class T, long n> struct Some {
    typedef T lanes __attribute__((vector_size(n * sizeof(T))));
};

// Not by memcpy, which may write anything: pointers and moments would be read again after it.
template <class T> INLINE vec<T> load(const T* p) {
    return *reinterpret_cast<const typename Lanes<T>::anywhere*>(p);
}

template <class T> INLINE void store(T* p, vec<T> v) {
    *reinterpret_cast<typename Lanes<T>::anywhere*>(p) = v;
}

// v, and in a register: GCC would fetch it from memory again for each sum that it is added to,
// which with four rows takes a third longer
template <class T> INLINE vec<T> held(vec<T> v) {
#if defined(__AVX512F__)
    asm("" : "+v"(v));
#elif defined(__x86_64__)
    asm("" : "+x"(v));
#endif
    return v;
}

// n values, whole vectors
template <class T> INLINE void copy(const T* from, long n, T* to) {
    for (long i = 0; i < n; i += W<T>) store<T>(to + i, load(from + i));
}

template <class T> INLINE void add(T* p, vec<T> v) { store<T>(p, load(p) + v); }

// the sum of n lanes, always in the same order: the halves, their halves, ...
template <class T, long n = W<T>> INLINE T total(typename Some<T, n>::lanes v) {
    if constexpr (n == 1) return v[0];
    else {
        typename Some<T, n / 2>::lanes half[2];
        __builtin_memcpy(half, &v, sizeof v);
        return total<T, n / 2>(half[0] + half[1]);
    }
}

// 1 / sqrt(v): a loop that compilers make vectors of, once errno is out of the way
template <class T> INLINE vec<T> inverse_root(vec<T> v) {
    T lanes[W<T>];
    store<T>(lanes, v);
    for (long i = 0; i < W<T>; ++i) lanes[i] = T(1) / std::sqrt(lanes[i]);
    return load(lanes);
}

INLINE vec<float> polynomial(vec<float> r) {  // (e^r - 1 - r) / r^2, |r| <= ln 2 / 2 (Cephes)
    vec<float> p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    return p * r + 5.0000001201e-1f;
}

INLINE vec<double> polynomial(vec<double> r) {  // its Taylor series: what is left out is 4e-18
    vec<double> p = r * (1.0 / 87178291200.0) + 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    return p * r + 0.5;
}

// e^x = scale (1 + fraction). Comparisons are written so that NaN passes through them.
template <class T> INLINE void exponential(vec<T> x, vec<T>& scale, vec<T>& fraction) {
    using L = Lanes<T>;
    const vec<T> zero = {};
    x = x > L::highest ? zero + L::highest : x;
    x = x < L::lowest ? zero + L::lowest : x;
    vec<T> n = x * L::log2e + L::round;
    typename L::bits bits = (typename L::bits)n;
    n -= L::round;
    vec<T> r = x - n * L::ln2_high;
    r -= n * L::ln2_low;
    fraction = r * r * polynomial(r) + r;
    const typename L::bits one = (typename L::bits)(zero + T(1));
    scale = (vec<T>)((bits << L::mantissa) + one);
}

template <class T> INLINE vec<T> exp(vec<T> x) {
    vec<T> scale, fraction;
    exponential<T>(x, scale, fraction);
    return scale * fraction + scale;
}

template <class T> INLINE vec<T> sigmoid(vec<T> x) {
    vec<T> scale, fraction;
    exponential<T>(-x, scale, fraction);
    return T(1) / (scale * fraction + (scale + T(1)));
}

// through e^2x - 1, which keeps the relative accuracy of a small tanh
template <class T> INLINE vec<T> tanh(vec<T> x) {
    vec<T> scale, fraction;
    exponential<T>(x + x, scale, fraction);
    vec<T> e = scale * fraction + (scale - T(1));
    return e / (e + T(2));
}
