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
            const Slopes slopes(row, mean.numbers, up, shape, w);
            const float average = ::differentiate(row, mean, slopes);
            const bool is_wanted = is_own && lane / LANES < n;
            if (is_wanted) put(row, members, m);
            if (CLASS_LANES > 1) __syncwarp();
            if (HAS_ZERO_ONE && is_wanted && lane % CLASS_LANES == 0) slopes.add_zero_one(members + m * job.row_spacing, average);
        });
        __syncwarp();
        Element *gradient = static_cast<Element *>(job.gradient) + first * job.gradient_strides.instance;
        each_piece(n, job.gradient_strides, [&](auto count, int place, long long offset) {
            using Numbers = Some<decltype(count)::VALUE, Element>;
            *reinterpret_cast<Numbers *>(gradient + offset) = *reinterpret_cast<const Numbers *>(tile + place);
        });
    }
    INLINE void put(const OwnRow &row, Element *members, int m) const {
        Some<READ, Element> *pieces = reinterpret_cast<Some<READ, Element> *>(members + m * job.row_spacing);
#pragma unroll
        for (int step = 0; step < OwnRow::STEPS; step++) {
            const int place = step * CLASS_LANES + lane % CLASS_LANES;
            if ((step + 1) * CLASS_LANES > OwnRow::N_PIECES && place >= OwnRow::N_PIECES) continue;
            Some<READ, Element> here;
#pragma unroll
            for (int i = 0; i < READ; i++) here.at[i] = Element(row.numbers[step * READ + i]);
            pieces[place] = here;
        }
    }
};
