// Components of large instances.
//
//   rows      some lanes for each row, that is one member of one instance: the check, the softmax of logits,
//             and the row's entropies
//   columns   a thread for some classes of an instance: the mean over members
//   totals    some lanes for each instance: entropies of the mean, averages over members, and EU as a
//             difference, where this keeps enough digits
//   again     for the other instances, rows and columns once more: divergences from the mean
#pragma once

#include "block_tiles.cuh"

struct alignas(Rule::N_VALUES % 4 == 0 ? 16 : Rule::N_VALUES % 2 == 0 ? 8 : 4) Values {
    float at[Rule::N_VALUES];
};
struct Totals {
    float at[3 * Rule::N_RULES];
    float memo;         // what the rule needs of the mean for divergences
    unsigned doubtful;  // bits of rules whose EU is too small for a difference
};

class BlockComponents : BlockTiles {
  public:
    INLINE BlockComponents(const Job &job) : BlockTiles(job) {}

    INLINE void run(char *memory) {
        const int numbers = job_.instances * N_CLASSES;
        values_ = take<Values>(memory, n_places_);
        averages_ = take<Values>(memory, job_.instances);
        totals_ = take<Totals>(memory, job_.instances);
        tile_ = take<float>(memory, n_places_ * ROW_SPACING);
        mean_ = take<float>(memory, numbers);
#pragma unroll
        for (int i = 0; i < Rule::N_COLUMNS; i++) columns_[i] = take<float>(memory, numbers);
        if (HAS_STAGES) anchors_ = Rule::N_COLUMNS > 0 ? columns_[0] : take<float>(memory, numbers);
        Off off = 0;
        each_tile([&] {
            off = further(off, summarize());
            if (__syncthreads_or(find_totals(off))) {
                look_again();
                __syncthreads();
            }
            refill();
            write();
        });
        if (off > distance(job_.tolerance) && job_.tolerance >= 0) *job_.invalid = 1;
    }

  private:
    INLINE void put(const float *values, int r, bool is_first) {
        Values all;
#pragma unroll
        for (int i = 0; i < Rule::N_VALUES; i++) all.at[i] = values[i];
        if (is_first) values_[r] = all;
    }

    // Average the members and their values; how far one is from a prediction.
    INLINE Off summarize() {
        Off off = 0;
        for (int start = 0; start < job_.n_members; start += job_.stage) {
            n_rows_ = n_ * n_members_from(start);
            read(start);
            each_row([&](SharedRow<ROW_LANES> row, int r, bool is_row) {
                float values[Rule::N_VALUES];
                const Off own = summarize_shared<Rule>(row, values);
                if (is_row) off = further(off, own);
                put(values, r, row.lane == 0);
            });
            __syncthreads();
            add_to_mean(start);
            add_to_averages(start);
            __syncthreads();
        }
        return off;
    }
    INLINE void add_to_averages(int start) {
        const int n_members = n_members_from(start);
        each_instance([&](int b, bool is_one, int lane) {
            Values all{};
            each_run(n_members, [&](int first, int end) {
                Values sum{};
                for (int m = first + lane; m < end; m += TOTAL_LANES) {
                    const Values here = values_[b * job_.stage + m];
                    const float w = weight(b, start + m);
#pragma unroll
                    for (int i = 0; i < Rule::N_VALUES; i++) sum.at[i] = fmaf(w, here.at[i], sum.at[i]);
                }
#pragma unroll
                for (int i = 0; i < Rule::N_VALUES; i++) all.at[i] += sum.at[i];
            });
#pragma unroll
            for (int i = 0; i < Rule::N_VALUES; i++) {
                const float value = across_sum<TOTAL_LANES>(all.at[i]);
                if (lane == 0 && is_one) averages_[b].at[i] = start > 0 ? averages_[b].at[i] + value : value;
            }
        });
    }

    // Whether some EU is too small for a difference.
    INLINE bool find_totals(Off &off) {
        bool is_doubtful = false;
        each_instance([&](int b, bool is_one, int lane) {
            const Values averages = averages_[b];
            if (Rule::are_bad(averages.at)) off = ~0u;
            Totals totals;
            totals.doubtful = Rule::totals(job_, mean_of(b, lane), averages.at, totals.at, &totals.memo);
            if (Rule::TOP_BIT != 0 && !HAS_STAGES) {
                const bool is_open = totals.doubtful & Rule::TOP_BIT;
                if (__any_sync(ALL_LANES, is_open) && agree_on_top(b, lane) && is_open) {
                    totals.doubtful &= ~Rule::TOP_BIT;
                    totals.at[Rule::TOP_RESULT] = 0;
                }
            }
            if (lane == 0 && is_one) totals_[b] = totals;
            is_doubtful |= is_one && totals.doubtful != 0;
        });
        return is_doubtful;
    }

    // Whether all members have the largest class of the mean: regrets are then exactly 0.
    INLINE bool agree_on_top(int b, int lane) const {
        const SharedRow<TOTAL_LANES> mean = mean_of(b, lane);
        const float top = mean.top();
        int best = N_CLASSES;
        mean.each([&](float p, int k, int) { best = p == top && k < best ? k : best; });
#pragma unroll
        for (int step = 1; step < TOTAL_LANES; step *= 2) {
            const int other = __shfl_xor_sync(ALL_LANES, best, step);
            best = other < best ? other : best;
        }
        const bool has_top = best < N_CLASSES;  // unless all numbers are NaN
        if (!has_top) best = 0;
        float regret = 0;
        for (int m = lane; m < job_.n_members; m += TOTAL_LANES) {
            const int row = b * job_.stage + m;
            regret = larger(regret, weight(b, m) * (values_[row].at[Rule::TOP] - tile_[row * ROW_SPACING + best]));
        }
        const float largest = across_max<TOTAL_LANES>(regret);  // of all lanes together
        return has_top && largest == 0;
    }

    INLINE void look_again() {
        for (int start = 0; start < job_.n_members; start += job_.stage) {
            if (HAS_STAGES) {
                n_rows_ = n_ * n_members_from(start);
                read(start);
                each_row([&](SharedRow<ROW_LANES> row, int r, bool) {
                    float values[Rule::N_VALUES];
                    if constexpr (Rule::N_COLUMNS > 0) {  // which need the summaries again
                        summarize_shared<Rule>(row, values);
                        put(values, r, row.lane == 0);
                    } else if (KIND != PROBABILITIES) {
                        summarize_shared<NoRule>(row, values);
                    }
                });
                __syncthreads();
            }
            each_row([&](SharedRow<ROW_LANES> row, int r, bool is_row) {
                const int b = is_row ? instance_of(r) : 0;
                const bool is_wanted = is_row && totals_[b].doubtful != 0;
                if (!__any_sync(ALL_LANES, is_wanted)) return;
                Values values = values_[r];
                const SharedRow<ROW_LANES> mean(mean_ + b * N_CLASSES, row.lane);
                Rule::diverge(job_, row, mean, totals_[b].memo, values.at);
                if (row.lane == 0 && is_wanted) values_[r] = values;
            });
            __syncthreads();
            if (Rule::N_COLUMNS > 0) add_to_columns(start);
            add_to_averages(start);
            __syncthreads();
        }
        each_instance([&](int b, bool is_one, int lane) {
            Totals totals = totals_[b];
            const Values averages = averages_[b];
            SharedRow<TOTAL_LANES> columns[Rule::N_COLUMNS + 1];
            for (int i = 0; i < Rule::N_COLUMNS; i++) columns[i] = SharedRow<TOTAL_LANES>(columns_[i] + b * N_CLASSES, lane);
            Rule::finish(job_, totals.doubtful, averages.at, columns, totals.at);
            if (lane == 0 && is_one && totals.doubtful != 0) totals_[b] = totals;
        });
    }

    INLINE void add_to_columns(int start) {
        const int n_members = n_members_from(start);
        each_column([&](int b, int k) {
            if ((totals_[b].doubtful & Rule::COLUMN_BITS) == 0) return;
            each_run(n_members, [&](int first, int end) {
                float sums[VECTOR][Rule::N_COLUMNS + 1] = {};
                for (int m = first; m < end; m++) {
                    const Vector p = numbers_at(b, m, k);
                    const float w = weight(b, start + m);
                    const Values values = values_[b * job_.stage + m];
#pragma unroll
                    for (int i = 0; i < VECTOR; i++) Rule::add_column(values.at, p.at[i], w, sums[i]);
                }
                for (int j = 0; j < Rule::N_COLUMNS; j++) {
                    float *column = columns_[j] + b * N_CLASSES + k;
#pragma unroll
                    for (int i = 0; i < VECTOR; i++) column[i] = start + first > 0 ? column[i] + sums[i][j] : sums[i][j];
                }
            });
        });
    }

    INLINE void write() const {
#pragma unroll
        for (int i = 0; i < 3 * Rule::N_RULES; i++) {
            constexpr int SLOTS[] = {RULE_SLOTS};
            const int slot = SLOTS[i / 3];
            if (slot < 0) continue;
            float *results = job_.results + (3 * slot + i % 3) * job_.n_instances + first_;
            for (int b = thread_; b < n_; b += n_threads_) results[b] = totals_[b].at[i];
        }
    }

    Values *values_, *averages_;
    Totals *totals_;
    float *columns_[Rule::N_COLUMNS + 1];
};
