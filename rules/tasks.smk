# Benchmarks → tasks (Parquet and token stores): one rule for each reader, one job for each data set.

TASK_OUTPUTS = [f"{ROOT}/tasks/{{dataset}}/{name}" for name in PLAN.TASK_FILES]


rule task_squad:
    input:
        tokenizer=TOKENIZER,
        train=lambda wildcards: config["datasets"][wildcards.dataset]["files"]["train"],
        dev=lambda wildcards: config["datasets"][wildcards.dataset]["files"]["dev"],
        test=lambda wildcards: config["datasets"][wildcards.dataset]["files"]["test"],
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("squad")),
    conda:
        "../envs/cpu.yaml"
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
    message:
        "Reading the questions of {wildcards.dataset}"
    shell:
        "python workflow_scripts/task.py squad --tokenizer {input.tokenizer} --train {input.train} --dev {input.dev}"
        " --test {input.test} --sizes {params.sizes} --out {params.out} --log {log}"


rule task_descriptions:
    input:
        tokenizer=TOKENIZER,
        tables=corpus_files(CORPUS, "articles", "sections", "passages"),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("descriptions")),
    conda:
        "../envs/cpu.yaml"
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        corpus=lambda wildcards, input: folder_of(input.tables),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        options=lambda wildcards: task_options(wildcards.dataset),
    message:
        "Making description-to-lead pairs: {wildcards.dataset}"
    shell:
        "python workflow_scripts/task.py descriptions --tokenizer {input.tokenizer} --corpus {params.corpus}"
        " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"


rule task_fanoutqa:
    input:
        tokenizer=TOKENIZER,
        tables=corpus_files(CORPUS, "articles", "sections", "passages"),
        questions=PLAN.source_file("fanoutqa-dev"),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("fanoutqa")),
    conda:
        "../envs/cpu.yaml"
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        corpus=lambda wildcards, input: folder_of(input.tables),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
    message:
        "Reading the human questions of {wildcards.dataset}"
    shell:
        "python workflow_scripts/task.py fanoutqa --tokenizer {input.tokenizer} --corpus {params.corpus}"
        " --questions {input.questions} --sizes {params.sizes} --out {params.out} --log {log}"
