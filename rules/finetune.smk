# Encoder + task (+ negatives, start, teacher) → retrievers, and their scores on the same data set where a table shows them. A rule
# for each set of outputs, and a job for all training-set sizes, often of several families (pretrieve/workflow/joined_jobs.py).
# Retrievers are `update`d: a job that runs again for its scores finds the models there, and trains none of them again.

for training in SEED_JOBS.of(["finetune"], rules_of(PLAN.tasks, PLAN.trainings, PLAN.is_examples)):
    sizes, follows, task_name = training.sizes, training.follows, training.place

    rule:
        name:
            f"finetune_{rule_name(training.places[0], sizes, follows)}{training.suffix}"
        input:
            encoder=training.each(MODELS.encoder_weights),
            task=training.of(DATA.task_files),
            made_of=training.each(partial(MODELS.made_of_files, sizes)),
            candidates=training.of(DATA.candidate_runs, sizes) if follows else [],
        output:
            # What is asked for most is first: Snakemake compiles patterns up to the one that matches.
            (training.files(MODELS.scores_of(training)) if follows else []),
            update(training.files(MODELS.of_sizes("retrievers", task_name, sizes, *RETRIEVER_FILES, "cost.json"))),
            (training.files(MODELS.behind_scores(training)) if follows else []),
        log:
            f"{ROOT}/logs/finetune/{task_name}/{training.label}/{training.seeds.label}.log",
        benchmark:
            f"{ROOT}/benchmarks/finetune/{task_name}-{training.label}-{training.seeds.label}.tsv"
        wildcard_constraints:
            dataset=alternation(training.places),
            family=PLAN.family_pattern(training.families),
            seed=alternation(training.seeds.values),
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS["finetune"].threads
        resources:
            **NEEDS.of_seeds("finetune", training.seeds.number).resources,
        params:
            code=training.each(MODELS.finetuning_code),
            scoring_code=MODELS.scoring_code(training.places[0]) if follows else "",
            words=training.commands("finetune", partial(MODELS.training_words, sizes, follows)),
        message:
            f"Fine-tuning {training.message}"
        shell:
            f"PRETRIEVE_CODE={{params.code}} {LAUNCH} python {SCRIPTS}/finetune.py"
            " {params.words} --each --threads {threads} --log {log}"
