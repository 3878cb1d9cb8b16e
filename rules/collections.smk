# Benchmarks in the layout of their publishers → collections (Parquet), which tasks are made of: the readers with `collection` in
# pretrieve/benchmarks/readers.py, such as BEIR's. And the negatives that some of them ship.


rule collection:
    input:
        raw=of(DATA.collection_inputs, "dataset"),
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
        dataset=alternation(
            name for name, options in config["datasets"].items() if dataset_formats.ships_negatives(options)
        ),
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
