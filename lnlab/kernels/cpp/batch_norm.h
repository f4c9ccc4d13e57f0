// One step of the LSTM of eq. 20-22 with batch norm in the three places, for all examples at
// once. Statistics run down the columns, over the examples that have not ended, so that units
// are independent: each call computes some of them. Blocks of the pre-activations and
// of the parameters as in lstm.h.
#pragma once

#include "layers.h"

// numbers of each example of a step, one row each
template <class T> struct Rows {
    T* data;
    long apart;

    T* operator()(long r) const { return data + r * apart; }
};

template <class T> struct Step {
    // bits of from_batch: the statistics of that place are those of the examples at hand
    enum { OF_H = 1, OF_X = 2, OF_C = 4 };
    long n, from_batch;  // the examples that go on
    // means, then variances, in blocks of H: of W_h h (4), of W_x x (4), of c. Forward they are
    // written where they are the batch's, read where not
    T* statistics;
    Rows<const T> a_h, a_x;

    // what of a sum over examples counts as its mean, in the backward pass through the
    // statistics
    T share(long place) const { return from_batch & place ? T(1) / n : T(0); }
};

template <class T> struct BatchLSTM {
    static constexpr bool OVER_EXAMPLES = true;
    static constexpr int GATES = 4, STATES = 2, PARAMETERS = 14, MOMENTS = 0, SCRATCH = 0;
    static constexpr int STATISTICS = 9;
    enum { F, I, O, G };
    using V = vec<T>;

    Units<T> units;
    const T *gain_h, *gain_x, *bias, *gain_c, *bias_c;
    T eps_h, eps_x, eps_c;

    BatchLSTM(const Units<T>& u, const T* p, const double* eps)
        : units(u), gain_h(p), gain_x(p + 4 * u.P), bias(p + 8 * u.P), gain_c(p + 12 * u.P),
          bias_c(p + 13 * u.P), eps_h(T(eps[0])), eps_x(T(eps[1])), eps_c(T(eps[2])) {}

    // of the units j, j + 1, ... in one block
    struct Column {
        V mu, scale;  // scale = 1 / sigma

        INLINE V normal(const T* a) const { return (load(a) - mu) * scale; }
    };

    // Column j of K blocks. Two passes, as in layers.h
    template <int K>
    INLINE void measure(Rows<const T> a, long n, T* statistics, long j) const {
        V mu[K], var[K];
        for (int k = 0; k < K; ++k) mu[k] = var[k] = V{};
        for (long r = 0; r < n; ++r)
            for (int k = 0; k < K; ++k) mu[k] += load(a(r) + k * units.P + j);
        for (int k = 0; k < K; ++k) mu[k] /= T(n);
        for (long r = 0; r < n; ++r)
            for (int k = 0; k < K; ++k) {
                const V d = load(a(r) + k * units.P + j) - mu[k];
                var[k] += d * d;
            }
        for (int k = 0; k < K; ++k) {
            units.put(mu[k], statistics + k * units.H, j);
            units.put(var[k] / T(n), statistics + (STATISTICS + k) * units.H, j);
        }
    }

    INLINE Column column(const T* statistics, long j, T eps) const {
        const V var = units.some(statistics + STATISTICS * units.H, j);
        return {units.some(statistics, j), inverse_root<T>(var + eps)};
    }

    struct Columns {
        Column h[4], x[4];
        V gain_h[4], gain_x[4], bias[4];

        INLINE V gate(const T* a_h, const T* a_x, int k) const {
            return h[k].normal(a_h) * gain_h[k] + (x[k].normal(a_x) * gain_x[k] + bias[k]);
        }
    };

    INLINE Columns columns(const Step<T>& s, long j) const {
        Columns m;
        for (int k = 0; k < 4; ++k) {
            const long at = k * units.P + j;
            m.h[k] = column(s.statistics + k * units.H, j, eps_h);
            m.x[k] = column(s.statistics + (4 + k) * units.H, j, eps_x);
            m.gain_h[k] = load(gain_h + at);
            m.gain_x[k] = load(gain_x + at);
            m.bias[k] = load(bias + at);
        }
        return m;
    }

    // The units from begin to end. c holds c_{t-1} and is given c_t; h is given h_t
    void forward(const Step<T>& s, Rows<T> h, Rows<T> c, long begin, long end) const {
        const long P = units.P;
        T* const of_c = s.statistics + 8 * units.H;
        for (long j = begin; j < end; j += W<T>) {
            if (s.from_batch & s.OF_H) measure<4>(s.a_h, s.n, s.statistics, j);
            if (s.from_batch & s.OF_X)
                measure<4>(s.a_x, s.n, s.statistics + 4 * units.H, j);
            const Columns m = columns(s, j);
            for (long r = 0; r < s.n; ++r) {
                const T *a_h = s.a_h(r) + j, *a_x = s.a_x(r) + j;
                const V f = sigmoid<T>(m.gate(a_h, a_x, F));
                const V i = sigmoid<T>(m.gate(a_h + I * P, a_x + I * P, I));
                const V g = tanh<T>(m.gate(a_h + G * P, a_x + G * P, G));
                store<T>(c(r) + j, f * load(c(r) + j) + i * g);
                store<T>(h(r) + j, sigmoid<T>(m.gate(a_h + O * P, a_x + O * P, O)));
            }
            if (s.from_batch & s.OF_C) measure<1>({c.data, c.apart}, s.n, of_c, j);
            const Column m_c = column(of_c, j, eps_c);
            const V gain = load(gain_c + j), bias = load(bias_c + j);
            for (long r = 0; r < s.n; ++r) {
                const V n = m_c.normal(c(r) + j) * gain + bias;
                store<T>(h(r) + j, load(h(r) + j) * tanh<T>(n));
            }
        }
    }

    // dh and dc hold the gradients of h_t and c_t and are given the direct part of those of
    // h_{t-1} (none here) and of c_{t-1}; da_h and da_x those of the pre-activations; dp adds
    // up those of the parameters
    void backward(const Step<T>& s, Rows<const T> c_before, Rows<const T> c, Rows<T> dh,
                  Rows<T> dc, Rows<T> da_h, Rows<T> da_x, T* dp, long begin, long end) const {
        const long P = units.P;
        for (long j = begin; j < end; j += W<T>) {
            const Columns m = columns(s, j);
            const Column m_c = column(s.statistics + 8 * units.H, j, eps_c);
            const V gain = load(gain_c + j), bias = load(bias_c + j);
            Slopes<T> to_c;
            for (long r = 0; r < s.n; ++r) {
                const V o = sigmoid<T>(m.gate(s.a_h(r) + O * P + j, s.a_x(r) + O * P + j, O));
                const V u = m_c.normal(c(r) + j), q = tanh<T>(u * gain + bias);
                const V d = load(dh(r) + j), dn = d * o * (T(1) - q * q);
                to_c.take(dn, u);
                store<T>(dh(r) + j, dn);
                store<T>(da_h(r) + O * P + j, d * q * o * (T(1) - o));
            }
            add<T>(dp + 12 * P + j, to_c.along);
            add<T>(dp + 13 * P + j, to_c.plain);
            to_c.times(s.share(s.OF_C));
            for (long r = 0; r < s.n; ++r) {
                const T *a_h = s.a_h(r) + j, *a_x = s.a_x(r) + j;
                const V u = m_c.normal(c(r) + j);
                const V through = to_c.input(load(dh(r) + j), u, m_c.scale * gain);
                const V d = through + load(dc(r) + j);
                const V f = sigmoid<T>(m.gate(a_h, a_x, F));
                const V i = sigmoid<T>(m.gate(a_h + I * P, a_x + I * P, I));
                const V g = tanh<T>(m.gate(a_h + G * P, a_x + G * P, G));
                store<T>(dh(r) + j, V{});
                store<T>(dc(r) + j, d * f);
                T* da = da_h(r) + j;
                store<T>(da + F * P, d * load(c_before(r) + j) * f * (T(1) - f));
                store<T>(da + I * P, d * g * i * (T(1) - i));
                store<T>(da + G * P, d * i * (T(1) - g * g));
            }
            for (int k = 0; k < 4; ++k) through_the_norms(s, m, k, k * P + j, da_h, da_x, dp);
        }
    }

    // da_h holds what comes back through gate k, and is given, as is da_x, that of what was
    // normalized
    INLINE void through_the_norms(const Step<T>& s, const Columns& m, int k, long at,
                                  Rows<T> da_h, Rows<T> da_x, T* dp) const {
        const long P = units.P;
        Slopes<T> to_h, to_x;
        for (long r = 0; r < s.n; ++r) {
            const V d = load(da_h(r) + at);
            to_h.take(d, m.h[k].normal(s.a_h(r) + at));
            to_x.take(d, m.x[k].normal(s.a_x(r) + at));
        }
        add<T>(dp + at, to_h.along);
        add<T>(dp + 4 * P + at, to_x.along);
        add<T>(dp + 8 * P + at, to_h.plain);
        to_h.times(s.share(s.OF_H));
        to_x.times(s.share(s.OF_X));
        const V by_h = m.h[k].scale * m.gain_h[k], by_x = m.x[k].scale * m.gain_x[k];
        for (long r = 0; r < s.n; ++r) {
            const V d = load(da_h(r) + at);
            store<T>(da_h(r) + at, to_h.input(d, m.h[k].normal(s.a_h(r) + at), by_h));
            store<T>(da_x(r) + at, to_x.input(d, m.x[k].normal(s.a_x(r) + at), by_x));
        }
    }
};
