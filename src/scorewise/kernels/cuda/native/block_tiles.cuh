// Tiles of large instances: a block of threads works on one, in shared memory, and lanes of a warp share a row.
//
// If one instance does not fit, its members are read in stages.
#pragma once

#include "rows.cuh"
#include "tile.cuh"

constexpr int ROWS_PER_WARP = 32 / ROW_LANES;
constexpr int N_VECTORS = N_CLASSES / VECTOR;
using Vector = Piece<VECTOR>;

// Lanes that change a row have it in registers meanwhile, if it fits.
constexpr int MOST_OWN_CLASSES = 32;  // of a lane, as in _plan.py
using OwnRow = RegisterRow<ROW_LANES, VECTOR>;
constexpr bool IS_CHANGED = KIND != PROBABILITIES || GRADIENT, HAS_OWN_ROWS = IS_CHANGED && OwnRow::STEPS * VECTOR <= MOST_OWN_CLASSES;
template <bool, class A, class B> struct Either {
    using Type = A;
};
template <class A, class B> struct Either<false, A, B> {
    using Type = B;
};
using WorkRow = Either<HAS_OWN_ROWS, OwnRow, SharedRow<ROW_LANES>>::Type;

INLINE void load(SharedRow<ROW_LANES> &row, const SharedRow<ROW_LANES> &from) { row = from; }
INLINE void load(OwnRow &row, const SharedRow<ROW_LANES> &from) {
    OwnRow::each_step([&](int step, int place) {
#pragma unroll
        for (int i = 0; i < VECTOR; i++) row.numbers[step * VECTOR + i] = from.all()[place].at[i];
    });
}
INLINE void store(const SharedRow<ROW_LANES> &, const SharedRow<ROW_LANES> &) {}
INLINE void store(const OwnRow &row, const SharedRow<ROW_LANES> &to) {
    OwnRow::each_step([&](int step, int place) {
        Vector numbers;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) numbers.at[i] = row.numbers[step * VECTOR + i];
        to.all()[place] = numbers;
    });
}

template <class T> INLINE T *take(char *&memory, int n) {
    T *start = reinterpret_cast<T *>(memory);
    memory += (n * sizeof(T) + 15) / 16 * 16;
    return start;
}

class BlockTiles {
  protected:
    INLINE BlockTiles(const Job &job)
        : job_(job), thread_(threadIdx.x), n_threads_(blockDim.x), lane_(threadIdx.x % 32),
          warp_(threadIdx.x / 32), n_warps_(blockDim.x / 32),
          n_places_((job.instances * job.stage + ROWS_PER_WARP - 1) / ROWS_PER_WARP * ROWS_PER_WARP) {}

    // Call `work` for the instances of one tile after the other; it calls `refill` when it does not need its tile any more.
    template <class Work> INLINE void each_tile(Work work) {
        step_ = gridDim.x * (long long)(job_.instances);
        first_ = blockIdx.x * (long long)(job_.instances);
        if (!HAS_STAGES && first_ < job_.n_instances) copy_members(first_, 0);
        end_copies();
        for (; first_ < job_.n_instances; first_ += step_) {
            n_ = n_instances_from(first_);
            work();
        }
    }
    INLINE void refill() {
        if (!HAS_STAGES && first_ + step_ < job_.n_instances) copy_members(first_ + step_, 0);
        end_copies();
    }
    // Start copying the rows from r on that a warp works on together.
    INLINE void refill_group(int r) const {
        const long long next = first_ + step_;
        if (HAS_STAGES || next >= job_.n_instances) return;
        const int n_rows = n_instances_from(next) * job_.stage;
        if (r < n_rows) copy_group(next, 0, r, n_rows);
    }

    // -- rows -----------------------------------------------------------------------------------

    INLINE int n_instances_from(long long first) const {
        const long long left = job_.n_instances - first;
        return left < job_.instances ? int(left) : job_.instances;
    }
    INLINE int n_members_from(int start) const {
        return HAS_STAGES && job_.n_members - start < job_.stage ? job_.n_members - start : job_.stage;
    }
    INLINE float weight(int b, int m) const {  // m counts from the first member of all
        return WEIGHTS == NO_WEIGHTS ? job_.share : job_.weights[(WEIGHTS == APART_WEIGHTS ? (first_ + b) * job_.n_members : 0) + m];
    }
    // Start copying the members of some instances, from the member `start` on. Each warp copies the rows that
    // it works on first.
    INLINE void copy_members(long long first, int start) const {
        const int n_rows = n_instances_from(first) * n_members_from(start);
        for (int r = warp_ * ROWS_PER_WARP; r < n_rows; r += n_warps_ * ROWS_PER_WARP) copy_group(first, start, r, n_rows);
    }
    // Start copying those rows from r on that a warp works on together.
    INLINE void copy_group(long long first, int start, int r, int n_rows) const {
        const Element *from = static_cast<const Element *>(job_.members) + first * job_.strides.instance + start * job_.strides.member;
        const int count = n_rows - r < ROWS_PER_WARP ? n_rows - r : ROWS_PER_WARP;
        if (ORDER == BY_INSTANCE && ROW_SPACING == N_CLASSES) {
            copy_run(tile_ + r * N_CLASSES, from + r * (long long)(N_CLASSES), count * N_CLASSES, lane_);
        } else if (ORDER == BY_INSTANCE) {
            constexpr int PIECES = N_CLASSES / COPY;
            const Element *rows = from + r * (long long)(N_CLASSES);
#pragma unroll 4
            for (int i = lane_; i < count * PIECES; i += 32)
                copy(tile_ + (r + i / PIECES) * ROW_SPACING + i % PIECES * COPY, rows + i * COPY);
        } else {
            copy_rows(from, r, count);
        }
    }
    INLINE void copy_rows(const Element *from, int first_row, int count) const {
        constexpr int PIECES = N_CLASSES / COPY;
#pragma unroll 4
        for (int i = lane_; i < count * PIECES; i += 32) {
            const int r = first_row + i / PIECES, k = i % PIECES * COPY, b = instance_of(r), m = r - b * job_.stage;
            copy(tile_ + r * ROW_SPACING + k,
                 from + b * job_.strides.instance + m * job_.strides.member + k * job_.strides.of_class);
        }
    }
    INLINE int instance_of(int r) const { return int(job_.rows.quotient(r)); }

    // Call `use` with each row of this warp, its number, and whether it is one.
    template <class Use> INLINE void each_row(Use use) const {
        for (int start = warp_ * ROWS_PER_WARP; start < n_rows_; start += n_warps_ * ROWS_PER_WARP) {
            const int r = start + lane_ / ROW_LANES;
            use(SharedRow<ROW_LANES>(tile_ + r * ROW_SPACING, lane_ % ROW_LANES), r, r < n_rows_);
        }
    }

    // Prepare a row in shared memory and summarize it for a rule; how far it is from a prediction.
    template <class Rule> INLINE Off summarize_shared(const SharedRow<ROW_LANES> &shared, float *values) const {
        WorkRow row;
        load(row, shared);
        const Off off = summarize_prepared<Rule>(job_, row, values);
        if (KIND != PROBABILITIES) store(row, shared);
        return off;
    }

    // Wait for the members from `start` on, of this warp's rows.
    INLINE void read(int start) const {
        if (HAS_STAGES) {
            copy_members(first_, start);
            end_copies();
        }
        wait_for_copies<0>();
        __syncwarp();
    }

    // -- columns: some classes of an instance ------------------------------------------------------

    template <class Use> INLINE void each_column(Use use) const {
        for (int i = thread_; i < n_ * N_VECTORS; i += n_threads_) use(i / N_VECTORS, i % N_VECTORS * VECTOR);
    }
    INLINE Vector numbers_at(int b, int m, int k) const {
        return *reinterpret_cast<const Vector *>(tile_ + (b * job_.stage + m) * ROW_SPACING + k);
    }

    // Call `use` with the first and the end of runs of members: rounding errors of one long sum would add up.
    template <class Use> static INLINE void each_run(int n_members, Use use) {
        constexpr int LONGEST = 64;
        for (int first = 0; first < n_members; first += LONGEST) use(first, n_members - first < LONGEST ? n_members : first + LONGEST);
    }

    // θ̄ = a + Σ w·(θ − a), with a the first member that has weight.
    INLINE void add_to_mean(int start) {
        const int n_members = n_members_from(start);
        each_column([&](int b, int k) {
            Vector &mean = *reinterpret_cast<Vector *>(mean_ + b * N_CLASSES + k);
            Vector anchor, shift{}, before{};
            bool has_anchor = false;
            if (HAS_STAGES && start > 0) {
                anchor = *reinterpret_cast<Vector *>(anchors_ + b * N_CLASSES + k);
                before = mean;
                has_anchor = anchor.at[0] >= 0;
            }
            if (!WEIGHTS && !has_anchor) anchor = numbers_at(b, 0, k), has_anchor = true;
            each_run(n_members, [&](int first, int end) {
#pragma unroll 4
                for (int m = first; m < end; m++) {
                    const Vector p = numbers_at(b, m, k);
                    const float w = weight(b, start + m);
                    if (WEIGHTS && !has_anchor) anchor = p, has_anchor = w > 0;
#pragma unroll
                    for (int i = 0; i < VECTOR; i++) shift.at[i] = fmaf(w, p.at[i] - anchor.at[i], shift.at[i]);
                }
                if (end == n_members) return;
#pragma unroll
                for (int i = 0; i < VECTOR; i++) before.at[i] += shift.at[i], shift.at[i] = 0;
            });
#pragma unroll
            for (int i = 0; i < VECTOR; i++) shift.at[i] += before.at[i];
            const bool is_last = start + job_.stage >= job_.n_members;
            if (HAS_STAGES && !is_last) {
                if (!has_anchor) anchor.at[0] = -1;
                *reinterpret_cast<Vector *>(anchors_ + b * N_CLASSES + k) = anchor;
            }
#pragma unroll
            for (int i = 0; i < VECTOR; i++) mean.at[i] = is_last ? anchor.at[i] + shift.at[i] : shift.at[i];
        });
    }

    // -- instances ----------------------------------------------------------------------------------

    // Call `use` with an instance, whether it is one, and the lane of its lanes. The last warps come first, as
    // they have the fewest columns.
    template <class Use> INLINE void each_instance(Use use) const {
        const int per_step = n_threads_ / TOTAL_LANES, thread = n_threads_ - 1 - thread_;
        for (int start = 0; start < n_; start += per_step) {
            const int b = start + thread / TOTAL_LANES;
            if (!__any_sync(ALL_LANES, b < n_)) continue;
            use(b < n_ ? b : 0, b < n_, thread_ % TOTAL_LANES);
        }
    }
    INLINE SharedRow<TOTAL_LANES> mean_of(int b, int lane) const { return {mean_ + b * N_CLASSES, lane}; }

    const Job &job_;
    const int thread_, n_threads_, lane_, warp_, n_warps_, n_places_;  // places for rows
    long long first_, step_;
    int n_, n_rows_;
    float *tile_, *mean_, *anchors_ = nullptr;  // anchors between stages
};
