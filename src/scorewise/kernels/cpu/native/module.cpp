// The Python module: which instruction sets this processor has, and which one is in use.
// Only the limited API of Python 3.11, so that one file serves all later versions.
#include <Python.h>

#include <cstdlib>
#include <cstring>

#include "dispatch.hpp"

namespace scorewise {
namespace {

// The instruction sets that this processor can run, slowest first.
struct Available {
    const Kernels* sets[3] = {};
    int count = 0;

    Available() {
#ifdef SCOREWISE_HAS_baseline
        add(baseline::kernels);
#endif
#ifdef SCOREWISE_HAS_avx2
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add(avx2::kernels);
#endif
#ifdef SCOREWISE_HAS_avx512
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("fma")) {
            add(avx512::kernels);
        }
#endif
#ifdef SCOREWISE_HAS_neon
        add(neon::kernels);
#endif
    }

    void add(const Kernels& kernels) { sets[count++] = &kernels; }
};

Available available;
const Kernels* chosen = nullptr;

PyObject* instruction_sets(PyObject*, PyObject* const*, Py_ssize_t) {
    PyObject* names = PyTuple_New(available.count);
    if (names == nullptr) return nullptr;
    for (int i = 0; i < available.count; ++i) {
        PyObject* name = PyUnicode_FromString(available.sets[i]->name);
        if (name == nullptr || PyTuple_SetItem(names, i, name) < 0) {
            Py_DECREF(names);
            return nullptr;
        }
    }
    return names;
}

PyObject* instruction_set(PyObject*, PyObject* const*, Py_ssize_t) {
    return PyUnicode_FromString(chosen->name);
}

// Chooses the fastest instruction set, or the one that the environment names.
int choose(PyObject*) {
    chosen = available.sets[available.count - 1];
    const char* wanted = std::getenv("SCOREWISE_INSTRUCTION_SET");
    if (wanted == nullptr || *wanted == '\0') return 0;
    for (int i = 0; i < available.count; ++i) {
        if (std::strcmp(available.sets[i]->name, wanted) == 0) {
            chosen = available.sets[i];
            return 0;
        }
    }
    PyObject* names = instruction_sets(nullptr, nullptr, 0);
    if (names != nullptr) {
        PyErr_Format(PyExc_ImportError,
                     "SCOREWISE_INSTRUCTION_SET is '%s'; this processor can run %S", wanted, names);
        Py_DECREF(names);
    }
    return -1;
}

// The limited API has METH_FASTCALL functions, but one type for pointers to functions.
template <class Function>
PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"instruction_sets", as_method(instruction_sets), METH_FASTCALL,
     "The instruction sets that this processor can run, slowest first."},
    {"instruction_set", as_method(instruction_set), METH_FASTCALL,
     "The instruction set in use."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(choose)},
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The kernels, compiled.", 0, methods, slots,
    nullptr,               nullptr,   nullptr,
};

}  // namespace
}  // namespace scorewise

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&scorewise::definition); }
