// The mean of members, and the variance decomposition of each class against the rest.
//
// All sums over members are in double precision, so that means of single precision can be compared.
#pragma once

#include "members.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

template <class T, bool SIDE> class Averager {
    static constexpr int GROUP = Members<T, SIDE>::GROUP;
    static constexpr int N_PARTS = 3;

    // One of an instance's members, and E θ less it.
    struct Center {
        Wide<T> anchor, shift;
    };
    struct Spread {
        Wide<T> total, doubt, variance;  // θ̄·(S − θ̄), E θ·(S − θ), E (θ − θ̄)²
    };

  public:
    Averager(const AverageJob &job, Arena &arena) : job_(job), members_(job.members, arena), n_(members_.n) {
        anchor_ = arena.take<V<T>>(n_);
        center_ = arena.take<Center>(n_);
        spread_ = arena.take<Spread>(n_);
        is_possible_ = arena.take<Bits<T>>(n_);
        totals_ = arena.take<Wide<T>>(job.members.n_members);
        mean_ = arena.take<Wide<T>>(n_);
    }

    Status run() {
        const Job &members = job_.members;
        for (ptrdiff_t first = members.start; first < members.stop; first += GROUP) {
            const int count = int(members.stop - first < GROUP ? members.stop - first : GROUP);
            members_.locate(first, count);
            if (!find_means()) return INVALID;
            if (job_.mean != nullptr) write_means(first, count);
            if (job_.parts != nullptr) {
                find_variances();
                write_parts(first, count);
            }
        }
        return DONE;
    }

  private:
    // Whether all members are predictions.
    bool find_means() {
        const Job &job = job_.members;
        members_.copy_heaviest(anchor_);
        for (int r = 0; r < n_; r++) center_[r] = Center{widen(anchor_[r]), {}}, is_possible_[r] = Bits<T>{};
        V<T> least{};
        Bits<T> good = ~Bits<T>{};
        Wide<T> all_weights{};
        for (ptrdiff_t m = 0; m < job.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            const Wide<T> weight = weight_of(w);
            Wide<T> total{};
            for (int r = 0; r < n_; r++) {
                const V<T> p = row[r];
                const Wide<T> wide = widen(p);
                center_[r].shift = fma(weight, wide - center_[r].anchor, center_[r].shift);
                total = total + wide;
                least = smaller(p, least);
                if (sizeof(T) == 8) is_possible_[r] |= (p > 0) & (w > 0);  // though w·p may underflow
            }
            all_weights = all_weights + weight;
            totals_[m] = across(total);
            good &= absolute(narrow(totals_[m]) - T(1)) <= T(job.tolerance);
        }
        for (int r = 0; r < n_; r++) {
            center_[r].shift = center_[r].shift / all_weights;
            mean_[r] = at_least_zero(center_[r].anchor + center_[r].shift);
            if constexpr (sizeof(T) == 8)
                mean_[r] = (is_possible_[r] & (mean_[r] == 0)) ? fill<double>(Format<double>::tiny) : mean_[r];
        }
        all_weights_ = all_weights;
        if (job.tolerance < 0) return true;
        if (job.kind != PROBABILITIES) return !any(members_.bad);
        return all(good) && !any(least < 0);
    }

    void find_variances() {
        for (int r = 0; r < n_; r++) spread_[r] = Spread{{}, {}, {}};
        for (ptrdiff_t m = 0; m < job_.members.n_members; m++) {
            const Row<T> row = members_.row(m);
            const Wide<T> weight = weight_of(members_.weight(m)), total = totals_[m];
            for (int r = 0; r < n_; r++) {
                Spread &own = spread_[r];
                const Wide<T> p = widen(row[r]), d = (p - center_[r].anchor) - center_[r].shift;
                own.doubt = fma(weight, p * (total - p), own.doubt);
                own.variance = fma(weight, d * d, own.variance);
            }
        }
        Wide<T> total{};
        for (int r = 0; r < n_; r++) total = total + mean_[r];
        total = across(total);
        for (int r = 0; r < n_; r++) {
            Spread &own = spread_[r];
            own.total = mean_[r] * (total - mean_[r]);
            own.doubt = own.doubt / all_weights_;
            own.variance = own.variance / all_weights_;
        }
    }

    // Equal weights are 1, which is exact: classes with equal votes have equal means.
    Wide<T> weight_of(V<T> w) const { return job_.members.weights == nullptr ? fill_wide<T>(1) : widen(w); }

    // The sum over the lanes of an instance.
    static Wide<T> across(Wide<T> v) {
        if constexpr (SIDE) return v;
        else if constexpr (sizeof(T) == 8) return combine_lanes<double>(v, Add{});
        else {
            const Doubles sum = combine_lanes<double>(v.low + v.high, Add{});
            return {sum, sum};
        }
    }

    // -- results, of which instances and classes may be any number of bytes apart -----------------------

    template <class Number, class Get> void write(char *to, ptrdiff_t instance_stride, ptrdiff_t class_stride,
                                                  ptrdiff_t first, int count, Get get) const {
        for (int r = 0; r < n_; r++) {
            const Wide<T> wide = get(r);
            Number numbers[LANES<T>];
            if constexpr (sizeof(Number) == sizeof(double)) memcpy(numbers, &wide, sizeof numbers);
            else store(numbers, narrow(wide));
            if (!SIDE && r < n_ - 1 && class_stride == ptrdiff_t(sizeof(Number))) {
                memcpy(to + first * instance_stride + r * ptrdiff_t(sizeof numbers), numbers, sizeof numbers);
                continue;
            }
            for (int lane = 0; lane < (SIDE ? count : LANES<T>); lane++) {
                const ptrdiff_t instance = first + (SIDE ? lane : 0), k = SIDE ? r : ptrdiff_t(r) * LANES<T> + lane;
                if (k >= job_.members.n_classes) break;
                memcpy(to + instance * instance_stride + k * class_stride, numbers + lane, sizeof(Number));
            }
        }
    }

    void write_means(ptrdiff_t first, int count) const {
        write<double>(job_.mean, job_.mean_strides[0], job_.mean_strides[1], first, count,
                      [&](int r) { return mean_[r]; });
    }

    void write_parts(ptrdiff_t first, int count) const {
        const ptrdiff_t *strides = job_.part_strides;
        Wide<T> Spread::*const parts[] = {&Spread::total, &Spread::doubt, &Spread::variance};
        for (int i = 0; i < N_PARTS; i++) {
            write<T>(job_.parts + i * strides[0], strides[1], strides[2], first, count,
                     [&](int r) { return at_least_zero(spread_[r].*parts[i]); });
        }
    }

    const AverageJob &job_;
    Members<T, SIDE> members_;
    const int n_;
    V<T> *anchor_;
    Center *center_;
    Spread *spread_;
    Bits<T> *is_possible_;
    Wide<T> *totals_, *mean_;
    Wide<T> all_weights_;
};

template <class T> Status average(const AverageJob &job) {
    try {
        Arena arena;
        if (is_side_by_side<T>(job.members)) {
            Averager<T, true> averager(job, arena);
            return averager.run();
        }
        Averager<T, false> averager(job, arena);
        return averager.run();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
