# Benchmarks in the layout of their publishers → collections (Parquet) → tasks: whatever pretrieve/tasks/collection_formats.py
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
        "python workflow_scripts/collection.py {params.reader} --files {params.files} --options {params.options}"
        " --out {params.out} --log {log}"


for with_answers in (False, True):

    rule:
        name:
            "task_collection_with_answers" if with_answers else "task_collection"
        input:
            tokenizer=TOKENIZER,
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
        params:
            out=f"{ROOT}/tasks/{{dataset}}",
            collection=lambda wildcards, input: folder_of(input.collection),
            sizes=lambda wildcards: size_arguments(wildcards.dataset),
            options=lambda wildcards: collection_options(wildcards.dataset),
        message:
            "Making a task of the collection {wildcards.dataset}"
        shell:
            "python workflow_scripts/task.py collection --tokenizer {input.tokenizer} --collection {params.collection}"
            " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"
