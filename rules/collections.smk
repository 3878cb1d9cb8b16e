# Benchmarks in the layout of their publishers → collections (Parquet) → tasks: whatever pretrieve/benchmarks/official/collection_formats.py
# has, such as a BEIR data set. Readers with answers to match have one file more.

COLLECTION_FILES = [
    "collection.parquet",
    "queries.parquet",
    "qrels.parquet",
    "stats.json",
]


rule collection:
    input:
        raw=lambda wildcards: list(raw_files(wildcards.dataset).values()),
        code=stage_sources("collection.py"),
    output:
        [f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES],
    log:
        f"{ROOT}/logs/collection/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/collection/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name for reader in LAYOUTS for name in datasets_read_by(reader)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        out=f"{ROOT}/collections/{{dataset}}",
        reader=lambda wildcards: config["datasets"][wildcards.dataset]["reader"],
        files=lambda wildcards: named_files(wildcards.dataset),
        options=lambda wildcards: as_argument(
            config["datasets"][wildcards.dataset].get("reader_options", {})
        ),
    message:
        "Reading {wildcards.dataset} in the layout {params.reader}"
    shell:
        f"python {SCRIPTS}/collection.py"
        " {params.reader} --files {params.files} --options {params.options}"
        " --out {params.out} --log {log}"


for with_answers in (False, True):

    rule:
        name:
            "task_collection_with_answers" if with_answers else "task_collection"
        input:
            tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
            collection=[
                f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES
            ],
            code=stage_sources("task.py"),
        output:
            TASK_OUTPUTS,
            [f"{ROOT}/tasks/{{dataset}}/answers.parquet"] if with_answers else [],
        log:
            f"{ROOT}/logs/task/{{dataset}}.log",
        benchmark:
            f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
        wildcard_constraints:
            dataset=PLAN.alternation(
                name
                for reader, layout in LAYOUTS.items()
                for name in datasets_read_by(reader)
                if layout.answers == with_answers
            ),
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["task"].threads
        resources:
            **NEEDS["task"].resources,
        params:
            out=f"{ROOT}/tasks/{{dataset}}",
            collection=lambda wildcards, input: folder_of(input.collection),
            sizes=lambda wildcards: size_arguments(wildcards.dataset),
            options=lambda wildcards: collection_options(wildcards.dataset),
        message:
            "Making a task of the collection {wildcards.dataset}"
        shell:
            f"python {SCRIPTS}/task.py"
            " collection --tokenizer {input.tokenizer} --collection {params.collection}"
            " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"


rule published_negatives:
    input:
        collection=[
            f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES
        ],
        task=lambda wildcards: task_files(wildcards.dataset),
        code=stage_sources("published_negatives.py"),
    output:
        paths.negatives_file(ROOT, PUBLISHED, "{dataset}", 0),
    log:
        f"{ROOT}/logs/negatives/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/negatives/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name
            for name, options in config["datasets"].items()
            if ships_negatives(options)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        collection=lambda wildcards, input: folder_of(input.collection),
        task=lambda wildcards, input: folder_of(input.task),
        depth=config["mining_depth"],
    message:
        "The negatives that the publisher of {wildcards.dataset} ships"
    shell:
        f"python {SCRIPTS}/published_negatives.py"
        " --collection {params.collection} --task {params.task}"
        " --depth {params.depth} --out {output} --log {log}"
