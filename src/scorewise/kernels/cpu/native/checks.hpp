// Whether members are predictions for each of their instances, before anything of them is used.
#pragma once

#include "sums.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// Rows whose classes lie one after the other are summed across: this takes fewer shuffles than a
// transposition. Other members are read side by side, and rows of a few classes, which need none.
template <class T> class Check {
    // What is seen of the numbers of an instance, in one lane or all.
    struct Seen {
        V<T> total, least, largest;
        Bits<T> is_wrong;  // as a logit: NaN or +∞
    };

  public:
    Check(const Job &job, Arena &arena)
        : job_(job), raw_(without_kind(job)), members_(raw_, arena),
          n_full_(int((job.n_classes - 1) / LANES<T>)), rest_(int(job.n_classes - n_full_ * LANES<T>)) {}

    Status run() {
        if (job_.kind == LOGITS) return run_with<LOGITS>();
        return job_.kind == MASSES ? run_with<MASSES>() : run_with<PROBABILITIES>();
    }

  private:
    static Job without_kind(Job job) {
        job.kind = PROBABILITIES;
        job.weights = nullptr;
        return job;
    }

    template <int KIND> Status run_with() {
        for (ptrdiff_t first = job_.start; first < job_.stop; first += LANES<T>) {
            const int count = int(job_.stop - first < LANES<T> ? job_.stop - first : LANES<T>);
            if (!all(is_prediction<KIND>(seen_from<KIND>(first, count)))) return INVALID;
        }
        return DONE;
    }

    template <int KIND> INLINE Seen seen_from(ptrdiff_t first, int count) {
        if (job_.class_stride != ptrdiff_t(sizeof(T)) || members_.are_rows_next_to_each_other()) {
            members_.locate(first, count);
            const Row<T> row = members_.row(0);
            return see<KIND>(row.n - 1, row[row.n - 1], [&](int r) __attribute__((always_inline)) { return row[r]; });
        }
        fetch_rows<T>(job_, first);
        const char *start = job_.members + first * job_.instance_stride;
        const ptrdiff_t end = (count - 1) * (job_.instance_stride > 0 ? job_.instance_stride : 0) + (n_full_ + 1) * BYTES;
        return members_.is_within(start, end) && count == LANES<T> ? see_rows<KIND, true>(start, count)
                                                                    : see_rows<KIND, false>(start, count);
    }

    template <int KIND> Bits<T> is_prediction(const Seen &seen) const {
        if constexpr (KIND == LOGITS) return ~seen.is_wrong & (seen.largest > T(-__builtin_inf()));
        if constexpr (KIND == MASSES) {  // see Members::normalize
            const V<T> share = T(1) / seen.total;
            return (seen.total > 0) & (share > 0) & (share < T(__builtin_inf())) & (seen.least >= 0);
        }
        return (absolute(seen.total - T(1)) <= T(job_.tolerance)) & (seen.least >= 0);
    }

    // Of instances that are rows, one in each lane of the sums. Vectors must not reach beyond the
    // end of the array.
    template <int KIND, bool IS_WITHIN> INLINE Seen see_rows(const char *start, int count) const {
        const V<T> filler = fill<T>(KIND == LOGITS ? -__builtin_inf() : 0);
        const Bits<T> is_class = lane_numbers<T>() < rest_;
        V<T> total[LANES<T>], largest[LANES<T>];
        Seen rows{};
        for (int lane = 0; lane < LANES<T>; lane++) {
            const char *row = start + (IS_WITHIN || lane < count ? lane : count - 1) * job_.instance_stride;
            const char *last = row + n_full_ * BYTES;
            const V<T> tail = is_class ? (IS_WITHIN ? load<T>(last) : members_.load_within(last)) : filler;
            const Seen seen = see<KIND>(n_full_, tail, [&](int r) __attribute__((always_inline)) { return load<T>(row + r * BYTES); });
            total[lane] = seen.total;
            largest[lane] = seen.largest;
            rows.least = smaller(seen.least, rows.least);
            rows.is_wrong |= seen.is_wrong;
        }
        if constexpr (KIND == LOGITS) rows.largest = combine_each<T>(largest, Larger{});
        else rows.total = combine_each<T>(total, Add{});
        return rows;
    }

    // Of n vectors and a last one. NaN is seen in the total: the least and the largest may pass over it.
    template <int KIND, class Numbers> static INLINE Seen see(int n, V<T> last, Numbers at) {
        Seen seen{V<T>{}, V<T>{}, fill<T>(-__builtin_inf()), Bits<T>{}};
        auto add = [&](V<T> x, V<T> &total) __attribute__((always_inline)) {
            if constexpr (KIND == LOGITS) {
                seen.largest = larger(x, seen.largest);
                seen.is_wrong |= ~(x < T(__builtin_inf()));
            } else {
                total += x;
                seen.least = smaller(x, seen.least);
            }
        };
        add(last, seen.total);
        if (n <= BLOCK) {
            for (int r = 0; r < n; r++) add(at(r), seen.total);
            return seen;
        }
        LongSum<T> total;
        total.add(seen.total);
        for (int start = 0; start < n; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < n && r < start + BLOCK; r++) add(at(r), part);
            total.add(part);
        }
        seen.total = total.value();
        return seen;
    }

    const Job &job_;
    const Job raw_;
    Members<T, true> members_;
    const int n_full_, rest_;  // vectors of a row before the last one, and the numbers in that
};

// Whether the instances from `start` to `stop` of each member are predictions.
template <class T> Status check(const Job &job) {
    try {
        for (ptrdiff_t m = 0; m < job.n_members; m++) {
            Job own = job;
            own.members += m * job.member_stride;
            own.n_members = 1;
            Arena arena;
            if (Check<T>(own, arena).run() != DONE) return INVALID;
        }
        return DONE;
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
