# Encoder + task (+ negatives, start, teacher) → retrievers, and their scores on the same data set where a table shows them. One
# job serves all training-set sizes that are asked for, and at scales of small models several families, for a job's start costs
# as much as a small training (pretrieve/workflow/joined_jobs.py). Outputs differ from task to task and from family to family
# (encoder and recipe), so families with equal ones have a rule of their own.
# Retrievers are `update`d: a job that runs again for its scores finds the models there, and trains none of them again
# (pretrieve/finetuning/finetune.py).

for task_name in PLAN.tasks:
    for training in PLAN.trainings(task_name):
        sizes, follows = training.sizes, training.follows

        rule:
            name:
                f"finetune_{rule_name(task_name, sizes, follows)}{training.suffix}"
            input:
                encoder=training.each(MODELS.encoder_weights),
                task=DATA.task_files(task_name),
                made_of=training.each(partial(MODELS.made_of_files, task_name, sizes)),
                candidates=DATA.candidate_runs(task_name, sizes) if follows else [],
            output:
                update(
                    training.files(
                        MODELS.of_sizes(
                            "retrievers",
                            task_name,
                            sizes,
                            *RETRIEVER_FILES,
                            "cost.json",
                        )
                    )
                ),
                (
                    training.files(SCORES.made(task_name, sizes, follows == "mined"))
                    if follows
                    else []
                ),
            log:
                f"{ROOT}/logs/finetune/{task_name}/{training.label}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/finetune/{task_name}-{training.label}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(training.families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["finetune"].threads
            resources:
                **NEEDS["finetune"].resources,
            params:
                code=training.each(partial(MODELS.finetuning_code, task_name)),
                scoring_code=SCORES.code(task_name) if follows else "",
                words=training.commands(
                    "finetune",
                    partial(SCORES.training_words, task_name, sizes, follows),
                ),
            message:
                f"Fine-tuning {training.label.replace('{', '{wildcards.')} on {task_name}, seed {{wildcards.seed}}"
            shell:
                "PRETRIEVE_CODE={params.code} python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/finetune.py {{params.words}} --each --threads {{threads}} --log {{log}}"
