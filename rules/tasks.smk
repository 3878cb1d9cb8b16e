# Benchmarks, by their readers (pretrieve/benchmarks/readers.py) → tasks (Parquet and token stores), one job for each data set. What
# is in the layout of its publisher, such as BEIR's, becomes a collection (Parquet) first; some ship negatives, too.


rule collection:
    input:
        raw=lambda wildcards: without_dates(DATA.collection_inputs(wildcards.dataset)),
    output:
        [f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES],
    log:
        f"{ROOT}/logs/collection/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/collection/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=alternation(name for name in config["datasets"] if DATA.reader_of(name).collection),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        code=of(DATA.collection_code, "dataset"),
        words=of(DATA.collection_words, "dataset"),
        out=f"{ROOT}/collections/{{dataset}}",
    message:
        "Reading {wildcards.dataset} in the layout of its publisher"
    shell:
        f"python {SCRIPTS}/collection.py {{params.words}} --out {{params.out}} --log {{log}}"


rule published_negatives:
    input:
        collection=[f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES],
        task=of(DATA.task_files, "dataset"),
    output:
        paths.negatives_file(ROOT, PUBLISHED, "{dataset}", 0),
    log:
        f"{ROOT}/logs/negatives/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/negatives/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=alternation(filter(DATA.ships_negatives, config["datasets"])),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        code=stage_code("published_negatives.py"),
        collection=folder_of("collection"),
        task=folder_of("task"),
        depth=config["mining_depth"],
    message:
        "The negatives that the publisher of {wildcards.dataset} ships"
    shell:
        f"python {SCRIPTS}/published_negatives.py"
        " --collection {params.collection} --task {params.task} --depth {params.depth} --out {output} --log {log}"


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
