// The window of one example along its text, and the backward pass through it: Graves (2013),
// eq. 48-51, as lnlab/papers/handwriting/model.py says them. K components stand at kappa, and
// look at the places u = 1 ... U + 1, of which the last is behind the text.
#pragma once

#include <limits>

#include "layers.h"
#include "memory.h"

template <class T> class AlongText {
    using V = vec<T>;
    const Units<T> components;
    Buffer<T> u;

    // exp<T> stops at the ends of its range, where that of torch goes on to 0 and to infinity
    static INLINE V power(V a) {
        const V zero = {}, e = exp<T>(a);
        return a < Lanes<T>::lowest    ? zero
               : a > Lanes<T>::highest ? zero + std::numeric_limits<T>::infinity()
                                       : e;
    }

  public:
    const Units<T> places;

    AlongText(long K, long U) : components(K), u(Units<T>(U + 1).P), places(U + 1) {
        for (long j = 0; j < places.P; ++j) u[j] = T(j + 1);
    }

    // of: what is linear in h, turned into alpha, beta and the step of kappa (3 blocks)
    void move(T* of, const T* before, T* kappa) const {
        const long P = components.P;
        for (long j = 0; j < 3 * P; j += W<T>) store<T>(of + j, power(load(of + j)));
        for (long j = 0; j < P; j += W<T>)
            store<T>(kappa + j, load(before + j) + load(of + 2 * P + j));
    }

    // phi (U + 1, padded): how much of each place is seen
    void look(const T* of, const T* kappa, T* phi) const {
        const T *alpha = of, *beta = of + components.P;
        for (long j = 0; j < places.P; j += W<T>) {
            V sum = {};
            for (long k = 0; k < components.H; ++k) {
                const V d = kappa[k] - load(u + j);
                sum += alpha[k] * power(-beta[k] * d * d);
            }
            store<T>(phi + j, sum);
        }
    }

    // dkappa holds the gradient of kappa from all steps behind and is given that of the kappa
    // before; dof are the gradients of what is linear in h; the padding of dphi is 0
    void back(const T* of, const T* kappa, const T* dphi, T* dkappa, T* dof) const {
        const long P = components.P;
        const T *alpha = of, *beta = of + P, *step = of + 2 * P;
        for (long k = 0; k < components.H; ++k) {
            V seen = {}, off = {}, wide = {};
            for (long j = 0; j < places.P; j += W<T>) {
                const V d = kappa[k] - load(u + j);
                const V e = load(dphi + j) * power(-beta[k] * d * d), ed = e * d;
                seen += e;
                off += ed;
                wide += ed * d;
            }
            dof[k] = alpha[k] * total<T>(seen);
            dof[P + k] = -alpha[k] * beta[k] * total<T>(wide);
            dkappa[k] -= 2 * alpha[k] * beta[k] * total<T>(off);
            dof[2 * P + k] = dkappa[k] * step[k];
        }
    }
};
