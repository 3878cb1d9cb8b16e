# Benchmarks → tasks (Parquet and token stores), one job for each data set, whatever its reader: pretrieve/benchmarks/readers.py.
# A rule for each set of output files: questions, questions with answers to match, examples.

for kind in ("task", "task_with_answers", "example_task"):

    rule:
        name:
            kind
        input:
            tokenizer=of(DATA.tokenizer_of, "dataset"),
            files=of(DATA.task_inputs, "dataset"),
            corpus=of(DATA.corpus_of_task, "dataset"),
        output:
            [f"{ROOT}/tasks/{{dataset}}/{name}" for name in TASK_KINDS[kind]],
        log:
            f"{ROOT}/logs/task/{{dataset}}.log",
        benchmark:
            f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
        wildcard_constraints:
            dataset=alternation(name for name in config["datasets"] if DATA.task_kind(name) == kind),
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["task"].threads
        resources:
            **NEEDS["task"].resources,
        params:
            code=of(DATA.task_code, "dataset"),
            reader=of(DATA.task_words, "dataset"),
            corpus=of(DATA.corpus_argument, "dataset"),
            sizes=of(DATA.size_arguments, "dataset"),
            out=f"{ROOT}/tasks/{{dataset}}",
        message:
            "Making the task {wildcards.dataset}"
        shell:
            f"python {SCRIPTS}/task.py"
            " {params.reader} {params.corpus} --tokenizer {input.tokenizer} --sizes {params.sizes} --out {params.out} --log {log}"
