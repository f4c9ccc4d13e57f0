// One example of one step of the layer of eq. 4 with f = tanh: the two products are added
// before they are normalized. Parameters, in blocks of H units: its gain and its bias.
#pragma once

#include "layers.h"

template <class T> struct RNN {
    static constexpr bool OVER_EXAMPLES = false;
    static constexpr int GATES = 1, STATES = 1, PARAMETERS = 2, MOMENTS = 1, SCRATCH = 1;
    using V = vec<T>;

    Units<T> units;
    const T *gain, *bias;
    T eps;

    RNN(const Units<T>& u, const T* p, const double* e)
        : units(u), gain(p), bias(p + u.P), eps(T(e[0])) {}

    V output(const T* a, long j, const Moments<T>* m) const {
        return tanh<T>(m[0].normal(a + j) * load(gain + j) + load(bias + j));
    }

    // a_h is given the sum, which is all that the backward pass reads
    void forward(T* a_h, const T* a_x, T* h, T*, Moments<T>* m, T*) const {
        for (long j = 0; j < units.P; j += W<T>) add<T>(a_h + j, load(a_x + j));
        m[0] = moments(a_h, 1, units, eps);
        for (long j = 0; j < units.P; j += W<T>) store<T>(h + j, output(a_h, j, m));
    }

    void backward(const T* a, const T*, const T*, const T*, const T*, const Moments<T>* m, T* dh,
                  T*, T* da_h, T* da_x, T* dp, T*, const Ahead<T>& next) const {
        const long P = units.P;
        Slopes<T> slopes;
        for (long j = 0; j < P; j += W<T>) {
            next.state(j);
            next.summed(j);
            const V h = output(a, j, m), x = m[0].normal(a + j);
            const V dz = load(dh + j) * (T(1) - h * h), d = dz * load(gain + j);
            add<T>(dp + j, dz * x);
            add<T>(dp + P + j, dz);
            slopes.take(d, x);
            store<T>(da_h + j, d);
            store<T>(dh + j, V{});
        }
        slopes.mean(units.H);
        for (long j = 0; j < P; j += W<T>) {
            const V da = slopes.input(load(da_h + j), m[0].normal(a + j), m[0].scale);
            store<T>(da_h + j, da);
            store<T>(da_x + j, da);
        }
    }
};
