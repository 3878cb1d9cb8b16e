# Benchmarks → tasks (Parquet and token stores), one job for each data set, whichever its reader: pretrieve/benchmarks/readers.py.
# A rule for each set of output files: questions, questions with answers to match, examples.

for kind in ("task", "task_with_answers", "example_task"):

    rule:
        name:
            kind
        input:
            tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
            files=lambda wildcards: list(task_inputs(wildcards.dataset).values()),
            corpus=lambda wildcards: corpus_of_task(wildcards.dataset),
        output:
            [f"{ROOT}/tasks/{{dataset}}/{name}" for name in TASK_KINDS[kind]],
        log:
            f"{ROOT}/logs/task/{{dataset}}.log",
        benchmark:
            f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
        wildcard_constraints:
            dataset=PLAN.alternation(
                name for name in config["datasets"] if task_kind(name) == kind
            ),
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["task"].threads
        resources:
            **NEEDS["task"].resources,
        params:
            code=lambda wildcards: task_code(wildcards.dataset),
            reader=lambda wildcards: task_words(wildcards.dataset),
            corpus=lambda wildcards, input: (
                f"--corpus {shlex.quote(folder_of(input.corpus))}"
                if input.corpus
                else ""
            ),
            sizes=lambda wildcards: size_arguments(wildcards.dataset),
            out=f"{ROOT}/tasks/{{dataset}}",
        message:
            "Making the task {wildcards.dataset}"
        shell:
            "python {SCRIPTS}/task.py {params.reader} {params.corpus} --tokenizer {input.tokenizer} --sizes {params.sizes}"
            " --out {params.out} --log {log}"
