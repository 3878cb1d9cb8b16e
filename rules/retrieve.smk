# BM25: runs, scores and negatives of a data set. Scores of families (encoder and recipe) on a data set that they were not trained
# on (on others: finetune.smk): vectors → runs → scores, or predictions → scores. One job serves all training-set sizes of a
# family; a function cannot give outputs, so each group of families with the same sizes has a rule of its own.

for BM25, tested in alike(PLAN.ranked, PLAN.bm25_systems):

    rule:
        name:
            f"bm25_{rule_name(tested.places[0])}{tested.others}"
        input:
            task=tested.of(DATA.task_files),
        output:
            runs=[paths.run_file(ROOT, system, tested.place, 0) for system in BM25],
            costs=[paths.cost_beside(paths.run_file(ROOT, system, tested.place, 0)) for system in BM25],
            metrics=[paths.metrics_file(ROOT, system, tested.place, 0) for system in BM25],
            negatives=paths.negatives_file(ROOT, "bm25", tested.place, 0),
        log:
            f"{ROOT}/logs/bm25/{tested.place}.log",
        benchmark:
            f"{ROOT}/benchmarks/bm25/{tested.place}.tsv"
        wildcard_constraints:
            dataset=alternation(tested.places),
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["bm25"].threads
        resources:
            **NEEDS["bm25"].resources,
        params:
            code=stage_code("bm25.py"),
            scores=tested.of(DATA.score_arguments, [paths.parse_system(system).size for system in BM25]),
            index=f"{ROOT}/indexes/bm25/{tested.place}",
            k1=tested.of(DATA.bm25_of, "k1"),
            b=tested.of(DATA.bm25_of, "b"),
            language=tested.of(DATA.bm25_of, "language"),
            mined=config["mining_depth"],
            answers=tested.of(DATA.answers_argument),
        message:
            f"BM25 on {tested.place.replace('{', '{wildcards.')}"
        shell:
            "PRETRIEVE_MEMORY_MB={resources.mem_mb}"
            f" python {SCRIPTS}/bm25.py"
            " {params.scores} --index-dir {params.index} --k1 {params.k1} --b {params.b} --language {params.language}"
            " --threads {threads} --runs {output.runs} --costs {output.costs} --outputs {output.metrics}"
            " --negatives {output.negatives} --mining-depth {params.mined} {params.answers} --log {log}"


for search in SEED_JOBS.of(["retrieve", "predict"], rules_of(config["datasets"], PLAN.searches, PLAN.is_examples)):
    STAGE, sizes = MODELS.scoring(search.places[0]), search.sizes

    rule:
        name:
            f"{STAGE}_{rule_name(search.places[0], sizes)}{search.suffix}"
        input:
            task=search.of(DATA.task_files),
            retrievers=search.each(partial(MODELS.scored_models, sizes)),
            candidates=search.of(DATA.candidate_runs, sizes),
        output:
            search.files([*MODELS.scores_of(search), *MODELS.behind_scores(search)]),
        log:
            f"{ROOT}/logs/{STAGE}/{search.place}/{search.label}/{search.seeds.label}.log",
        benchmark:
            f"{ROOT}/benchmarks/{STAGE}/{search.place}-{search.label}-{search.seeds.label}.tsv"
        wildcard_constraints:
            dataset=alternation(search.places),
            family=PLAN.family_pattern(search.families),
            seed=alternation(search.seeds.values),
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS[STAGE].threads
        resources:
            **NEEDS.of_seeds(STAGE, search.seeds.number).resources,
        params:
            code=MODELS.scoring_code(search.places[0]),
            program=STAGE,
            words=search.commands(STAGE, partial(MODELS.scoring_words, sizes, False)),
        message:
            f"Scoring {search.message}"
        shell:
            f"{LAUNCH} python {SCRIPTS}/{{params.program}}.py {{params.words}} --each --threads {{threads}} --log {{log}}"


# Negatives that no training of this run uses: made only if they are named.
for mining in SEED_JOBS.of(["mine"], rules_of(sorted({*PLAN.tasks} & {*PLAN.ranked}), PLAN.minings, PLAN.is_examples)):
    sizes = mining.sizes

    rule:
        name:
            f"mine_{rule_name(mining.places[0], sizes)}{mining.others}"
        input:
            task=mining.of(DATA.task_files),
            retrievers=mining.each(partial(MODELS.scored_models, sizes)),
            stores=mining.files(MODELS.of_sizes("embeddings", mining.place, sizes, *STORE_FILES)),
        output:
            mining.files(MODELS.of_sizes("negatives", mining.place, sizes, ".jsonl.gz")),
        log:
            f"{ROOT}/logs/mine/{mining.place}/{mining.label}/{mining.seeds.label}.log",
        benchmark:
            f"{ROOT}/benchmarks/mine/{mining.place}-{mining.label}-{mining.seeds.label}.tsv"
        wildcard_constraints:
            dataset=alternation(mining.places),
            family=PLAN.family_pattern(mining.families),
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS["mine"].threads
        resources:
            **NEEDS["mine"].resources,
        params:
            code=stage_code("mine.py"),
            words=mining.commands("mine", partial(MODELS.mining_words, sizes)),
        message:
            f"Mining negatives with {mining.message}"
        shell:
            f"{LAUNCH} python {SCRIPTS}/mine.py {{params.words}} --threads {{threads}} --out {{output}} --log {{log}}"


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
        mean=alternation(PLAN.means),
        seed=alternation([*map(str, SEEDS), "0"]),  # 0: BM25
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
        f"python {SCRIPTS}/mean.py --parts {{params.parts}} --metrics {{input.parts}} --out {{output}} --log {{log}}"
