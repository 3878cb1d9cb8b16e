# BM25 runs; and for retrievers: embeddings → exact search → runs → metrics. A job serves all training-set sizes of a data set.

DEPTH = 100
SEED_OR_BM25 = PLAN.alternation([*map(str, SEEDS), "0"])

for dataset_name, dataset_options in config["datasets"].items():
    SIZES = list(dataset_options["sizes"])
    RULE = dataset_name.replace("-", "_")

    rule:
        name:
            f"bm25_{RULE}"
        input:
            task=task_files(dataset_name),
            code=stage_sources("bm25.py"),
        output:
            runs=expand(
                "{root}/runs/bm25.{{recipe}}-{size}/{data}/seed0.trec.gz",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
            costs=expand(
                "{root}/runs/bm25.{{recipe}}-{size}/{data}/seed0.cost.json",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
        log:
            f"{ROOT}/logs/bm25/{dataset_name}.{{recipe}}.log",
        benchmark:
            f"{ROOT}/benchmarks/bm25/{dataset_name}.{{recipe}}.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: 1
        params:
            task=lambda wildcards, input: folder_of(input.task),
            index=f"{ROOT}/indexes/bm25/{dataset_name}.{{recipe}}",
            k1=config["bm25"]["k1"],
            b=config["bm25"]["b"],
            depth=DEPTH,
            sizes=SIZES,
        message:
            f"BM25 on {dataset_name}"
        shell:
            "python workflow_scripts/bm25.py --corpus {params.task}/corpus.parquet --queries {params.task}/queries.parquet"
            " --splits {params.task}/splits.parquet --index-dir {params.index} --k1 {params.k1} --b {params.b}"
            " --depth {params.depth} --threads {threads} --sizes {params.sizes} --runs {output.runs} --costs {output.costs}"
            " --log {log}"

    rule:
        name:
            f"embed_{RULE}"
        input:
            task=task_files(dataset_name),
            retrievers=expand(
                "{root}/retrievers/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}/{file}",
                root=ROOT,
                size=SIZES,
                data=PLAN.trained_on(dataset_name),
                file=["model.safetensors", "heads.safetensors", "pretrieve.json"],
            ),
            code=stage_sources("embed.py"),
        output:
            expand(
                "{root}/embeddings/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}/{file}",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
                file=["corpus.json", "queries.json", "cost.json"],
            ),
        log:
            f"{ROOT}/logs/embed/{dataset_name}/{{encoder}}.{{recipe}}/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/embed/{dataset_name}-{{encoder}}.{{recipe}}-seed{{seed}}.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: 1
        resources:
            gpu=1,
        params:
            task=lambda wildcards, input: folder_of(input.task),
            retrievers=expand(
                "{root}/retrievers/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}",
                root=ROOT,
                size=SIZES,
                data=PLAN.trained_on(dataset_name),
            ),
            out=expand(
                "{root}/embeddings/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
            query_length=PLAN.scale["query_length"],
            passage_length=PLAN.scale["passage_length"],
        message:
            f"Embedding {dataset_name} with {{wildcards.encoder}} ({{wildcards.recipe}}), seed {{wildcards.seed}}"
        shell:
            "python workflow_scripts/embed.py --task {params.task} --retrievers {params.retrievers} --out {params.out}"
            " --query-length {params.query_length} --passage-length {params.passage_length} --threads {threads} --log {log}"

    rule:
        name:
            f"search_{RULE}"
        input:
            task=task_files(dataset_name),
            stores=expand(
                "{root}/embeddings/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}/{file}",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
                file=["corpus.json", "queries.json"],
            ),
            code=stage_sources("search.py"),
        output:
            expand(
                "{root}/runs/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}.trec.gz",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
        log:
            f"{ROOT}/logs/search/{dataset_name}/{{encoder}}.{{recipe}}/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/search/{dataset_name}-{{encoder}}.{{recipe}}-seed{{seed}}.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: 1
        params:
            task=lambda wildcards, input: folder_of(input.task),
            stores=expand(
                "{root}/embeddings/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
            depth=DEPTH,
            sizes=SIZES,
        message:
            f"Searching {dataset_name} with {{wildcards.encoder}} ({{wildcards.recipe}}), seed {{wildcards.seed}}"
        shell:
            "python workflow_scripts/search.py --corpus {params.task}/corpus.parquet --queries {params.task}/queries.parquet"
            " --splits {params.task}/splits.parquet --depth {params.depth} --threads {threads} --stores {params.stores}"
            " --sizes {params.sizes} --runs {output} --log {log}"

    rule:
        name:
            f"evaluate_{RULE}"
        input:
            task=task_files(dataset_name),
            runs=expand(
                "{root}/runs/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}.trec.gz",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
            code=stage_sources("evaluate.py"),
        output:
            expand(
                "{root}/metrics/{{encoder}}.{{recipe}}-{size}/{data}/seed{{seed}}.json",
                root=ROOT,
                size=SIZES,
                data=dataset_name,
            ),
        log:
            f"{ROOT}/logs/evaluate/{dataset_name}/{{encoder}}.{{recipe}}/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/evaluate/{dataset_name}-{{encoder}}.{{recipe}}-seed{{seed}}.tsv"
        wildcard_constraints:
            encoder=PLAN.alternation([*config["encoders"], "bm25"]),
            seed=SEED_OR_BM25,
        conda:
            "../envs/cpu.yaml"
        params:
            task=lambda wildcards, input: folder_of(input.task),
            sizes=SIZES,
            metrics=config["metrics"],
        message:
            f"Scoring {{wildcards.encoder}} ({{wildcards.recipe}}) on {dataset_name}, seed {{wildcards.seed}}"
        shell:
            "python workflow_scripts/evaluate.py --qrels {params.task}/qrels.parquet --splits {params.task}/splits.parquet"
            " --corpus {params.task}/corpus.parquet --runs {input.runs} --sizes {params.sizes} --outputs {output}"
            " --metrics {params.metrics} --log {log}"
