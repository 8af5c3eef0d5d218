// headwise._kernel for Python: a Job whose fields are numbers and addresses, and `run`. `core/kernel.py` fills it in.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "headwise.h"

namespace nb = nanobind;
using headwise::Job;
using headwise::Set;
using headwise::View;

namespace {

const std::vector<std::pair<std::string, Set>> SETS = {{"avx512", Set::avx512}, {"avx2", Set::avx2}};

Set named(const std::string& name) {
    for (const auto& [known, set] : SETS)
        if (known == name) return set;
    throw std::invalid_argument("no such set of instructions: " + name);
}

template <class T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// An attribute that takes an address as a number.
template <class T>
void address(nb::class_<Job>& job, const char* name, T* Job::*field) {
    job.def_prop_rw(
        name, [field](const Job& j) { return reinterpret_cast<uintptr_t>(j.*field); },
        [field](Job& j, uintptr_t x) { j.*field = at<T>(x); });
}

void view(nb::class_<Job>& job, const char* name, View Job::*field) {
    job.def(name, [field](Job& j, uintptr_t data, int64_t batch, int64_t head, int64_t row) {
        j.*field = View{at<void>(data), batch, head, row};
    });
}

}  // namespace

NB_MODULE(_kernel, m) {
    m.doc() = "The compiled CPU kernel of headwise.";
    nb::class_<Job> job(m, "Job");
    job.def(nb::init<>())
        .def_rw("batch", &Job::batch)
        .def_rw("heads", &Job::heads)
        .def_rw("kv_heads", &Job::kv_heads)
        .def_rw("queries", &Job::queries)
        .def_rw("keys", &Job::keys)
        .def_rw("dim", &Job::dim)
        .def_rw("v_dim", &Job::v_dim)
        .def_rw("offset", &Job::offset)
        .def_rw("threads", &Job::threads)
        .def_rw("scale", &Job::scale)
        .def_rw("bf16", &Job::bf16)
        .def_rw("span_batch", &Job::span_batch)
        .def_rw("probes", &Job::probes)
        .def_rw("probe_batch", &Job::probe_batch)
        .def_rw("top", &Job::top)
        .def_rw("apart", &Job::apart)
        .def_rw("eligible_batch", &Job::eligible_batch)
        .def_rw("pool", &Job::pool);
    view(job, "set_q", &Job::q);
    view(job, "set_k", &Job::k);
    view(job, "set_v", &Job::v);
    address(job, "lo", &Job::lo);
    address(job, "hi", &Job::hi);
    address(job, "z", &Job::z);
    address(job, "entropy", &Job::entropy);
    address(job, "distance", &Job::distance);
    address(job, "largest", &Job::largest);
    address(job, "probe", &Job::probe);
    address(job, "mass", &Job::mass);
    address(job, "hits", &Job::hits);
    address(job, "top_keys", &Job::top_keys);
    address(job, "top_weights", &Job::top_weights);
    address(job, "eligible", &Job::eligible);
    address(job, "pooled", &Job::pooled);
    address(job, "pooled_max", &Job::pooled_max);
    address(job, "received", &Job::received);
    address(job, "query_lengths", &Job::query_lengths);
    address(job, "key_lengths", &Job::key_lengths);
    m.def("run", [](const Job& j, const std::string& set) {
        const Set which = named(set);
        nb::gil_scoped_release released;
        headwise::run(j, which);
    });
    m.def("sets", [](bool here) {
        std::vector<std::string> found;
        for (const auto& [name, set] : SETS)
            if (here ? headwise::runs_here(set) && headwise::built(set) : headwise::built(set))
                found.push_back(name);
        return found;
    });
    m.def("shares_openmp", &headwise::shares_openmp);
}
