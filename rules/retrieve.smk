# BM25: runs, scores and negatives of a data set. Retrievers: vectors → runs → scores, and negatives where something that is
# asked for is trained with them. One job serves all training-set sizes of a family (encoder and recipe). Outputs differ with the
# sizes, and a function cannot give them, so each group of families with the same sizes has a rule of its own.

# Vectors are made again when this changes, and not for an edit of what searches or scores them.
VECTOR_CODE = stage_code("pretrieve.retrieval.embed_task")
SEED_OR_BM25 = PLAN.alternation([*map(str, SEEDS), "0"])


for dataset_name in PLAN.ranked:
    BM25 = PLAN.bm25_systems(dataset_name)

    rule:
        name:
            f"bm25_{rule_name(dataset_name)}"
        input:
            task=DATA.task_files(dataset_name),
        output:
            runs=[paths.run_file(ROOT, system, dataset_name, 0) for system in BM25],
            costs=[
                paths.cost_beside(paths.run_file(ROOT, system, dataset_name, 0))
                for system in BM25
            ],
            metrics=[
                paths.metrics_file(ROOT, system, dataset_name, 0) for system in BM25
            ],
            negatives=paths.negatives_file(ROOT, "bm25", dataset_name, 0),
        log:
            f"{ROOT}/logs/bm25/{dataset_name}.log",
        benchmark:
            f"{ROOT}/benchmarks/bm25/{dataset_name}.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["bm25"].threads
        resources:
            **NEEDS["bm25"].resources,
        params:
            code=stage_code("bm25.py"),
            scores=DATA.score_arguments(
                dataset_name, [paths.parse_system(system).size for system in BM25]
            ),
            index=f"{ROOT}/indexes/bm25/{dataset_name}",
            k1=DATA.bm25_of(dataset_name)["k1"],
            b=DATA.bm25_of(dataset_name)["b"],
            mined=config["mining_depth"],
        message:
            f"BM25 on {dataset_name}"
        shell:
            "PRETRIEVE_MEMORY_MB={resources.mem_mb}"
            f" python {SCRIPTS}/bm25.py"
            " {params.scores}"
            " --index-dir {params.index} --k1 {params.k1} --b {params.b} --threads {threads}"
            " --runs {output.runs} --costs {output.costs} --outputs {output.metrics}"
            " --negatives {output.negatives} --mining-depth {params.mined} --log {log}"

    for (sizes, mined), families in PLAN.searches(dataset_name).items():
        TRAINED_ON = PLAN.trained_on(dataset_name)

        rule:
            name:
                f"retrieve_{rule_name(dataset_name, sizes)}{'_mined' if mined else ''}"
            input:
                task=DATA.task_files(dataset_name),
                retrievers=MODELS.of_sizes(
                    "retrievers", TRAINED_ON, sizes, *RETRIEVER_FILES
                ),
                candidates=DATA.candidate_runs(dataset_name, sizes),
            output:
                stores=MODELS.of_sizes("embeddings", dataset_name, sizes, *STORE_FILES),
                runs=MODELS.of_sizes("runs", dataset_name, sizes, ".trec.gz"),
                metrics=MODELS.of_sizes("metrics", dataset_name, sizes, ".json"),
                negatives=(
                    MODELS.of_sizes("negatives", dataset_name, sizes, ".jsonl.gz")
                    if mined
                    else []
                ),
            log:
                f"{ROOT}/logs/retrieve/{dataset_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/retrieve/{dataset_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["retrieve"].threads
            resources:
                **NEEDS["retrieve"].resources,
            params:
                code=stage_code("retrieve.py"),
                scores=DATA.score_arguments(dataset_name, sizes),
                retrievers=MODELS.of_sizes("retrievers", TRAINED_ON, sizes),
                stores=MODELS.of_sizes("embeddings", dataset_name, sizes),
                options=partial(MODELS.family_options, TRAINED_ON),
                search=as_argument(PLAN.scale.get("search", {})),
                mined=config["mining_depth"],
                vectors_code=VECTOR_CODE,
            message:
                f"Searching {dataset_name} with {{wildcards.family}}, seed {{wildcards.seed}}"
            shell:
                "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/retrieve.py"
                " {params.scores}"
                " --retrievers {params.retrievers} --stores {params.stores} --options {params.options}"
                " --search {params.search} --candidates {input.candidates} --runs {output.runs}"
                " --outputs {output.metrics} --negatives {output.negatives} --mining-depth {params.mined}"
                " --vectors-code {params.vectors_code} --threads {threads} --log {log}"

        # Asked for by name only.
        if not mined and dataset_name == TRAINED_ON:

            rule:
                name:
                    f"mine_{rule_name(dataset_name, sizes)}"
                input:
                    task=DATA.task_files(dataset_name),
                    retrievers=MODELS.of_sizes(
                        "retrievers", dataset_name, sizes, *RETRIEVER_FILES
                    ),
                    stores=MODELS.of_sizes(
                        "embeddings", dataset_name, sizes, *STORE_FILES
                    ),
                output:
                    MODELS.of_sizes("negatives", dataset_name, sizes, ".jsonl.gz"),
                log:
                    f"{ROOT}/logs/mine/{dataset_name}/{{family}}/seed{{seed}}.log",
                benchmark:
                    f"{ROOT}/benchmarks/mine/{dataset_name}-{{family}}-seed{{seed}}.tsv"
                wildcard_constraints:
                    family=PLAN.family_pattern(families),
                conda:
                    "../envs/cpu.yaml"
                threads: NEEDS["mine"].threads
                resources:
                    **NEEDS["mine"].resources,
                params:
                    code=stage_code("mine.py"),
                    task=folder_of("task"),
                    retrievers=MODELS.of_sizes("retrievers", dataset_name, sizes),
                    stores=MODELS.of_sizes("embeddings", dataset_name, sizes),
                    sizes=sizes,
                    options=partial(MODELS.family_options, dataset_name),
                    depth=config["mining_depth"],
                message:
                    f"Mining negatives with {{wildcards.family}} on {dataset_name}, seed {{wildcards.seed}}"
                shell:
                    f"python {SCRIPTS}/mine.py"
                    " --task {params.task} --stores {params.stores} --sizes {params.sizes}"
                    " --retrievers {params.retrievers} --options {params.options} --depth {params.depth} --threads {threads} --out {output} --log {log}"


# A mean of data sets that plays a role: the parts' metrics → one file, for every system.
rule mean:
    input:
        parts=of(DATA.metrics_of_parts, "system", "mean", "seed"),
    output:
        paths.metrics_file(ROOT, "{system}", "{mean}", "{seed}"),
    log:
        f"{ROOT}/logs/mean/{{mean}}/{{system}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/mean/{{mean}}-{{system}}-seed{{seed}}.tsv"
    wildcard_constraints:
        system="[^/]+",
        mean=PLAN.alternation(PLAN.means),
        seed=SEED_OR_BM25,
    localrule: True
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["mean"].threads
    resources:
        **NEEDS["mean"].resources,
    params:
        code=stage_code("mean.py"),
        parts=lookup(dpath="{mean}", within=PLAN.means),
    message:
        "The mean {wildcards.mean} of {wildcards.system}, seed {wildcards.seed}"
    shell:
        f"python {SCRIPTS}/mean.py"
        " --parts {params.parts} --metrics {input.parts} --out {output} --log {log}"


# Tasks of examples: predictions of the test examples, and their metrics.
for dataset_name in filter(PLAN.is_examples, config["datasets"]):
    for sizes, families in PLAN.families(dataset_name).items():
        TRAINED_ON = PLAN.trained_on(dataset_name)

        rule:
            name:
                f"predict_{rule_name(dataset_name, sizes)}"
            input:
                task=DATA.task_files(dataset_name),
                models=MODELS.of_sizes(
                    "retrievers", TRAINED_ON, sizes, *RETRIEVER_FILES
                ),
            output:
                predictions=MODELS.of_sizes(
                    "predictions", dataset_name, sizes, ".tsv.gz"
                ),
                metrics=MODELS.of_sizes("metrics", dataset_name, sizes, ".json"),
            log:
                f"{ROOT}/logs/predict/{dataset_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/predict/{dataset_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["predict"].threads
            resources:
                **NEEDS["predict"].resources,
            params:
                code=stage_code("predict.py"),
                task=folder_of("task"),
                models=MODELS.of_sizes("retrievers", TRAINED_ON, sizes),
                options=partial(MODELS.family_options, TRAINED_ON),
                sizes=sizes,
                metrics=PLAN.metrics_of(dataset_name),
            message:
                f"Predicting {dataset_name} with {{wildcards.family}}, seed {{wildcards.seed}}"
            shell:
                "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/predict.py"
                " --task {params.task} --models {params.models} --sizes {params.sizes}"
                " --options {params.options} --metrics {params.metrics} --predictions {output.predictions}"
                " --outputs {output.metrics} --threads {threads} --log {log}"
