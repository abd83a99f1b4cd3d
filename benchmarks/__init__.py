"""What a guarded call costs, beside the libraries that people use today; `make bench` runs it.

Each benchmark is one module with a `main` that returns a `Report`: tables of ratios, and bars that we hold
ourselves to. Machines differ and are noisy, so everything that is compared is measured in turns in one run,
and only ratios are claimed; the times beside them are context.

    calls       the cost of a guarded call: success, failure, refusal
    keys        what many keys cost: time per call, memory per key
    edge        who gets through when a cool-off ends
    libraries/  how each library is used, ours among them
"""
