# BM25 runs and metrics; and for retrievers: embeddings → runs and metrics. A job serves all training-set sizes of a family.

SEED_OR_BM25 = PLAN.alternation([*map(str, SEEDS), "0"])

for dataset_name in config["datasets"]:
    if PLAN.is_examples(dataset_name):
        continue
    DEPTH = config["datasets"][dataset_name].get("depth", 100)
    BM25 = PLAN.bm25_systems(dataset_name)

    rule:
        name:
            f"bm25_{rule_name(dataset_name)}"
        input:
            task=task_files(dataset_name),
            code=stage_sources("bm25.py"),
        output:
            runs=[paths.run_file(ROOT, system, dataset_name, 0) for system in BM25],
            costs=[
                cost
                for system in BM25
                for cost in paths.cost_files(
                    ROOT, system, dataset_name, dataset_name, 0
                ).values()
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
            task=lambda wildcards, input: folder_of(input.task),
            index=f"{ROOT}/indexes/bm25/{dataset_name}",
            k1=bm25_of(dataset_name)["k1"],
            b=bm25_of(dataset_name)["b"],
            depth=DEPTH,
            mined=config["mining_depth"],
            sizes=[paths.parse_system(system).size for system in BM25],
        message:
            f"BM25 on {dataset_name}"
        shell:
            "PRETRIEVE_MEMORY_MB={resources.mem_mb} "
            f"python {SCRIPTS}/bm25.py"
            " --task {params.task}"
            " --index-dir {params.index} --k1 {params.k1} --b {params.b}"
            " --depth {params.depth} --threads {threads} --sizes {params.sizes} --runs {output.runs} --costs {output.costs}"
            " --negatives {output.negatives} --mining-depth {params.mined} --log {log}"

    rule:
        name:
            f"evaluate_bm25_{rule_name(dataset_name)}"
        input:
            task=task_files(dataset_name),
            runs=[paths.run_file(ROOT, system, dataset_name, 0) for system in BM25],
            code=stage_sources("evaluate.py"),
        output:
            [paths.metrics_file(ROOT, system, dataset_name, 0) for system in BM25],
        log:
            f"{ROOT}/logs/evaluate/{dataset_name}/bm25.log",
        benchmark:
            f"{ROOT}/benchmarks/evaluate/{dataset_name}-bm25.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["evaluate"].threads
        resources:
            **NEEDS["evaluate"].resources,
        params:
            task=lambda wildcards, input: folder_of(input.task),
            sizes=[paths.parse_system(system).size for system in BM25],
            metrics=PLAN.metrics_of(dataset_name),
            conventions=" ".join(
                config["datasets"][dataset_name].get("conventions", [])
            ),
        message:
            f"Scoring BM25 on {dataset_name}"
        shell:
            f"python {SCRIPTS}/evaluate.py"
            " --task {params.task} --runs {input.runs} --sizes {params.sizes}"
            " --outputs {output} --metrics {params.metrics} --conventions {params.conventions} --log {log}"

    for sizes, families in PLAN.families(dataset_name).items():
        RULE = rule_name(dataset_name, sizes)

        rule:
            name:
                f"embed_{RULE}"
            input:
                task=task_files(dataset_name),
                retrievers=expand(
                    "{root}/retrievers/{{family}}-{size}/{data}/seed{{seed}}/{file}",
                    root=ROOT,
                    size=sizes,
                    data=PLAN.trained_on(dataset_name),
                    file=RETRIEVER_FILES,
                ),
                code=stage_sources("embed.py"),
            output:
                expand(
                    "{root}/embeddings/{{family}}-{size}/{data}/seed{{seed}}/{file}",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                    file=["corpus.json", "queries.json", "cost.json"],
                ),
            log:
                f"{ROOT}/logs/embed/{dataset_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/embed/{dataset_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["embed"].threads
            resources:
                **NEEDS["embed"].resources,
            params:
                task=lambda wildcards, input: folder_of(input.task),
                retrievers=expand(
                    "{root}/retrievers/{{family}}-{size}/{data}/seed{{seed}}",
                    root=ROOT,
                    size=sizes,
                    data=PLAN.trained_on(dataset_name),
                ),
                out=expand(
                    "{root}/embeddings/{{family}}-{size}/{data}/seed{{seed}}",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
                options=partial(family_options, PLAN.trained_on(dataset_name)),
            message:
                f"Embedding {dataset_name} with {{wildcards.family}}, seed {{wildcards.seed}}"
            shell:
                "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/embed.py"
                " --task {params.task} --retrievers {params.retrievers} --out {params.out}"
                " --options {params.options} --threads {threads} --log {log}"

        rule:
            name:
                f"search_{RULE}"
            input:
                task=task_files(dataset_name),
                stores=expand(
                    "{root}/embeddings/{{family}}-{size}/{data}/seed{{seed}}/{file}",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                    file=["corpus.json", "queries.json"],
                ),
                candidates=candidate_runs(dataset_name, sizes),
                code=stage_sources("search.py"),
            output:
                runs=expand(
                    "{root}/runs/{{family}}-{size}/{data}/seed{{seed}}.trec.gz",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
                metrics=expand(
                    "{root}/metrics/{{family}}-{size}/{data}/seed{{seed}}.json",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
            log:
                f"{ROOT}/logs/search/{dataset_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/search/{dataset_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/cpu.yaml"
            threads: NEEDS["search"].threads
            resources:
                **NEEDS["search"].resources,
            params:
                task=lambda wildcards, input: folder_of(input.task),
                stores=expand(
                    "{root}/embeddings/{{family}}-{size}/{data}/seed{{seed}}",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
                depth=DEPTH,
                options=as_argument(PLAN.scale.get("search", {})),
                temperature=partial(family_temperature, PLAN.trained_on(dataset_name)),
                candidates=partial(candidates_argument, dataset_name, sizes),
                sizes=sizes,
                metrics=PLAN.metrics_of(dataset_name),
                conventions=" ".join(
                    config["datasets"][dataset_name].get("conventions", [])
                ),
            message:
                f"Searching {dataset_name} with {{wildcards.family}} and scoring, seed {{wildcards.seed}}"
            shell:
                f"python {SCRIPTS}/search.py"
                " --task {params.task} --depth {params.depth} --threads {threads}"
                " --stores {params.stores} --sizes {params.sizes} --options {params.options} {params.candidates}"
                " --temperature {params.temperature}"
                " --runs {output.runs} --outputs {output.metrics} --metrics {params.metrics}"
                " --conventions {params.conventions} --log {log}"


# A mean of data sets that plays a role: the parts' metrics → one file, for every system.
rule mean:
    input:
        parts=lambda wildcards: [
            paths.metrics_file(ROOT, wildcards.system, part, wildcards.seed)
            for part in PLAN.means[wildcards.mean]
        ],
        code=stage_sources("mean.py"),
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
        parts=lambda wildcards: PLAN.means[wildcards.mean],
    message:
        "The mean {wildcards.mean} of {wildcards.system}, seed {wildcards.seed}"
    shell:
        f"python {SCRIPTS}/mean.py"
        " --parts {params.parts} --metrics {input.parts} --out {output} --log {log}"


# Tasks of examples: predictions of the test examples, and their metrics.
for dataset_name in filter(PLAN.is_examples, config["datasets"]):
    for sizes, families in PLAN.families(dataset_name).items():

        rule:
            name:
                f"predict_{rule_name(dataset_name, sizes)}"
            input:
                task=task_files(dataset_name),
                models=expand(
                    "{root}/retrievers/{{family}}-{size}/{data}/seed{{seed}}/{file}",
                    root=ROOT,
                    size=sizes,
                    data=PLAN.trained_on(dataset_name),
                    file=RETRIEVER_FILES,
                ),
                code=stage_sources("predict.py"),
            output:
                predictions=expand(
                    "{root}/predictions/{{family}}-{size}/{data}/seed{{seed}}.tsv.gz",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
                metrics=expand(
                    "{root}/metrics/{{family}}-{size}/{data}/seed{{seed}}.json",
                    root=ROOT,
                    size=sizes,
                    data=dataset_name,
                ),
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
                task=lambda wildcards, input: folder_of(input.task),
                models=expand(
                    "{root}/retrievers/{{family}}-{size}/{data}/seed{{seed}}",
                    root=ROOT,
                    size=sizes,
                    data=PLAN.trained_on(dataset_name),
                ),
                options=partial(family_options, PLAN.trained_on(dataset_name)),
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
