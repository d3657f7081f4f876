// Runs the blocks of the kernel that was compiled before.
#pragma once

namespace emulation {

static void start_fiber() {
    decompose(*job);
    fibers[threadIdx.x].is_done = true;
    longjmp(scheduler, 1);
}

}  // namespace emulation

// Returns whether no thread wrote beyond the shared memory of its block.
extern "C" bool emulate(const Job *job, unsigned n_blocks, unsigned n_threads, size_t memory) {
    using namespace emulation;
    constexpr size_t GUARD = 4096;
    constexpr char NOTHING = '\xff';  // four of them are NaN: nothing that was not written may count
    emulation::job = job;
    std::vector<char> shared(GUARD + memory + GUARD + 16);
    char *start = shared.data() + (16 - uintptr_t(shared.data()) % 16) % 16;
    emulated_memory = start + GUARD;
    fibers.resize(n_threads);
    for (Fiber &fiber : fibers) fiber.stack.reset(new char[STACK]);  // not touched before it is used
    warp_barriers.assign(n_threads / WARP, Barrier());
    slots.resize(n_threads);
    blockDim.x = n_threads;
    gridDim.x = n_blocks;
    for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++) {
        std::memset(start, NOTHING, GUARD + memory + GUARD);
        for (Fiber &fiber : fibers) fiber.is_done = fiber.has_started = false;
        run_block(n_threads);
        for (size_t i = 0; i < GUARD; i++)
            if (start[i] != NOTHING || start[GUARD + memory + i] != NOTHING) return false;
    }
    fibers.clear();
    return true;
}
