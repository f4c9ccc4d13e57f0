// Parameters of a cell that a loop steps itself, laid out in whole vectors for its products, and
// where the gradients begin that a slice of the batch adds up. Places says which number stands
// where.
#pragma once

#include <algorithm>
#include <vector>

#include "layers.h"
#include "memory.h"
#include "products.h"

namespace stepped {

// the number that stands at each place, -1 in the padding
using Places = std::vector<long>;

template <class T> Places blocks(long count, long n, long from = 0) {
    Places places;
    for (long block = 0; block < count; ++block)
        for (long j = 0; j < Units<T>(n).P; ++j)
            places.push_back(j < n ? from + block * n + j : -1);
    return places;
}

template <class T> Places both(Places a, const Places& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// A parameter (M x N, padded), and where its gradient begins among those of a slice.
template <class T> struct Laid {
    const Places rows, columns;
    const long M, N, begin;
    const Buffer<T> data;

    Laid(const void* from, Places r, Places c, long& end)
        : rows(std::move(r)), columns(std::move(c)), M(long(rows.size())),
          N(long(columns.size())), begin(end), data(M * N) {
        end += M * N;
        std::fill_n((T*)data, M * N, T(0));
        each([&](long to, long i) { data[to] = static_cast<const T*>(from)[i]; });
    }

    // task(place, number) for all that is no padding
    template <class Task> void each(Task task) const {
        const long width = N - std::count(columns.begin(), columns.end(), -1);
        for (long m = 0; m < M; ++m)
            for (long n = 0; rows[m] >= 0 && n < N; ++n)
                if (columns[n] >= 0) task(m * N + n, rows[m] * width + columns[n]);
    }
};

template <class T> struct Vector : Laid<T> {
    Vector(const void* from, Places places, long& end) : Laid<T>(from, places, {0}, end) {}
};

// W of a = W x, packed for it and for dx = W^T da.
template <class T> struct Matrix : Laid<T> {
    const Buffer<T> there_data, back_data;
    Packed<T> there, back;

    Matrix(const void* from, Places rows, Places columns, long& end)
        : Laid<T>(from, rows, columns, end), there_data(this->M * this->N),
          back_data(this->M * this->N) {
        const long M = this->M, N = this->N;
        const T* W_ = this->data;
        there.K = N, there.N = M, there.data = there_data;
        back.K = M, back.N = N, back.data = back_data;
        for (long i = 0; i < there.panels().count(); ++i)
            there.fill_columns(i, [&](long m) { return W_ + m * N; });
        for (long i = 0; i < back.panels().count(); ++i)
            back.fill_rows(i, N, [&](long m) { return W_ + m * N; });
    }
};

template <class T> struct Affine {
    Matrix<T> W_;
    Vector<T> b;

    Affine(const void* const* from, Places rows, Places columns, long& end)
        : W_(from[0], rows, columns, end), b(from[1], rows, end) {}
};

template <class T, class Cell> struct Recurrent {
    Matrix<T> x, h;
    Vector<T> parameters;
    Cell cell;

    Recurrent(const void* const* from, long H, Places inputs, const double* eps, long& end)
        : x(from[0], blocks<T>(4, H), inputs, end),
          h(from[1], blocks<T>(4, H), blocks<T>(1, H), end),
          parameters(from[2], blocks<T>(Cell::PARAMETERS, H), end),
          cell(Units<T>(H), parameters.data, eps) {}
};

}  // namespace stepped
