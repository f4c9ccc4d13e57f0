// One example of one step of the LSTM of eq. 20-22, or with NORM_GATES = false of eq. 29-31, or
// with NORM_C = false too of neither: without any normalization.
// Blocks of the pre-activations: f, i, o, g. Parameters, in blocks of H units: the gains of
// LN(W_h h) (4), of LN(W_x x) (4), the sum of all biases of the gates (4), and the gain and
// the bias of LN(c). Nothing but pre-activations, c and the moments are kept for the backward
// pass: computing a gate again is cheaper than fetching it from memory.
#pragma once

#include "layers.h"

template <class T, bool NORM_GATES, bool NORM_C = true> struct LSTM {
    // W_h h and W_x x are normalized apart; else only their sum is looked at
    static constexpr bool APART = NORM_GATES;
    static constexpr bool OVER_EXAMPLES = false;
    static constexpr int GATES = 4, STATES = 2, PARAMETERS = 14, MOMENTS = 3, SCRATCH = 1;
    enum { F, I, O, G };
    using V = vec<T>;

    Units<T> units;
    const T *gain_h, *gain_x, *bias, *gain_c, *bias_c;
    T eps_h, eps_x, eps_c;

    LSTM(const Units<T>& u, const T* p, const double* eps)
        : units(u), gain_h(p), gain_x(p + 4 * u.P), bias(p + 8 * u.P), gain_c(p + 12 * u.P),
          bias_c(p + 13 * u.P), eps_h(T(eps[0])), eps_x(T(eps[1])), eps_c(T(eps[2])) {}

    struct Normals {
        Moments<T> h, x, c;
    };

    INLINE V gate(const T* a_h, const T* a_x, long at, const Normals& m) const {
        if (!NORM_GATES) return load(a_h + at) + load(a_x + at) + load(bias + at);
        return m.h.normal(a_h + at) * load(gain_h + at) +
               (m.x.normal(a_x + at) * load(gain_x + at) + load(bias + at));
    }

    // c holds c_{t-1} and is given c_t; h is given h_t
    void forward(T* a_h, const T* a_x, T* h, T* c, Moments<T>* kept, T* scratch) const {
        const long P = units.P;
        Normals m;
        if (NORM_GATES) {
            m.h = moments(a_h, 4, units, eps_h);
            m.x = moments(a_x, 4, units, eps_x);
        }
        for (long j = 0; j < P; j += W<T>) {
            const V f = sigmoid<T>(gate(a_h, a_x, F * P + j, m));
            const V i = sigmoid<T>(gate(a_h, a_x, I * P + j, m));
            const V g = tanh<T>(gate(a_h, a_x, G * P + j, m));
            store<T>(c + j, f * load(c + j) + i * g);
            store<T>(scratch + j, sigmoid<T>(gate(a_h, a_x, O * P + j, m)));
        }
        m.c = NORM_C ? moments(c, 1, units, eps_c) : Moments<T>{};
        for (long j = 0; j < P; j += W<T>) {
            const V n = m.c.normal(c + j) * load(gain_c + j) + load(bias_c + j);
            store<T>(h + j, load(scratch + j) * tanh<T>(n));
        }
        kept[0] = m.h, kept[1] = m.x, kept[2] = m.c;
    }

    // adds up what comes back through the gates, dz being the gradient of what one is given
    struct Back {
        const LSTM& cell;
        const T *a_h, *a_x;
        T *da_h, *da_x, *dp;
        Slopes<T> to_h, to_x;

        INLINE void take(V dz, long at, const Normals& m) {
            const long P = cell.units.P;
            add<T>(dp + 8 * P + at, dz);
            store<T>(da_h + at, dz);
            if (!NORM_GATES) {
                store<T>(da_x + at, dz);
                return;
            }
            const V x_h = m.h.normal(a_h + at), x_x = m.x.normal(a_x + at);
            add<T>(dp + at, dz * x_h);
            add<T>(dp + 4 * P + at, dz * x_x);
            to_h.take(dz * load(cell.gain_h + at), x_h);
            to_x.take(dz * load(cell.gain_x + at), x_x);
        }
    };

    // dh and dc hold the gradients of h_t and c_t and are given the direct part of those of
    // h_{t-1} (none here) and of c_{t-1}; da_h and da_x those of the pre-activations; dp adds
    // up those of the parameters
    void backward(const T* a_h, const T* a_x, const T*, const T* c_before, const T* c,
                  const Moments<T>* kept, T* dh, T* dc, T* da_h, T* da_x, T* dp,
                  T* du, const Ahead<T>& next) const {
        const long P = units.P;
        const Normals m{kept[0], kept[1], kept[2]};
        Back back{*this, a_h, a_x, da_h, da_x, dp, {}, {}};
        Slopes<T> to_c;
        for (long j = 0; j < P; j += W<T>) {
            next.state(j);
            next.summed(j);
            next.summed(P + j);
            const V o = sigmoid<T>(gate(a_h, a_x, O * P + j, m)), u = m.c.normal(c + j);
            const V q = tanh<T>(u * load(gain_c + j) + load(bias_c + j)), d = load(dh + j);
            const V dn = d * o * (T(1) - q * q), d_u = dn * load(gain_c + j);
            add<T>(dp + 12 * P + j, dn * u);
            add<T>(dp + 13 * P + j, dn);
            if (NORM_C) to_c.take(d_u, u);
            store<T>(du + j, d_u);
            store<T>(dh + j, V{});
            back.take(d * q * o * (T(1) - o), O * P + j, m);
        }
        to_c.mean(units.H);
        for (long j = 0; j < P; j += W<T>) {
            next.summed(2 * P + j);
            next.summed(3 * P + j);
            const V through = to_c.input(load(du + j), m.c.normal(c + j), m.c.scale);
            const V d = units.real(through, j) + load(dc + j);
            const V f = sigmoid<T>(gate(a_h, a_x, F * P + j, m));
            const V i = sigmoid<T>(gate(a_h, a_x, I * P + j, m));
            const V g = tanh<T>(gate(a_h, a_x, G * P + j, m));
            store<T>(dc + j, d * f);
            back.take(d * load(c_before + j) * f * (T(1) - f), F * P + j, m);
            back.take(d * g * i * (T(1) - i), I * P + j, m);
            back.take(d * i * (T(1) - g * g), G * P + j, m);
        }
        if (!NORM_GATES) return;
        Slopes<T> to_h = back.to_h, to_x = back.to_x;
        to_h.mean(4 * units.H);
        to_x.mean(4 * units.H);
        for (long at = 0; at < 4 * P; at += W<T>) {
            const V d = load(da_h + at);
            const V x_h = m.h.normal(a_h + at), x_x = m.x.normal(a_x + at);
            store<T>(da_h + at, to_h.input(d * load(gain_h + at), x_h, m.h.scale));
            store<T>(da_x + at, to_x.input(d * load(gain_x + at), x_x, m.x.scale));
        }
    }
};
