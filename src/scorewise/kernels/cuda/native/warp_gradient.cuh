// Gradients of small instances: rows become their gradients in shared memory, and go from there to global memory.
#pragma once

#include "slopes.cuh"
#include "warp_tiles.cuh"

struct WarpGradient : WarpTiles {
    INLINE WarpGradient(const Job &job) : WarpTiles(job) {}

    INLINE void run(char *memory) {
        WarpTiles::run(memory, [&](Element *tile, long long first) {
            differentiate(tile, first);
            return Off(0);
        });
    }

    INLINE void differentiate(Element *tile, long long first) const {
        const int n = n_instances_from(first), own = lane / LANES < n ? lane / LANES : n - 1;
        Element *members = tile + own * job.spacing;
        const Upstream up(job, first + own);
        float nothing[NoRule::N_VALUES] = {};
        MeanRows<OwnRow> mean;
        summarize<NoRule>(members, own, mean.numbers, nothing);
#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            mean.inverses.numbers[i] = inverse_of(mean.numbers.numbers[i]);
            mean.logs.numbers[i] = log_2_of(mean.numbers.numbers[i]);
        }
        __syncwarp();
        const MeanShape shape = mean_shape(mean.numbers);
        each_member<LANES>(own, [&](int m, float w, bool is_own) {
            OwnRow row;
            read(row, members, m);
            prepare(row);
            Top top;
            float there = HAS_ZERO_ONE && KIND != LOGITS ? float(members[m * job.row_spacing + shape.top]) : 0.f;
            row.each_with(mean.numbers, [&](float p, float q, int k, int) {
                top.see(p, q, k);
                if (HAS_ZERO_ONE && KIND == LOGITS) there = k == shape.top ? p : there;
            });
            top.combine<OwnRow>();
            if (HAS_ZERO_ONE && KIND == LOGITS) there = across_sum<CLASS_LANES>(there);
            const Slopes slopes(row, mean, top, there, up, shape, w);
            ::differentiate(row, mean, slopes);
            const bool is_wanted = is_own && lane / LANES < n;
            if (is_wanted) put(row, members, m);
            if (!HAS_ZERO_ONE) return;
            if (CLASS_LANES > 1) __syncwarp();
            if (is_wanted && lane % CLASS_LANES == 0) {
                Element *gradient = members + m * job.row_spacing;
                gradient[top.place] = Element(slopes.in_top);
                if (slopes.in_top_of_mean != 0) gradient[shape.top] = Element(slopes.gradient_in_top_of_mean(there, shape));
            }
        });
        __syncwarp();
        Element *gradient = static_cast<Element *>(job.gradient) + first * job.gradient_strides.instance;
        if (is_run()) {
            write_run(gradient, tile, n * job.spacing, lane);
        } else {
            each_piece(n, job.gradient_strides, [&](auto count, int place, long long offset) {
                using Numbers = Some<decltype(count)::VALUE, Element>;
                *reinterpret_cast<Numbers *>(gradient + offset) = *reinterpret_cast<const Numbers *>(tile + place);
            });
        }
    }
    INLINE void put(const OwnRow &row, Element *members, int m) const {
        Some<READ, Element> *pieces = reinterpret_cast<Some<READ, Element> *>(members + m * job.row_spacing);
        OwnRow::each_step([&](int step, int place) {
            Some<READ, Element> here;
#pragma unroll
            for (int i = 0; i < READ; i++) here.at[i] = Element(row.numbers[step * READ + i]);
            pieces[place] = here;
        });
    }
};
