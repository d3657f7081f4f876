// Whether members are predictions for each of their instances, before anything of them is used.
#pragma once

#include "sums.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// Rows whose classes lie one after the other are summed across: this takes fewer shuffles than a
// transposition. Other members are read side by side, and rows of a few classes, which need none.
template <class T> class Check {
    // Of the numbers of an instance, in one lane or all.
    struct Summary {
        V<T> total, least, largest;
        Bits<T> is_wrong;  // as a logit: NaN or +∞
    };

  public:
    Check(const Job &job, Arena &arena)
        : job_(job), raw_(without_kind(job)), members_(raw_, arena),
          n_full_(int((job.n_classes - 1) / LANES<T>)), n_last_(int(job.n_classes - ptrdiff_t(n_full_) * LANES<T>)) {}

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
            if (!all(is_prediction<KIND>(summary_from<KIND>(first, count)))) return INVALID;
        }
        return DONE;
    }

    template <int KIND> INLINE Summary summary_from(ptrdiff_t first, int count) {
        if (job_.class_stride != ptrdiff_t(sizeof(T)) || members_.are_rows_next_to_each_other()) {
            members_.locate(first, count);
            const Row<T> row = members_.row(0);
            return summarize<KIND>(row.n - 1, row[row.n - 1], [&](int r) __attribute__((always_inline)) { return row[r]; });
        }
        fetch_rows<T>(job_, first);
        const char *start = job_.members + first * job_.instance_stride;
        const ptrdiff_t end = (count - 1) * (job_.instance_stride > 0 ? job_.instance_stride : 0) + ptrdiff_t(n_full_ + 1) * BYTES;
        return members_.is_within(start, end) && count == LANES<T> ? summarize_rows<KIND, true>(start, count)
                                                                    : summarize_rows<KIND, false>(start, count);
    }

    template <int KIND> Bits<T> is_prediction(const Summary &summary) const {
        if constexpr (KIND == LOGITS) return ~summary.is_wrong & (summary.largest > T(-__builtin_inf()));
        if constexpr (KIND == MASSES) {  // as in Members::normalize
            const V<T> share = T(1) / summary.total;
            return (summary.total > 0) & (share > 0) & (share < T(__builtin_inf())) & (summary.least >= 0);
        }
        return (absolute(summary.total - T(1)) <= T(job_.tolerance)) & (summary.least >= 0);
    }

    // Of instances that are rows, one in each lane of the sums. Vectors must not reach beyond the
    // end of the array.
    template <int KIND, bool IS_WITHIN> INLINE Summary summarize_rows(const char *start, int count) const {
        const V<T> filler = fill<T>(KIND == LOGITS ? -__builtin_inf() : 0);
        const Bits<T> is_class = lane_numbers<T>() < n_last_;
        V<T> total[LANES<T>], largest[LANES<T>];
        Summary rows{};
        for (int lane = 0; lane < LANES<T>; lane++) {
            const char *row = start + (IS_WITHIN || lane < count ? lane : count - 1) * job_.instance_stride;
            const char *last = row + ptrdiff_t(n_full_) * BYTES;
            const V<T> tail = is_class ? (IS_WITHIN ? load<T>(last) : members_.load_within(last)) : filler;
            const Summary summary = summarize<KIND>(n_full_, tail, [&](int r) __attribute__((always_inline)) { return load<T>(row + ptrdiff_t(r) * BYTES); });
            total[lane] = summary.total;
            largest[lane] = summary.largest;
            rows.least = smaller(summary.least, rows.least);
            rows.is_wrong |= summary.is_wrong;
        }
        if constexpr (KIND == LOGITS) rows.largest = combine_each<T>(largest, Larger{});
        else rows.total = combine_each<T>(total, Add{});
        return rows;
    }

    // Of n vectors and a last one. The total shows NaN: the least and the largest may pass over it.
    template <int KIND, class Numbers> static INLINE Summary summarize(int n, V<T> last, Numbers at) {
        Summary summary{V<T>{}, V<T>{}, fill<T>(-__builtin_inf()), Bits<T>{}};
        auto add = [&](V<T> x, V<T> &total) __attribute__((always_inline)) {
            if constexpr (KIND == LOGITS) {
                summary.largest = larger(x, summary.largest);
                summary.is_wrong |= ~(x < T(__builtin_inf()));
            } else {
                total += x;
                summary.least = smaller(x, summary.least);
            }
        };
        add(last, summary.total);
        if (n <= BLOCK) {
            for (int r = 0; r < n; r++) add(at(r), summary.total);
            return summary;
        }
        LongSum<T> total;
        total.add(summary.total);
        for (int start = 0; start < n; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < n && r < start + BLOCK; r++) add(at(r), part);
            total.add(part);
        }
        summary.total = total.value();
        return summary;
    }

    const Job &job_;
    const Job raw_;
    Members<T, true> members_;
    const int n_full_, n_last_;  // vectors of a row before the last one, and the numbers in that
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
