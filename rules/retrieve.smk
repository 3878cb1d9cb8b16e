# BM25: runs, scores and negatives of a data set. Scores of families (encoder and recipe) on a data set that they were not trained
# on: vectors → runs → scores, or predictions → scores; where a data set trains them, they are scored in the same job
# (finetune.smk). One job serves all training-set sizes of a family. Outputs differ with the sizes, and a function cannot give
# them, so each group of families with the same sizes has a rule of its own.

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
            language=DATA.bm25_of(dataset_name).get("language", "en"),
            mined=config["mining_depth"],
        message:
            f"BM25 on {dataset_name}"
        shell:
            "PRETRIEVE_MEMORY_MB={resources.mem_mb}"
            f" python {SCRIPTS}/bm25.py"
            " {params.scores}"
            " --index-dir {params.index} --k1 {params.k1} --b {params.b}"
            " --language {params.language} --threads {threads}"
            " --runs {output.runs} --costs {output.costs} --outputs {output.metrics}"
            " --negatives {output.negatives} --mining-depth {params.mined} --log {log}"


for dataset_name in config["datasets"]:
    STAGE = SCORES.stage(dataset_name)
    for search in PLAN.searches(dataset_name):
        sizes = search.sizes

        rule:
            name:
                f"{STAGE}_{rule_name(dataset_name, sizes)}{search.suffix}"
            input:
                task=DATA.task_files(dataset_name),
                retrievers=search.files(SCORES.retrievers(dataset_name, sizes)),
                candidates=DATA.candidate_runs(dataset_name, sizes),
            output:
                search.files(SCORES.made(dataset_name, sizes)),
            log:
                f"{ROOT}/logs/{STAGE}/{dataset_name}/{search.label}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/{STAGE}/{dataset_name}-{search.label}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(search.families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS[STAGE].threads
            resources:
                **NEEDS[STAGE].resources,
            params:
                code=SCORES.code(dataset_name),
                program=STAGE,
                words=search.commands(
                    STAGE, partial(SCORES.words, dataset_name, sizes, False)
                ),
            message:
                f"Scoring {search.label.replace('{', '{wildcards.')} on {dataset_name}, seed {{wildcards.seed}}"
            shell:
                "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/{{params.program}}.py {{params.words}} --each --threads {{threads}} --log {{log}}"


# Negatives that no training of this run uses: made only if they are named.
for dataset_name in [name for name in PLAN.tasks if name in PLAN.ranked]:
    for sizes, families in PLAN.families(dataset_name).items():
        UNMINED = [one for one in families if (one, dataset_name) not in PLAN.mined]

        rule:
            name:
                f"mine_{rule_name(dataset_name, sizes)}"
            input:
                task=DATA.task_files(dataset_name),
                retrievers=SCORES.retrievers(dataset_name, sizes),
                stores=MODELS.of_sizes("embeddings", dataset_name, sizes, *STORE_FILES),
            output:
                MODELS.of_sizes("negatives", dataset_name, sizes, ".jsonl.gz"),
            log:
                f"{ROOT}/logs/mine/{dataset_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/mine/{dataset_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(UNMINED),
            conda:
                "../envs/gpu.yaml"
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
                "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/mine.py"
                " --task {params.task} --stores {params.stores} --sizes {params.sizes}"
                " --retrievers {params.retrievers} --options {params.options}"
                " --depth {params.depth} --threads {threads} --out {output} --log {log}"


# A mean of data sets that stands in for one of a paper: the parts' metrics → one file, for every system.
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
