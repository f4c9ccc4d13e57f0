// A window of N x N Gaussian filters on one picture, and the backward pass through it: what
// lnlab/papers/draw/model.py says. A picture lies row by row, each padded with zeros to whole
// vectors; what stands in the padding of others does not count, as a filter is 0 there.
#pragma once

#include "layers.h"
#include "memory.h"

template <class T> class Window {
    using V = vec<T>;
    const Units<T> height, width;
    const long N;
    const T first;  // the number of the first filter: 1
    Buffer<T> F_Y, F_X, dF_Y, dF_X, U, S, A, B;
    T x, y, stride, narrow, intensity, faint;  // faint = 1 / intensity

    T number(long i) const { return T(i) + first - T(N) / 2 - T(0.5); }
    T rate() const { return T(std::max(height.H, width.H) - 1) / T(std::max(1L, N - 1)); }

    static V places(long j) {  // j + 1, j + 2, ...
        T lanes[W<T>];
        for (long i = 0; i < W<T>; ++i) lanes[i] = T(j + i + 1);
        return load(lanes);
    }

    // N Gaussians about a middle, each of sum 1; the pixel that is nearest to one's own middle
    // has e^0, so that there is no row of zeros even where it stands outside
    void filters(const Units<T>& side, T middle, T* F) const {
        for (long i = 0; i < N; ++i, F += side.P) {
            const T mu = middle + number(i) * stride;
            const T nearest = std::min(std::max(std::round(mu), T(1)), T(side.H)) - mu;
            const T most = nearest * nearest * narrow;
            V sum = {};
            for (long j = 0; j < side.P; j += W<T>) {
                const V d = places(j) - mu;
                const V f = side.real(exp<T>(d * d * narrow - most), j);
                store<T>(F + j, f);
                sum += f;
            }
            const T scale = T(1) / total<T>(sum);
            for (long j = 0; j < side.P; j += W<T>) store<T>(F + j, load(F + j) * scale);
        }
    }

    struct Slope {
        T middle = 0, stride = 0, log_variance = 0;
    };

    Slope slope(const Units<T>& side, T middle, const T* F, const T* dF) const {
        Slope sums;
        for (long i = 0; i < N; ++i, F += side.P, dF += side.P) {
            const T mu = middle + number(i) * stride;
            V along = {}, to_mu = {}, to_variance = {};
            for (long j = 0; j < side.P; j += W<T>) along += load(F + j) * load(dF + j);
            const T mean = total<T>(along);
            for (long j = 0; j < side.P; j += W<T>) {
                const V d = places(j) - mu, e = load(F + j) * (load(dF + j) - mean) * d;
                to_mu += e;
                to_variance += e * d;
            }
            const T dmu = -2 * narrow * total<T>(to_mu);
            sums.middle += dmu;
            sums.stride += number(i) * dmu;
            sums.log_variance -= narrow * total<T>(to_variance);
        }
        return sums;
    }

    // to (N x width) = F_Y picture
    void down(const T* picture, T* to) const {
        for (long i = 0; i < N; ++i)
            for (long j = 0; j < width.P; j += W<T>) {
                V sum = {};
                for (long h = 0; h < height.H; ++h)
                    sum += F_Y[i * height.P + h] * load(picture + h * width.P + j);
                store<T>(to + i * width.P + j, sum);
            }
    }

    // to_i (width) = sum over k of c(i, k) rows_k
    template <class Factor> void mixed(Factor c, const T* rows, T* to, bool more = false) const {
        for (long i = 0; i < N; ++i)
            for (long j = 0; j < width.P; j += W<T>) {
                V sum = more ? load(to + i * width.P + j) : V{};
                for (long k = 0; k < N; ++k) sum += c(i, k) * load(rows + k * width.P + j);
                store<T>(to + i * width.P + j, sum);
            }
    }

    T dot(const T* a, const T* b) const {
        V sum = {};
        for (long j = 0; j < width.P; j += W<T>) sum += load(a + j) * load(b + j);
        return total<T>(sum);
    }

    // the gradients of the four numbers that place the filters, of dF_Y and dF_X; inlined, so
    // that how sums are rounded does not hang on what the compiler finds around the calls
    INLINE void slopes(T* draw) const {
        const Slope to_y = slope(height, y, F_Y, dF_Y), to_x = slope(width, x, F_X, dF_X);
        draw[0] = to_x.middle * T(width.H + 1) / 2;
        draw[1] = to_y.middle * T(height.H + 1) / 2;
        draw[2] = to_x.log_variance + to_y.log_variance;
        draw[3] = (to_x.stride + to_y.stride) * stride;
    }

  public:
    Window(long rows, long columns, long count, long from)
        : height(rows), width(columns), N(count), first(T(from)), F_Y(N * height.P),
          F_X(N * width.P), dF_Y(N * height.P), dF_X(N * width.P), U(N * width.P),
          S(N * width.P), A(N * width.P), B(N * width.P) {
        dF_Y.zero();
    }

    // raw: what places it, and the log of its intensity (5)
    void place(const T* raw) {
        x = T(width.H + 1) / 2 * (raw[0] + 1);
        y = T(height.H + 1) / 2 * (raw[1] + 1);
        narrow = T(-0.5) / std::exp(raw[2]);
        stride = rate() * std::exp(raw[3]);
        intensity = std::exp(raw[4]);
        faint = 1 / intensity;
        filters(height, y, F_Y);
        filters(width, x, F_X);
    }

    // r (2 N N): of the picture, and of what it has more than is painted
    void read(const T* picture, const T* painted, T* r) const {
        down(picture, U);
        down(painted, S);
        for (long i = 0; i < N; ++i)
            for (long k = 0; k < N; ++k) {
                const T is = dot(U + i * width.P, F_X + k * width.P);
                const T has = dot(S + i * width.P, F_X + k * width.P);
                r[i * N + k] = intensity * is;
                r[(N + i) * N + k] = intensity * (is - has);
            }
    }

    // draw (5), and dcanvas adds what comes through painted = sigmoid(canvas)
    void read_back(const T* picture, const T* painted, const T* r, const T* dr, T* draw,
                   T* dcanvas) const {
        const auto is = [&](long i, long k) {
            return intensity * (dr[i * N + k] + dr[(N + i) * N + k]);
        };
        const auto has = [&](long i, long k) { return -intensity * dr[(N + i) * N + k]; };
        down(picture, U);
        down(painted, S);
        mixed([&](long k, long i) { return is(i, k); }, U, dF_X);
        mixed([&](long k, long i) { return has(i, k); }, S, dF_X, true);
        mixed(is, F_X, A);
        mixed(has, F_X, B);
        for (long h = 0; h < height.H; ++h) {
            const T *seen = picture + h * width.P, *paint = painted + h * width.P;
            for (long i = 0; i < N; ++i)
                dF_Y[i * height.P + h] = dot(A + i * width.P, seen) + dot(B + i * width.P, paint);
            for (long j = 0; j < width.P; j += W<T>) {
                V d = {};
                for (long i = 0; i < N; ++i) d += F_Y[i * height.P + h] * load(B + i * width.P + j);
                const V s = load(paint + j);
                add<T>(dcanvas + h * width.P + j, d * s * (T(1) - s));
            }
        }
        slopes(draw);
        draw[4] = 0;
        for (long i = 0; i < 2 * N * N; ++i) draw[4] += r[i] * dr[i];
    }

    // canvas adds the patch (N N)
    void write(const T* patch, T* canvas) const {
        mixed([&](long i, long k) { return patch[i * N + k] * faint; }, F_X, A);
        for (long h = 0; h < height.H; ++h)
            for (long j = 0; j < width.P; j += W<T>) {
                V ink = {};
                for (long i = 0; i < N; ++i) ink += F_Y[i * height.P + h] * load(A + i * width.P + j);
                add<T>(canvas + h * width.P + j, ink);
            }
    }

    // draw (5 + N N): what places it, and the patch
    void write_back(const T* patch, const T* dcanvas, T* draw) const {
        mixed([&](long i, long k) { return patch[i * N + k] * faint; }, F_X, A);
        down(dcanvas, U);
        mixed([&](long k, long i) { return patch[i * N + k] * faint; }, U, dF_X);
        for (long h = 0; h < height.H; ++h)
            for (long i = 0; i < N; ++i)
                dF_Y[i * height.P + h] = dot(A + i * width.P, dcanvas + h * width.P);
        slopes(draw);
        draw[4] = 0;
        for (long i = 0; i < N; ++i)
            for (long k = 0; k < N; ++k) {
                const T d = dot(U + i * width.P, F_X + k * width.P) * faint;
                draw[5 + i * N + k] = d;
                draw[4] -= patch[i * N + k] * d;
            }
    }
};
