// One case of one step of the LSTM of eq. 20-22, or with NORM_GATES = false of eq. 29-31, or
// with NORM_C = false too of neither: without any normalization.
// Blocks of the summed inputs: f, i, o, g. Parameters, in blocks of H units: the gains of
// LN(W_h h) (4), of LN(W_x x) (4), the sum of all biases of the gates (4), and the gain and
// the bias of LN(c). Nothing but summed inputs, c and the moments are kept for the way back:
// computing a gate again is cheaper than fetching it from memory.
#pragma once

#include "layers.h"

template <class T, bool NORM_GATES, bool NORM_C = true> struct LSTM {
    // W_h h and W_x x are normalized apart; else only their sum is looked at
    static constexpr bool APART = NORM_GATES;
    static constexpr int GATES = 4, STATES = 2, PARAMETERS = 14, MOMENTS = 3, SCRATCH = 2;
    enum { F, I, O, G };
    using V = vec<T>;

    Units<T> units;
    const T *gain_h, *gain_x, *bias, *gain_c, *bias_c;
    T eps_h, eps_x, eps_c;

    LSTM(const Units<T>& u, const T* p, const double* eps)
        : units(u), gain_h(p), gain_x(p + 4 * u.P), bias(p + 8 * u.P), gain_c(p + 12 * u.P),
          bias_c(p + 13 * u.P), eps_h(T(eps[0])), eps_x(T(eps[1])), eps_c(T(eps[2])) {}

    V gate(const T* a_h, const T* a_x, long at, const Moments<T>* m) const {
        if (!NORM_GATES) return load(a_h + at) + load(a_x + at) + load(bias + at);
        return m[0].normal(a_h + at) * load(gain_h + at) +
               (m[1].normal(a_x + at) * load(gain_x + at) + load(bias + at));
    }

    // c holds c_{t-1} and is given c_t; h is given h_t
    void forward(T* a_h, const T* a_x, T* h, T* c, Moments<T>* m, T* scratch) const {
        const long P = units.P;
        if (NORM_GATES) {
            m[0] = moments(a_h, 4, units, eps_h);
            m[1] = moments(a_x, 4, units, eps_x);
        }
        for (long j = 0; j < P; j += W<T>) {
            const V f = sigmoid<T>(gate(a_h, a_x, F * P + j, m));
            const V i = sigmoid<T>(gate(a_h, a_x, I * P + j, m));
            const V g = tanh<T>(gate(a_h, a_x, G * P + j, m));
            store<T>(c + j, f * load(c + j) + i * g);
            store<T>(scratch + j, sigmoid<T>(gate(a_h, a_x, O * P + j, m)));
        }
        m[2] = NORM_C ? moments(c, 1, units, eps_c) : Moments<T>{0, 1};
        for (long j = 0; j < P; j += W<T>) {
            const V n = m[2].normal(c + j) * load(gain_c + j) + load(bias_c + j);
            store<T>(h + j, load(scratch + j) * tanh<T>(n));
        }
    }

    // dh and dc hold the gradients of h_t and c_t and are given the direct part of those of
    // h_{t-1} (none here) and of c_{t-1}; da_h and da_x those of the summed inputs; dp adds
    // up those of the parameters
    void backward(const T* a_h, const T* a_x, const T*, const T* c_before, const T* c,
                  const Moments<T>* m, T* dh, T* dc, T* da_h, T* da_x, T* dp,
                  T* scratch) const {
        const long P = units.P;
        T *du = scratch, *dz_o = scratch + P;
        Slopes<T> to_c;
        for (long j = 0; j < P; j += W<T>) {
            const V o = sigmoid<T>(gate(a_h, a_x, O * P + j, m)), u = m[2].normal(c + j);
            const V q = tanh<T>(u * load(gain_c + j) + load(bias_c + j)), d = load(dh + j);
            const V dn = d * o * (T(1) - q * q), d_u = dn * load(gain_c + j);
            add<T>(dp + 12 * P + j, dn * u);
            add<T>(dp + 13 * P + j, dn);
            if (NORM_C) to_c.take(d_u, u);
            store<T>(du + j, d_u);
            store<T>(dz_o + j, d * q * o * (T(1) - o));
            store<T>(dh + j, V{});
        }
        to_c.mean(units.H);
        Slopes<T> to_h, to_x;
        for (long j = 0; j < P; j += W<T>) {
            const V through = to_c.input(load(du + j), m[2].normal(c + j), m[2].scale);
            const V d = units.real(through, j) + load(dc + j);
            const V f = sigmoid<T>(gate(a_h, a_x, F * P + j, m));
            const V i = sigmoid<T>(gate(a_h, a_x, I * P + j, m));
            const V g = tanh<T>(gate(a_h, a_x, G * P + j, m));
            store<T>(dc + j, d * f);
            const V dz[4] = {d * load(c_before + j) * f * (T(1) - f), d * g * i * (T(1) - i),
                             load(dz_o + j), d * i * (T(1) - g * g)};
            for (int k = 0; k < 4; ++k) {
                const long at = k * P + j;
                add<T>(dp + 8 * P + at, dz[k]);
                store<T>(da_h + at, dz[k]);
                if (!NORM_GATES) {
                    store<T>(da_x + at, dz[k]);
                    continue;
                }
                const V x_h = m[0].normal(a_h + at), x_x = m[1].normal(a_x + at);
                add<T>(dp + at, dz[k] * x_h);
                add<T>(dp + 4 * P + at, dz[k] * x_x);
                to_h.take(dz[k] * load(gain_h + at), x_h);
                to_x.take(dz[k] * load(gain_x + at), x_x);
            }
        }
        if (!NORM_GATES) return;
        to_h.mean(4 * units.H);
        to_x.mean(4 * units.H);
        for (long at = 0; at < 4 * P; at += W<T>) {
            const V d = load(da_h + at);
            const V x_h = m[0].normal(a_h + at), x_x = m[1].normal(a_x + at);
            store<T>(da_h + at, to_h.input(d * load(gain_h + at), x_h, m[0].scale));
            store<T>(da_x + at, to_x.input(d * load(gain_x + at), x_x, m[1].scale));
        }
    }
};
