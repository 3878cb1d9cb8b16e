# Benchmarks in the layout of their publishers → collections (Parquet), which tasks are made of: the readers with `collection` in
# pretrieve/benchmarks/readers.py, such as BEIR's. And the negatives that some of them ship.


rule collection:
    input:
        raw=lambda wildcards: list(raw_files(wildcards.dataset).values()),
    output:
        [f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES],
    log:
        f"{ROOT}/logs/collection/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/collection/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name for name in config["datasets"] if reader_of(name).collection
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        code=lambda wildcards: collection_code(wildcards.dataset),
        out=f"{ROOT}/collections/{{dataset}}",
        reader=lambda wildcards: config["datasets"][wildcards.dataset]["reader"],
        files=lambda wildcards: named_files(wildcards.dataset),
        options=lambda wildcards: as_argument(
            config["datasets"][wildcards.dataset].get("reader_options", {})
        ),
    message:
        "Reading {wildcards.dataset} in the layout {params.reader}"
    shell:
        "python {SCRIPTS}/collection.py {params.reader} --files {params.files} --options {params.options}"
        " --out {params.out} --log {log}"


rule published_negatives:
    input:
        collection=[
            f"{ROOT}/collections/{{dataset}}/{name}" for name in COLLECTION_FILES
        ],
        task=lambda wildcards: task_files(wildcards.dataset),
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
            if dataset_formats.ships_negatives(options)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["collection"].threads
    resources:
        **NEEDS["collection"].resources,
    params:
        code=stage_code("published_negatives.py"),
        collection=lambda wildcards, input: folder_of(input.collection),
        task=lambda wildcards, input: folder_of(input.task),
        depth=config["mining_depth"],
    message:
        "The negatives that the publisher of {wildcards.dataset} ships"
    shell:
        "python {SCRIPTS}/published_negatives.py --collection {params.collection} --task {params.task}"
        " --depth {params.depth} --out {output} --log {log}"
