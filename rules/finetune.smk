# Encoder + task (+ negatives, start, teacher) → retrievers, and their scores on the same data set where a table shows them. One
# job serves all training-set sizes that are asked for: a job's start costs as much as a small size's training. Outputs differ
# from task to task and from family to family (encoder and recipe), so families with equal ones have a rule of their own.
# `--threads` occurs twice on the command line: the first is for training, the second for scoring.
# Retrievers are `update`d: a job that runs again for its scores finds the models there, and trains none of them again
# (pretrieve/finetuning/finished_model.py).

for task_name in PLAN.tasks:
    for (sizes, follows), families in PLAN.trainings(task_name).items():

        rule:
            name:
                f"finetune_{rule_name(task_name, sizes, follows)}"
            input:
                encoder=MODELS.encoder_weights,
                task=DATA.task_files(task_name),
                made_of=partial(MODELS.made_of_files, task_name, sizes),
                candidates=DATA.candidate_runs(task_name, sizes) if follows else [],
            output:
                update(
                    MODELS.of_sizes(
                        "retrievers",
                        task_name,
                        sizes,
                        *RETRIEVER_FILES,
                        "cost.json",
                    )
                ),
                SCORES.made(task_name, sizes, follows == "mined") if follows else [],
            log:
                f"{ROOT}/logs/finetune/{task_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/finetune/{task_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["finetune"].threads
            resources:
                **NEEDS["finetune"].resources,
            params:
                code=partial(MODELS.finetuning_code, task_name),
                scoring_code=SCORES.code(task_name) if follows else "",
                encoder=MODELS.encoder_of,
                task=folder_of("task"),
                options=partial(MODELS.family_options, task_name),
                made_of=partial(MODELS.made_of_argument, task_name, sizes),
                sizes=sizes,
                watched=partial(MODELS.watched_sizes, task_name),
                out=MODELS.of_sizes("retrievers", task_name, sizes),
                checkpoints=f"{ROOT}/checkpoints/retrievers/{{family}}/{task_name}/seed{{seed}}",
                afterwards=partial(SCORES.afterwards, task_name, sizes, follows),
            message:
                f"Fine-tuning {{wildcards.family}} on {task_name}, seed {{wildcards.seed}}"
            shell:
                "PRETRIEVE_CODE={params.code} python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/finetune.py"
                " --encoder {params.encoder} --task {params.task}"
                " --options {params.options} --made-of {params.made_of} --sizes {params.sizes} --watched {params.watched}"
                " --out {params.out}"
                " --seed {wildcards.seed} --threads {threads} --checkpoints {params.checkpoints}"
                " {params.afterwards} --threads {threads} --log {log}"
