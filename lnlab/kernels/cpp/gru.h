// One example of one step of the GRU of eq. 26-28. Blocks of the pre-activations: z, r, and the
// candidate's. Parameters, in blocks of H units: the gains of LN(W_h h) (2) and LN(U h), those
// of LN(W_x x) (2) and LN(W x), the summed biases of z and r (2) and that of LN(W x), the bias
// of LN(U h). KEEPS: h_t = z h_{t-1} + (1 - z) candidate, the other sign of z. NORM = false:
// without normalization; the gains are not read then.
#pragma once

#include "layers.h"

template <class T, bool KEEPS, bool NORM = true> struct GRU {
    static constexpr bool OVER_EXAMPLES = false;
    static constexpr int GATES = 3, STATES = 1, PARAMETERS = 10, MOMENTS = 4, SCRATCH = 1;
    enum { ZR_H, ZR_X, UH, WX };  // the four normalizations
    using V = vec<T>;

    Units<T> units;
    const T *gain_h, *gain_x, *bias, *bias_U;
    T eps[4];

    GRU(const Units<T>& u, const T* p, const double* e)
        : units(u), gain_h(p), gain_x(p + 3 * u.P), bias(p + 6 * u.P), bias_U(p + 9 * u.P),
          eps{T(e[0]), T(e[1]), T(e[2]), T(e[3])} {}

    struct Gates {
        V z, r, uh, candidate;
    };

    INLINE V from_x(const T* a_x, long at, const Moments<T>& m) const {
        if (!NORM) return load(a_x + at) + load(bias + at);
        return m.normal(a_x + at) * load(gain_x + at) + load(bias + at);
    }

    INLINE V gate(const T* a_h, const T* a_x, long at, const Moments<T>* m) const {
        const V x = from_x(a_x, at, m[ZR_X]);
        if (!NORM) return sigmoid<T>(load(a_h + at) + x);
        return sigmoid<T>(m[ZR_H].normal(a_h + at) * load(gain_h + at) + x);
    }

    INLINE Gates gates(const T* a_h, const T* a_x, long j, const Moments<T>* m) const {
        const long P = units.P, at = 2 * P + j;
        Gates s;
        s.z = gate(a_h, a_x, j, m);
        s.r = gate(a_h, a_x, P + j, m);
        s.uh = (NORM ? m[UH].normal(a_h + at) * load(gain_h + at) : load(a_h + at)) +
               load(bias_U + j);
        s.candidate = tanh<T>(from_x(a_x, at, m[WX]) + s.r * s.uh);
        if (KEEPS) s.z = T(1) - s.z;
        return s;
    }

    void forward(T* a_h, const T* a_x, T* h, T*, Moments<T>* kept, T*) const {
        const long P = units.P;
        Moments<T> m[MOMENTS];
        if (NORM) {
            m[ZR_H] = moments(a_h, 2, units, eps[ZR_H]);
            m[ZR_X] = moments(a_x, 2, units, eps[ZR_X]);
            m[UH] = moments(a_h + 2 * P, 1, units, eps[UH]);
            m[WX] = moments(a_x + 2 * P, 1, units, eps[WX]);
        }
        for (long j = 0; j < P; j += W<T>) {
            const Gates s = gates(a_h, a_x, j, m);
            store<T>(h + j, (T(1) - s.z) * load(h + j) + s.z * s.candidate);
        }
        std::copy_n(m, MOMENTS, kept);
    }

    void backward(const T* a_h, const T* a_x, const T* h_before, const T*, const T*,
                  const Moments<T>* kept, T* dh, T*, T* da_h, T* da_x, T* dp, T*,
                  const Ahead<T>& next) const {
        const Moments<T> m[MOMENTS] = {kept[0], kept[1], kept[2], kept[3]};
        const long P = units.P;
        Slopes<T> to[4];
        for (long j = 0; j < P; j += W<T>) {
            next.state(j);
            for (int k = 0; k < 3; ++k) next.summed(k * P + j);
            const Gates s = gates(a_h, a_x, j, m);
            const V d = load(dh + j);
            store<T>(dh + j, d * (T(1) - s.z));
            const V dz = d * (s.candidate - load(h_before + j)) * s.z * (T(1) - s.z);
            const V pre = d * s.z * (T(1) - s.candidate * s.candidate);
            const V dr = pre * s.uh * s.r * (T(1) - s.r), d_U = pre * s.r;
            // z was turned round for KEEPS, its summed input was not
            const V to_a_h[3] = {KEEPS ? -dz : dz, dr, d_U};
            const V to_a_x[3] = {to_a_h[0], dr, pre};
            add<T>(dp + 9 * P + j, d_U);
            for (int k = 0; k < 3; ++k) {
                const long at = k * P + j;
                const int n_h = k < 2 ? ZR_H : UH, n_x = k < 2 ? ZR_X : WX;
                add<T>(dp + 6 * P + at, to_a_x[k]);
                if (!NORM) {
                    store<T>(da_h + at, to_a_h[k]);
                    store<T>(da_x + at, to_a_x[k]);
                    continue;
                }
                const V x_h = m[n_h].normal(a_h + at), x_x = m[n_x].normal(a_x + at);
                add<T>(dp + at, to_a_h[k] * x_h);
                add<T>(dp + 3 * P + at, to_a_x[k] * x_x);
                const V to_h = to_a_h[k] * load(gain_h + at), to_x = to_a_x[k] * load(gain_x + at);
                to[n_h].take(to_h, x_h);
                to[n_x].take(to_x, x_x);
                store<T>(da_h + at, to_h);
                store<T>(da_x + at, to_x);
            }
        }
        if (!NORM) return;
        for (int n = 0; n < 4; ++n) to[n].mean(n < 2 ? 2 * units.H : units.H);
        for (long at = 0; at < 3 * P; at += W<T>) {
            const int n_h = at < 2 * P ? ZR_H : UH, n_x = at < 2 * P ? ZR_X : WX;
            const V x_h = m[n_h].normal(a_h + at), x_x = m[n_x].normal(a_x + at);
            store<T>(da_h + at, to[n_h].input(load(da_h + at), x_h, m[n_h].scale));
            store<T>(da_x + at, to[n_x].input(load(da_x + at), x_x, m[n_x].scale));
        }
    }
};
